package shard

import (
	"context"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history"
)

// startState reports what became of a start. The order of its reads matters: an input moves from the stream to the inbox, and with a commit
// from there to the record and the history, so a start that is in none of them, read in this order, was dropped. Only the head of a long inbox
// is read; the start may be in the rest.
func (qs *queries) startState(ctx context.Context, q *request.Start) (request.Reply, error) {
	r := new(request.StartState)
	begun := func() (*record.Record, error) {
		rec, err := qs.process.store.Record(ctx, qs.shell.st.Part, q.Instance)
		if err == nil && rec != nil && (q.Seq == 0 || rec.Origin.Seq == q.Seq) {
			r.State = request.StartBegun
		}
		return rec, err
	}
	if _, err := begun(); err != nil || r.State == request.StartBegun { // the common case
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
	delayed := rec != nil && rec.Status == record.Pending && rec.Events == 0 && !q.Restart
	if mayBeUnread(at, delayed, record.Truncated(inbox)) {
		return r, nil
	}
	switch {
	case at == 0: // the start of the delayed instance itself
		r.State = request.StartBegun
	case at > 0: // another start, after that of the delayed instance
		r.State = request.StartTaken
	case rec == nil:
		r.State = request.StartGone
	case q.Restart && rec.Origin.Seq > q.Seq: // a restart always begins; a later one has replaced its instance
		r.State = request.StartBegun
	default:
		r.State, err = qs.startOf(ctx, q, rec)
	}
	return r, err
}

// mayBeUnread reports whether a start is in the inbox, or may be in the part that was not read. For a delayed instance this does not matter:
// its own start is at the head, and any other start finds the id taken.
func mayBeUnread(at int, delayed, truncated bool) bool { return !delayed && (at >= 0 || truncated) }

// startOf reports whether an instance was begun by an earlier copy of the start.
func (qs *queries) startOf(ctx context.Context, q *request.Start, rec *record.Record) (request.StartStatus, error) {
	first, err := qs.process.store.RawHistory(ctx, qs.shell.st.Part, q.Instance, rec.Execution, 0, 1)
	if err != nil || len(first) == 0 || q.ID == "" {
		return request.StartTaken, err
	}
	if ev, err := eventcodec.Decode(1, first[0]); err == nil {
		if s, ok := ev.(*history.Started); ok && s.MsgID == q.ID {
			return request.StartBegun, nil
		}
	}
	return request.StartTaken, nil
}

// startUnread returns the index in an inbox of the requested start, or of an earlier copy of it; of the first start if the request names none;
// and -1 if there is no such start.
func startUnread(inbox [][]byte, q *request.Start) int {
	for i, b := range inbox {
		el, err := eventcodec.ParseElement(b)
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

// startOptions sets the options of the start in a description, from the history, or from a start that is not due yet.
func startOptions(d *request.Description, l record.Loaded, state *fold.State) {
	d.Deadline = state.Deadline()
	if s := nextStart(l); s != nil && state.Len == 0 {
		d.StartAt, d.Deadline = s.StartAt, s.Deadline
	}
}

// nextStart returns the first unread input if it is a start, otherwise nil.
func nextStart(l record.Loaded) *history.Started {
	if len(l.Unread) == 0 {
		return nil
	}
	s, _ := unreadEvent(l.Unread[0]).(*history.Started)
	return s
}

// unreadEvent decodes the event of an inbox element. It returns nil if it cannot be decoded.
func unreadEvent(element []byte) history.Event {
	el, err := eventcodec.ParseElement(element)
	if err != nil {
		return nil
	}
	ev, err := el.Event()
	if err != nil {
		return nil
	}
	return ev
}
