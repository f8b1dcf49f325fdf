package shard

import (
	"bytes"
	"errors"
	"slices"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/transport"
)

// direct holds slots of workers in this process, reserved for the activities that outstanding commits schedule. See queue.Local. Only the
// goroutine of the partition uses it.
type direct struct {
	slot     func(queue, activity, instance string) *transport.Reservation
	reserved map[string][]reserved // by instance, for its outstanding commit
}

type reserved struct {
	*transport.Reservation
	task transport.Task // the fields that identify its lease
}

func newDirect(slot func(queue, activity, instance string) *transport.Reservation) *direct {
	return &direct{slot: slot, reserved: make(map[string][]reserved)}
}

// claim returns the commit of an effect, extended by claims for the slots that are reserved for it. A commit that is sent again has the same
// claims.
func (d *direct) claim(e *core.Effect) *record.Commit {
	if len(e.Commit.Create) == 0 {
		return e.Commit
	}
	held, repeated := d.reserved[e.ID]
	if !repeated {
		if held = d.reserve(e); len(held) == 0 {
			return e.Commit
		}
		d.reserved[e.ID] = held
	}
	c := *e.Commit
	c.Create = slices.Clone(c.Create)
	for _, r := range held {
		i := slices.IndexFunc(c.Create, func(l record.Lease) bool { return l.Activity == r.task.Activity })
		c.Create[i].Claim = &record.Claim{Token: r.Token, Worker: r.Worker, TTL: r.TTL}
	}
	return &c
}

// reserve reserves a slot, if one is free, for each activity that the commit schedules without a limit and does not also cancel.
func (d *direct) reserve(e *core.Effect) (held []reserved) {
	for act := range e.Decided.Runnable {
		if cancelled := slices.ContainsFunc(e.Commit.Delete, func(l record.Lease) bool { return l.Activity == act.ID }); cancelled {
			continue
		}
		if r := d.slot(act.Queue, act.Name, e.ID); r != nil {
			held = append(held, reserved{r, transport.Task{
				Instance: e.ID, Execution: e.Commit.Execution, Activity: act.ID, Effect: act.Effect, Name: act.Name, Queue: act.Queue,
			}})
		}
	}
	return held
}

// run runs the task of a committed activity on its reserved slot, and reports whether there is one.
func (d *direct) run(t transport.Task) bool {
	held := d.reserved[t.Instance]
	i := slices.IndexFunc(held, func(r reserved) bool { return r.task.Activity == t.Activity && r.task.Effect == t.Effect })
	if i < 0 {
		return false
	}
	r := held[i]
	d.reserved[t.Instance] = slices.Delete(held, i, i+1)
	t.Payload.Data = bytes.Clone(t.Payload.Data) // a handler may change its input
	r.Run(t)
	return true
}

// commitAnswered drops the slots of an answered commit that have run no task. A commit whose outcome is unknown is sent again, and retains
// its slots.
func (d *direct) commitAnswered(instance string, err error) {
	for _, certain := range []error{nil, record.ErrConflict, record.ErrFenced, record.ErrRolledBack, record.ErrRefused} {
		if errors.Is(err, certain) {
			d.drop(instance)
			return
		}
	}
}

func (d *direct) drop(instance string) {
	for _, r := range d.reserved[instance] {
		r.Drop(r.task)
	}
	delete(d.reserved, instance)
}

// close drops all slots at the end of the tenure.
func (d *direct) close() {
	for instance := range d.reserved {
		d.drop(instance)
	}
}
