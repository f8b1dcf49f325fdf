package crash

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/tests/crash/work"
)

// finalState is the final state of an instance in the store.
type finalState struct {
	id     string
	rec    *record.Record
	events []history.Event // events of its last execution
	end    history.Event
	inbox  uint64
}

// instances reads all instances of the namespace.
func (f *family) instances() (map[string]*finalState, error) {
	ctx, stop := context.WithTimeout(f.ctx, 10*time.Second)
	defer stop()
	all := map[string]*finalState{}
	for p := range f.Partitions {
		for page := (store.Page{More: true}); page.More; {
			var err error
			page, err = f.Store.List(ctx, p, store.ListQuery{Statuses: record.Statuses(), Updated: page.Updated, Instance: page.Instance, Limit: 500})
			if err != nil {
				return nil, err
			}
			for _, row := range page.Rows {
				rec, err := f.Store.Record(ctx, p, row.Instance)
				if err != nil {
					return nil, err
				}
				if rec != nil { // otherwise it was purged in the meantime
					all[row.Instance] = &finalState{id: row.Instance, rec: rec}
				}
			}
		}
	}
	for id, r := range all {
		var bad [3]error
		p := transport.PartitionOf(id, f.Partitions)
		r.events, bad[0] = f.Store.History(ctx, p, id, r.rec.Execution)
		r.inbox, bad[1] = f.Store.InboxLen(ctx, p, id)
		r.end, bad[2] = r.rec.EndEvent()
		if err := errors.Join(bad[:]...); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// running returns the instances that have not ended. ok is false if Redis does not answer.
func (f *family) running() (ids []string, ok bool) {
	ctx, stop := context.WithTimeout(f.ctx, 2*time.Second)
	defer stop()
	for p := range f.Partitions {
		page, err := f.Store.List(ctx, p, store.ListQuery{Statuses: []record.Status{record.Running}, Limit: 500})
		if err != nil {
			return nil, false
		}
		for _, row := range page.Rows {
			ids = append(ids, row.Instance)
		}
	}
	return ids, true
}

// rootOf returns the ancestor from which an id is derived.
func rootOf(id string) string {
	id, _, _ = strings.Cut(id, "~")
	return id
}

// settled waits until all instances, except for some and their children, have ended without pending messages or unread
// inputs, and parents and children agree about each other.
func (f *family) settled(except ...string) map[string]*finalState {
	f.t.Helper()
	var all map[string]*finalState
	var wrong []string
	var still []string
	defer func() {
		if f.t.Failed() {
			f.t.Log("still running:", still)
			for _, w := range wrong {
				id, _, _ := strings.Cut(w, " ")
				f.t.Log(w + "\n" + f.describe(id))
			}
		}
	}()
	tick := time.Now()
	f.until("all instances have settled", func() bool {
		var ok bool
		if still, ok = f.running(); !ok || slices.ContainsFunc(still, func(id string) bool { return !slices.Contains(except, rootOf(id)) }) {
			return false
		}
		if time.Since(tick) < 50*time.Millisecond {
			return false
		}
		tick = time.Now()
		var err error
		if all, err = f.instances(); err != nil {
			wrong = []string{err.Error()}
			return false
		}
		wrong = f.violations(all)
		return len(wrong) == 0
	})
	return all
}

// violations returns the violated expectations of the final state.
func (f *family) violations(all map[string]*finalState) (bad []string) {
	report := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	children := 0
	for _, id := range slices.Sorted(maps.Keys(all)) {
		r := all[id]
		if r.inbox > 0 || r.rec.HasPendingMessages() {
			report("%s has %d unread inputs, has published up to %s and produced up to %s", id, r.inbox, r.rec.Published, r.rec.Produced)
		}
		want := record.Completed
		switch r.rec.Name {
		case work.Child.Name():
			children++
			if n := count[*history.EventSent](r.events); n != 1 {
				report("%s has sent %d notes", id, n)
			}
		case work.EndlessChild.Name():
			want = record.Cancelled
		case work.CancelledParent.Name():
			want = record.Cancelled
		}
		if r.rec.Status != want && r.rec.Status.Ended() {
			report("%s (%s) is %s: %+v", id, r.rec.Name, r.rec.Status, r.end)
		}
		f.checkChildren(r, all, report)
		f.checkParent(r, all, report)
	}
	if want := 5*len(f.inputs) + len(f.cancelledInputs); children != want {
		report("there are %d children, want %d", children, want)
	}
	return bad
}

func count[E history.Event](events []history.Event) (n int) {
	for _, e := range events {
		if _, ok := e.(E); ok {
			n++
		}
	}
	return n
}

// checkChildren compares the history of an instance with the outcomes of its children.
func (f *family) checkChildren(r *finalState, all map[string]*finalState, report func(string, ...any)) {
	for _, e := range r.events {
		s, ok := e.(*history.ChildScheduled)
		if !ok {
			continue
		}
		c := all[s.Instance]
		if c == nil {
			// If the turn that scheduled it also cancelled it, it may never have been started; but then nothing waits for
			// it.
			if unread, err := f.Store.InboxLen(f.ctx, transport.PartitionOf(s.Instance, f.Partitions), s.Instance); err != nil || unread > 0 || !cancelledAtOnce(r.events, s.ID) {
				report("%s has started %s, which does not exist and has %d unread inputs (%v)", r.id, s.Instance, unread, err)
			}
			continue
		}
		mine := c.rec.Parent != nil && *c.rec.Parent == history.Parent{
			Instance: r.id, Origin: r.rec.Origin, Execution: r.rec.Execution, Event: s.ID, Effect: s.Effect,
		}
		switch end := answer(r.events, s.ID).(type) {
		case *history.ChildCompleted:
			done, ok := c.end.(*history.Completed)
			if !mine || !ok || string(done.Result.Data) != string(end.Result.Data) {
				report("%s recorded that child %s has completed with %q; it is its child: %v, and has ended with %+v", r.id, s.Instance, end.Result.Data, mine, c.end)
			}
		case *history.ChildFailed:
			switch {
			case end.Failure.Code == history.CodeIDTaken && mine:
				report("%s recorded that the id of its own child %s is taken", r.id, s.Instance)
			case end.Failure.Code != history.CodeIDTaken && !mine:
				report("%s recorded the end of %s, which is not its child: %+v", r.id, s.Instance, end.Failure)
			}
		default: // cancelled, abandoned or detached
			if !s.Detached && !mine {
				report("%s has started %s, which is the child of another instance: %+v", r.id, s.Instance, c.rec.Parent)
			}
		}
	}
}

// answer returns the event with the outcome of a child in the history of its parent, or nil.
func answer(events []history.Event, scheduled uint64) history.Event {
	for _, e := range events {
		switch e := e.(type) {
		case *history.ChildCompleted:
			if e.Scheduled == scheduled {
				return e
			}
		case *history.ChildFailed:
			if e.Scheduled == scheduled {
				return e
			}
		}
	}
	return nil
}

func cancelledAtOnce(events []history.Event, scheduled uint64) bool {
	return slices.ContainsFunc(events, func(e history.Event) bool {
		c, ok := e.(*history.ChildCancelRequested)
		return ok && c.Scheduled == scheduled
	})
}

// checkParent finds the event in the history of its parent that started an instance.
func (f *family) checkParent(r *finalState, all map[string]*finalState, report func(string, ...any)) {
	p := r.rec.Parent
	if p == nil {
		return
	}
	parent := all[p.Instance]
	switch {
	case parent == nil || parent.rec.Origin != p.Origin:
		report("%s is the child of %+v, which does not exist", r.id, p)
	case parent.rec.Execution != p.Execution: // the execution that started it has been replaced
	case uint64(len(parent.events)) < p.Event:
		report("%s is the child of a lost turn: %+v", r.id, p)
	default:
		if s, ok := parent.events[p.Event-1].(*history.ChildScheduled); !ok || s.Effect != p.Effect || s.Instance != r.id {
			report("%s is the child of another decision than %T %+v: %+v", r.id, parent.events[p.Event-1], parent.events[p.Event-1], p)
		}
	}
}

// totals compares the counts with the notes that were sent.
func (f *family) totals(all map[string]*finalState) {
	f.t.Helper()
	var want []string
	sum := 0
	for i := range f.notes {
		want, sum = append(want, noteID(i)), sum+i
	}
	for id, r := range all {
		if r.rec.Name != work.Child.Name() {
			continue
		}
		want = append(want, id)
		if done, ok := r.end.(*history.Completed); ok {
			n, err := author.Result(work.Child).Decode(done.Result)
			f.must(err)
			sum += n - 1 // its note was sent one step earlier
		}
	}
	slices.Sort(want)
	for _, id := range []string{work.RelayID, work.CounterID} {
		done, ok := all[id].end.(*history.Completed)
		if !ok {
			f.t.Errorf("%s has ended with %+v", id, all[id].end)
			continue
		}
		got, err := author.Result(work.Counter).Decode(done.Result)
		f.must(err)
		slices.Sort(got.IDs)
		if !slices.Equal(got.IDs, want) || got.Sum != sum {
			f.t.Errorf("%s has counted %d from %d notes, want %d from %d:\n%q\nwant\n%q", id, got.Sum, len(got.IDs), sum, len(want), got.IDs, want)
		}
	}
}

// cancelled waits until the context of every endless activity has ended, in all processes that are still running.
func (f *family) cancelled() {
	f.t.Helper()
	alive := map[string]bool{}
	for _, p := range f.Processes {
		select {
		case <-p.Ended():
		default:
			alive[strconv.Itoa(p.Pid())] = true
		}
	}
	missing := func() (running [][]string) {
		ended := map[string]bool{}
		for _, l := range f.lines("cancelled") {
			ended[l[3]+l[4]] = true
		}
		for _, l := range f.lines("began") {
			if alive[l[4]] && !ended[l[3]+l[4]] {
				running = append(running, l)
			}
		}
		return running
	}
	defer func() {
		if f.t.Failed() {
			f.t.Log("not cancelled:", missing())
		}
	}()
	poll.Until(f.t, within, "the context of every cancelled activity has ended", func() bool { return len(missing()) == 0 })
}

// checkRuns checks that every step of the surviving histories was run under its own key.
func (f *family) checkRuns(all map[string]*finalState) {
	f.t.Helper()
	run := map[string]bool{}
	for _, l := range f.lines("step") {
		run[l[3]] = true
	}
	for id, r := range all {
		for _, e := range r.events {
			if s, ok := e.(*history.ActivityScheduled); ok && s.Name == work.Step.Name() && r.rec.Status == record.Completed && !run[s.Effect] {
				f.t.Errorf("%s: step %d has completed without a run", id, s.ID)
			}
		}
	}
}

// describesNothingPending compares the descriptions by the owners with the state that was read from Redis.
func (f *family) describesNothingPending(all map[string]*finalState) {
	f.t.Helper()
	for id := range all {
		var d client.Description
		f.until(id+" is described", func() bool {
			var err error
			d, err = f.Client.Describe(f.ctx, id)
			return err == nil
		})
		if d.PendingMessages != 0 || d.UnreadInputs != 0 || len(d.Children) != 0 || d.Stalled != "" {
			f.t.Errorf("%s has %d pending messages, %d unread inputs, %d children, and is stalled: %q", id, d.PendingMessages, d.UnreadInputs, len(d.Children), d.Stalled)
		}
	}
}
