package shard

import (
	"context"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
)

// startState answers what has become of a start. The order of the readings matters: an input moves from the stream into the inbox, and
// with a commit from there into record and history, so what is in none of them, read in this order, has been dropped. Of a long inbox the
// head is read: the start may be behind that.
func (qs *queries) startState(ctx context.Context, q *request.Start) (request.Reply, error) {
	r := new(request.StartState)
	begun := func() (*store.Record, error) {
		rec, err := qs.process.store.Record(ctx, qs.shell.st.Part, q.Instance)
		if err == nil && rec != nil && (q.Seq == 0 || rec.Origin.Seq == q.Seq) {
			r.State = request.StartBegun
		}
		return rec, err
	}
	if _, err := begun(); err != nil || r.State == request.StartBegun { // as most have
		return r, err
	}
	applied, err := qs.process.store.Applied(ctx, qs.shell.st.Part)
	if err != nil || applied.Seq < q.Accepted {
		return r, err
	}
	inbox, err := qs.process.store.Unread(ctx, qs.shell.st.Part, q.Instance)
	if err != nil {
		return nil, err
	}
	rec, err := begun()
	if err != nil || r.State == request.StartBegun {
		return r, err
	}
	at := startUnread(inbox, q)
	delayed := rec != nil && rec.Status == store.Pending && rec.Events == 0 && !q.Restart
	if waits(at, delayed, record.Truncated(inbox)) {
		return r, nil
	}
	switch {
	case at == 0: // it is the delayed one
		r.State = request.StartBegun
	case at > 0: // behind that, which has the id
		r.State = request.StartTaken
	case rec == nil:
		r.State = request.StartGone
	case q.Restart && rec.Origin.Seq > q.Seq: // it has begun, as such a start always does, and its instance was replaced since
		r.State = request.StartBegun
	default:
		r.State, err = qs.startOf(ctx, q, rec)
	}
	return r, err
}

// waits reports a start that is unread: at its place in the inbox, or maybe behind the part that was read. The start at the head of the
// inbox of a delayed instance has the id, so any other is taken.
func waits(at int, delayed, truncated bool) bool { return !delayed && (at >= 0 || truncated) }

// startOf reports whether an instance is that of an earlier copy of the start.
func (qs *queries) startOf(ctx context.Context, q *request.Start, rec *store.Record) (request.StartStatus, error) {
	first, err := qs.process.store.RawHistory(ctx, qs.shell.st.Part, q.Instance, rec.Execution, 0, 1)
	if err != nil || len(first) == 0 || q.ID == "" {
		return request.StartTaken, err
	}
	if ev, err := history.Decode(1, first[0]); err == nil {
		if s, ok := ev.(*history.Started); ok && s.MsgID == q.ID {
			return request.StartBegun, nil
		}
	}
	return request.StartTaken, nil
}

// startUnread returns the place in an inbox of the start, or if none is asked for of any: of the message itself, or an earlier copy.
// -1: it is not there.
func startUnread(inbox [][]byte, q *request.Start) int {
	for i, b := range inbox {
		el, err := history.ParseElement(b)
		if err != nil || !strings.HasPrefix(el.ID, "!") {
			continue
		}
		if q.Seq == 0 || strings.HasPrefix(el.ID, "!s"+strconv.FormatUint(q.Seq, 10)+".") {
			return i
		}
		if ev, err := el.Event(); err == nil && q.ID != "" {
			if s, ok := ev.(*history.Started); ok && s.MsgID == q.ID {
				return i
			}
		}
	}
	return -1
}

// startOptions are the options of the start that a description shows: those of the history, or of the start that is not due yet.
func startOptions(d *request.Description, l store.Loaded, state *history.State) {
	d.Deadline = state.Deadline()
	if s := nextStart(l); s != nil && state.Len == 0 {
		d.StartAt, d.Deadline = s.StartAt, s.Deadline
	}
}

// nextStart returns the start that is the first unread input; nil: it is another one.
func nextStart(l store.Loaded) *history.Started {
	if len(l.Unread) == 0 {
		return nil
	}
	el, err := history.ParseElement(l.Unread[0])
	if err != nil {
		return nil
	}
	ev, _ := el.Event()
	s, _ := ev.(*history.Started)
	return s
}
