package core_test

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/imported"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

// interactionPrograms returns the orchestrations of the interactions.
func interactionPrograms() (*author.Registry, error) {
	reserve, shipped := pawl.NewActivity[string, string]("reserve"), pawl.NewEvent[string]("shipped")
	handle := pawl.NewOrchestration[string, string]("fulfil")
	parent := pawl.NewOrchestration[string, string]("parent").Do(func(ctx *pawl.Context, in string) (string, error) {
		return handle.Call(ctx, in, pawl.ID("child"))
	})
	fulfil := handle.Do(func(ctx *pawl.Context, in string) (string, error) { return reserve.Call(ctx, in) })
	await := pawl.NewOrchestration[string, string]("await").Do(func(ctx *pawl.Context, _ string) (string, error) {
		if _, err := shipped.Receive(ctx); err != nil {
			return "", err
		}
		return shipped.Receive(ctx)
	})
	limited := pawl.NewActivity[string, string]("limited", pawl.Concurrency(1))
	bounded := pawl.NewOrchestration[string, string]("bounded").Do(func(ctx *pawl.Context, in string) (string, error) { return limited.Call(ctx, in) })
	kept := pawl.NewOrchestration[string, string]("kept").Do(func(ctx *pawl.Context, in string) (string, error) {
		if _, err := shipped.Receive(ctx); err != nil {
			return "", err
		}
		return limited.Call(ctx, in, pawl.Retry{Attempts: 3, Initial: time.Minute}, pawl.KeepSlot())
	})
	sweep := pawl.NewOrchestration[string, string]("sweep").Do(func(ctx *pawl.Context, in string) (string, error) {
		if _, err := reserve.Call(ctx, in); err != nil {
			return "", err
		}
		events, err := shipped.Drain(ctx)
		return fmt.Sprint(len(events)), err
	})
	approve := pawl.NewUpdate[string, string]("approve")
	tidy := pawl.NewOrchestration[string, string]("tidy", pawl.Concurrency(1)).Do(func(ctx *pawl.Context, _ string) (string, error) {
		events, err := shipped.Drain(ctx)
		return fmt.Sprint(len(events)), err
	})
	ask := pawl.NewOrchestration[string, string]("ask").Do(func(ctx *pawl.Context, _ string) (string, error) {
		u, err := approve.Next(ctx).Get(ctx)
		if err != nil {
			return "", err
		}
		if _, err := reserve.Call(ctx, u.Input); err != nil {
			return "", err
		}
		return "", u.Answer(ctx, "done")
	})
	ship := pawl.NewOrchestration[string, string]("ship").Do(func(ctx *pawl.Context, in string) (string, error) {
		if _, err := shipped.Receive(ctx); err != nil {
			return "", err
		}
		return handle.Call(ctx, in, pawl.ID("child"))
	})
	undo := pawl.NewOrchestration[string, string]("undo").Do(func(ctx *pawl.Context, in string) (string, error) {
		out, err := reserve.Call(ctx, in)
		if err != nil {
			_, err = reserve.Call(pawl.Detach(ctx), in)
		}
		return out, err
	})
	pair := pawl.NewOrchestration[string, string]("pair").Do(func(ctx *pawl.Context, in string) (string, error) {
		first, second := reserve.Start(ctx, in), reserve.Start(ctx, in)
		if _, err := first.Get(ctx); err != nil {
			return "", err
		}
		return second.Get(ctx)
	})
	restarted := pawl.NewOrchestration[string, string]("again")
	again := restarted.Do(func(ctx *pawl.Context, in string) (string, error) {
		if _, err := shipped.Receive(ctx); err != nil {
			return "", err
		}
		if in == "last" {
			return reserve.Call(ctx, in)
		}
		return restarted.ContinueAsNew(ctx, "last")
	})
	nap := pawl.NewOrchestration[string, string]("nap").Do(func(ctx *pawl.Context, in string) (string, error) { return in, pawl.Sleep(ctx, time.Minute) })
	broadcast := author.BindOrchestration(author.Orchestration{Name: "broadcast", Program: func(x *replay.Code) replay.Ending {
		sent := x.Broadcast(&history.Broadcast{Verb: "pause", Instances: []string{"a", "b", "c"}, Text: "stocktaking"}, nil)
		if err := errors.Join(sent, x.Wait(x.Timer(time.Minute, nil), nil)); err != nil {
			return replay.Ending{Failure: author.ToFailure(err)}
		}
		return replay.Ending{}
	}})
	return author.NewRegistry[author.Binding](fulfil, await, parent, bounded, nap, sweep, ask, ship, tidy, kept, broadcast, undo, again, pair)
}

// stored is the stored state of an instance.
type stored struct {
	rec    *record.Record
	events []history.Event
	inbox  [][]byte
}

// rollBack saves the state of the store, or restores the saved state. The stream keeps its inputs, and the number of commits continues from
// the saved one.
func (x *interaction) rollBack(save bool) []string {
	from := x.saved
	if save {
		from = x.stored
	}
	to := make(map[string]*stored)
	for id, s := range from {
		c := &stored{events: slices.Clone(s.events), inbox: slices.Clone(s.inbox)}
		if s.rec != nil {
			rec := *s.rec
			c.rec = &rec
		}
		to[id] = c
	}
	if save {
		x.saved, x.savedNumber = to, x.number
	} else {
		x.stored, x.number = to, x.savedNumber
	}
	return nil
}

func (s *stored) load() record.Loaded {
	l := record.Loaded{Events: s.events, Unread: s.inbox}
	if s.rec == nil {
		return l
	}
	rec := *s.rec
	if l.Record = &rec; rec.Status.Ended() {
		l.Events = nil
		if rec.HasPendingMessages() {
			l.Previous = s.events
		}
	}
	return l
}

func (s *stored) head() string {
	if s.rec == nil {
		return ""
	}
	return s.rec.Head
}

// importOf returns an import of an instance of fulfil that has completed, or whose activity is running.
func (x *interaction) importOf(id string, completed bool) message.Input {
	events := []history.Event{
		&history.Started{Name: "fulfil", Payload: history.Payload{Type: history.TypeJSON, Data: []byte(`"x"`)}, Origin: history.Position{Seq: 700, Time: 7}, Execution: 3},
		&history.ActivityScheduled{Name: "reserve", Queue: "reserve", Payload: history.Payload{Type: history.TypeJSON, Data: []byte(`"x"`)}, Effect: "there", Attempt: 1},
	}
	if completed {
		result := history.Payload{Type: history.TypeJSON, Data: []byte(`"y"`)}
		events = append(events, &history.ActivityCompleted{Scheduled: 2, Result: result}, &history.Completed{Result: result})
	}
	m := imported.Instance{Instance: "order-1"}
	for i, ev := range events {
		*ev.Meta() = history.Head{ID: uint64(i) + 1, At: 1}
		b, err := eventcodec.Encode(ev)
		if err != nil {
			x.t.Fatal(err)
		}
		m.Events = append(m.Events, b)
	}
	p, err := m.Payload()
	if err != nil {
		x.t.Fatal(err)
	}
	return message.Input{Instance: id, Kind: message.KindStart, Name: message.ImportName, Payload: p, Reuse: history.ReuseReject, ID: "import"}
}

// importOfNewer returns an import in the format of a newer build.
func (x *interaction) importOfNewer(id string) message.Input {
	var b bytes.Buffer
	z, err := flate.NewWriter(&b, flate.BestSpeed)
	if err == nil {
		_, err = z.Write([]byte{0x94, 2, 0xa1, 'a', 0xa0, 0x90})
	}
	if err = errors.Join(err, z.Close()); err != nil {
		x.t.Fatal(err)
	}
	p := history.Payload{Type: imported.ContentType, Data: b.Bytes()}
	return message.Input{Instance: id, Kind: message.KindStart, Name: message.ImportName, Payload: p, Reuse: history.ReuseReject, ID: "import"}
}

// source returns the history and the inbox of an instance.
func (s *stored) source(t *testing.T) record.RewindSource {
	src := record.RewindSource{Inbox: slices.Clone(s.inbox)}
	for _, ev := range s.events {
		b, err := eventcodec.Encode(ev)
		if err != nil {
			t.Fatal(err)
		}
		src.Events = append(src.Events, b)
	}
	return src
}

func (x *interaction) rewind(s *stored, w *record.Rewind) (record.Committed, error) {
	switch {
	case s.head() == w.NewHead: // a repeat
	case s.head() != w.Head:
		return record.Committed{}, fmt.Errorf("head is %q: %w", s.head(), record.ErrConflict)
	case slices.ContainsFunc(s.inbox[min(w.Read, len(s.inbox)):], func(el []byte) bool { return el[0] == 'a' }):
		return record.Committed{}, fmt.Errorf("inbox: %w", record.ErrConflict)
	case slices.ContainsFunc(w.Results, func(e record.Placed) bool { return !bytes.HasPrefix(s.inbox[e.Place], []byte(e.ID+"\n")) }):
		return record.Committed{}, fmt.Errorf("result: %w", record.ErrConflict)
	default:
		rec := *s.rec
		rec.Execution, rec.Status, rec.Head, rec.Events, rec.Control = w.Execution+1, w.To, w.NewHead, w.Keep, w.Control
		rec.Unanswered = w.Unanswered
		rec.Ended, rec.End, rec.Retained = 0, nil, record.AdvanceRetained(rec.Retained, w.Release, w.Retain)
		s.rec, s.events, s.inbox = &rec, slices.Clone(s.events[:w.Keep]), slices.Concat(w.Prepend, s.inbox)
		x.number++
	}
	return record.Committed{Now: x.now.UnixMilli(), Number: x.number}, nil
}

func (x *interaction) commit(s *stored, c *record.Commit) (record.Committed, error) {
	switch {
	case c.NewHead != "" && s.head() == c.NewHead: // a repeat
	case s.head() != c.Head:
		return record.Committed{}, fmt.Errorf("head is %q: %w", s.head(), record.ErrConflict)
	default:
		for _, id := range c.Pop {
			if el, err := eventcodec.ParseElement(s.inbox[0]); err != nil || el.ID != id {
				x.t.Fatalf("the commit pops %q, and the inbox begins with %q: %v", id, el.ID, errors.Join(err))
			}
			s.inbox = s.inbox[1:]
		}
		for _, b := range c.Events {
			ev, err := eventcodec.Decode(uint64(len(s.events)+1), b)
			if err != nil {
				x.t.Fatal(err)
			}
			s.events = append(s.events, ev)
		}
		if len(c.Prepend) > 0 { // the next execution
			s.events, s.inbox = nil, slices.Concat(c.Prepend, s.inbox)
		}
		if c.NewHead != "" {
			rec := *c.Record
			s.rec = (&record.Commit{Record: &rec, NewHead: c.NewHead, Retain: c.Retain, Release: c.Release}).Advance(s.rec)
			s.rec.Events = uint64(len(s.events))
		}
		x.number++
	}
	return record.Committed{Now: x.now.UnixMilli(), Unread: s.inbox, Number: x.number}, nil
}
