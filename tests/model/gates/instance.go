package gates

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawlrun/pawl/internal/memlimit"
)

// The statuses of an instance; empty: its start has not been turned.
const (
	Pending = "pending"
	Running = "running"
	Ended   = "ended"
)

// State is that of an activity, as the history records it.
type State string

// The states. Fresh is one that the turn under way has scheduled.
const (
	Fresh   State = "fresh"
	Waiting State = "waiting"
	Going   State = "going" // admitted, or not limited: it has a lease, or its completion is unread
	Resting State = "resting"
	Done    State = "done"
)

// Activity is one call of an instance.
type Activity struct {
	Ticket string
	Gate   int
	State  State
	Tries  int
	Since  int64 // ms: when the gate reported that it waits; 0: it did not, or not to the turn that was committed
}

// Instance is what the store has of one.
type Instance struct {
	No         int
	Era        int // who may commit
	Head       int
	Applied    int // inputs from outside that it has: its start, its cancellation
	Inbox      []string
	Status     string
	Since      int64 // as that of an activity, if it is pending
	Stage      int
	Activities []Activity
	Leases     []string // tickets
}

func (in *Instance) clone() *Instance {
	c := *in
	c.Inbox, c.Activities, c.Leases = slices.Clone(in.Inbox), slices.Clone(in.Activities), slices.Clone(in.Leases)
	return &c
}

// state is that of a ticket: of an activity, or of the instance's own start.
func (in *Instance) state(ticket string) State {
	for _, a := range in.Activities {
		if a.Ticket == ticket {
			return a.State
		}
	}
	if ticket == fmt.Sprint("s", in.No) {
		return map[string]State{Pending: Waiting, Running: Going}[in.Status]
	}
	return ""
}

// attempt names the attempt of a ticket that is under way; the first has no name.
func (in *Instance) attempt(ticket string) string {
	for _, a := range in.Activities {
		if a.Ticket == ticket && a.Tries > 0 {
			return fmt.Sprint(a.Tries)
		}
	}
	return ""
}

// since is when the gate reported that a ticket waits, as far as the history records it.
func (in *Instance) since(ticket string) int64 {
	for _, a := range in.Activities {
		if a.Ticket == ticket {
			return a.Since
		}
	}
	return in.Since
}

// runs reports whether a member has been admitted and not ended.
func (in *Instance) runs(m memlimit.Member) bool {
	return m.Place == "b" && in.Status == Running || slices.Contains(in.Leases, m.Ticket)
}

// Slot is a ticket that an instance wants.
type Slot struct {
	Gate   int
	Member memlimit.Member
	In     bool
}

// slots are the tickets that the instance wants.
func (w *World) slots(of int, in *Instance) (all []Slot) {
	p := w.setup.Programs[of]
	if p.Start != Open && (in.Status == Pending || in.Status == Running) {
		all = append(all, Slot{p.Start, w.starter(of), in.Status == Running})
	}
	for _, a := range in.Activities {
		if a.Gate != Open && (a.State == Waiting || a.State == Going || a.State == Resting) {
			all = append(all, Slot{a.Gate, w.member(of, a.Ticket), a.State != Waiting})
		}
	}
	return all
}

func (w *World) starter(of int) memlimit.Member {
	return memlimit.Member{Ticket: fmt.Sprint("s", of), Instance: fmt.Sprint("i", of), Place: "b"}
}

func (w *World) member(of int, ticket string) memlimit.Member {
	m := memlimit.Member{Ticket: ticket, Instance: fmt.Sprint("i", of), Place: "1"}
	if w.setup.Programs[of].Keep {
		m.Place = "-"
	}
	return m
}

// decider runs the program on inputs.
type decider struct {
	*Instance
	program Program
	variant string // of the tickets
	wrong   memlimit.Mistake
	ended   []string // tickets whose worker has ended them
}

func (d *decider) input(kind, ticket string) {
	if d.Status == Ended || d.Status == "" && kind != "start" {
		return
	}
	if kind == "done" || kind == "fail" {
		var attempt string
		if ticket, attempt, _ = strings.Cut(ticket, "/"); attempt != d.attempt(ticket) {
			return // of one that is over
		}
	}
	switch kind {
	case "start":
		if d.Status == "" {
			d.Status = Running
			d.schedule()
		}
	case "cancel":
		d.end()
	case "done":
		d.settle(ticket, true)
	case "fail":
		d.fail(ticket)
	case "timer":
		for i := range d.Activities {
			if a := &d.Activities[i]; a.State == Resting {
				a.State = Going // it has its slot
			}
		}
	case "granted":
		d.grant(ticket)
	case "refused":
		if d.Status == Pending && ticket[0] == 's' {
			d.end()
		}
		if d.state(ticket) == Waiting {
			d.settle(ticket, false)
		}
	}
}

func (d *decider) grant(ticket string) {
	if d.Status == Pending && ticket[0] == 's' {
		d.Status, d.Since = Running, 0
		d.schedule()
		return
	}
	for i := range d.Activities {
		if a := &d.Activities[i]; a.Ticket == ticket && (a.State == Waiting || d.wrong == GrantTwice && a.State == Done) {
			a.State, a.Since = Going, 0
		}
	}
}

func (d *decider) schedule() {
	if d.Stage == len(d.program.Stages) {
		d.end()
		return
	}
	for _, gate := range d.program.Stages[d.Stage] {
		a := Activity{Ticket: fmt.Sprintf("t%d.%d%s", d.No, len(d.Activities), d.variant), Gate: gate, State: Fresh}
		if gate == Open {
			a.State = Going
		}
		d.Activities = append(d.Activities, a)
	}
	d.Stage++
}

func (d *decider) fail(ticket string) {
	for i := range d.Activities {
		if a := &d.Activities[i]; a.Ticket == ticket && a.State == Going {
			if d.program.Keep && a.Tries == 0 {
				a.State = Resting
				a.Tries++
				return
			}
			d.settle(ticket, true)
			return
		}
	}
}

func (d *decider) settle(ticket string, byWorker bool) {
	open := false
	for i := range d.Activities {
		a := &d.Activities[i]
		if a.Ticket == ticket && (a.State == Going || a.State == Waiting) {
			a.State, a.Since = Done, 0
			if byWorker {
				d.ended = append(d.ended, ticket)
			}
		}
		open = open || a.State != Done
	}
	if !open && d.Status == Running {
		d.schedule()
	}
}

func (d *decider) end() {
	d.Status, d.Since = Ended, 0
	for i := range d.Activities {
		d.Activities[i].State, d.Activities[i].Since = Done, 0
	}
}
