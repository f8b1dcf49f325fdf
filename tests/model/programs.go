package model

import (
	"strings"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
)

// The orchestrations of the searches. Their input contains the ids of all inputs that the instance has ever read, so that each history has
// them although earlier ones are pruned. An activity returns the name that it was called with.

var (
	act   = pawl.NewActivity[string, string]("act")
	event = pawl.NewEvent[string]("event")
	note  = pawl.NewEvent[string]("note")
)

func program(name string, fn func(*pawl.Context, string) error) pawl.OrchestrationBinding {
	return pawl.NewOrchestration[string, string](name).Do(func(ctx *pawl.Context, in string) (string, error) { return in, fn(ctx, in) })
}

// programs are all orchestrations, by name.
func programs() *author.Registry {
	all, err := author.NewRegistry(
		program("both", both), program("race", race), program("deadline", deadline), program("window", window), program("alarm", alarm),
		program("churn", churn), program("stop", stop), program("brief", brief), program("sweep", sweep), program("report", report), cycle(), count(),
		program("one", one), program("two", two), program("chain", chain), program("cross", cross), program("kept", kept), program("start", started),
		program("behind", elsewhere), program("other", elsewhere), program("flip", flip),
	)
	if err != nil {
		panic(err)
	}
	return all
}

// both runs two concurrent activities.
func both(ctx *pawl.Context, _ string) error {
	_, err := pawl.All(ctx, act.Start(ctx, "A"), act.Start(ctx, "Z"))
	return err
}

// race schedules, under the same event id, an activity that depends on the first input.
func race(ctx *pawl.Context, _ string) error {
	a, e := act.Start(ctx, "A"), event.Next(ctx)
	first, err := pawl.Any(ctx, a, e)
	if err != nil {
		return err
	}
	next := "late"
	if first == e {
		next = "early"
	}
	_, err = act.Call(ctx, next)
	if _, got := e.Get(ctx); got != nil {
		return got
	}
	_, _ = a.Get(ctx)
	return err
}

// deadline is a select between an activity and a timer; the loser is cancelled.
func deadline(ctx *pawl.Context, _ string) error {
	_, err := pawl.Select(ctx, act.Start(ctx, "A"), pawl.After(ctx, timerSpan))
	return err
}

// window runs an activity until a timer fires, and receives events in the meantime.
func window(ctx *pawl.Context, _ string) error {
	_ = act.Start(ctx, "A")
	return pawl.Sleep(ctx, timerSpan)
}

// alarm receives events until a timer fires.
func alarm(ctx *pawl.Context, _ string) error { return pawl.Sleep(ctx, timerSpan) }

const timerSpan = 4 * time.Second

// churn schedules and cancels an activity in one turn.
func churn(ctx *pawl.Context, _ string) error {
	a := act.Start(ctx, "A")
	act.Start(ctx, "B").Cancel("not needed")
	_, err := a.Get(ctx)
	return err
}

// stop runs two activities until it is cancelled.
func stop(ctx *pawl.Context, _ string) error {
	for _, f := range []*pawl.Future[string]{act.Start(ctx, "A"), act.Start(ctx, "Z")} {
		if _, err := f.Get(ctx); err != nil {
			return err
		}
	}
	_, err := event.Receive(ctx) // ends only with a cancellation
	for err == nil {
		_, err = event.Receive(ctx)
	}
	return err
}

// brief ends at once in its first execution, and with its activity in the next.
func brief(ctx *pawl.Context, in string) error {
	if in == "start2" {
		_, err := act.Call(ctx, "A")
		return err
	}
	return nil
}

// sweep waits for an activity, reads all events that have arrived by then, and ends.
func sweep(ctx *pawl.Context, _ string) error {
	if _, err := act.Call(ctx, "A"); err != nil {
		return err
	}
	_, err := event.Drain(ctx)
	return err
}

// report sends the first input to another instance, and ends.
func report(ctx *pawl.Context, _ string) error {
	a, e := act.Start(ctx, "A"), event.Next(ctx)
	first, err := pawl.Any(ctx, a, e)
	if err != nil {
		return err
	}
	what := "late"
	if first == e {
		what = "early"
	}
	if err := note.Send(ctx, receiver, what); err != nil {
		return err
	}
	if _, err := a.Get(ctx); err != nil {
		return err
	}
	_, err = e.Get(ctx)
	return err
}

// Programs with limits: that of slot, that of another, or (start, behind) their own.

var slot, another = pawl.NewActivity[string, string]("slot"), pawl.NewActivity[string, string]("another")

func one(ctx *pawl.Context, _ string) error {
	_, err := slot.Call(ctx, "A")
	return err
}

func two(ctx *pawl.Context, _ string) error {
	_, err := pawl.All(ctx, slot.Start(ctx, "A"), slot.Start(ctx, "Z"))
	return err
}

func chain(ctx *pawl.Context, _ string) error {
	if _, err := slot.Call(ctx, "A"); err != nil {
		return err
	}
	_, err := slot.Call(ctx, "Z")
	return err
}

func cross(ctx *pawl.Context, _ string) error {
	_, err := pawl.All(ctx, slot.Start(ctx, "A"), another.Start(ctx, "Z"))
	return err
}

func kept(ctx *pawl.Context, _ string) error {
	if _, err := slot.Call(ctx, "A", pawl.Retry{Attempts: 2, Initial: time.Second}, pawl.KeepSlot()); err != nil {
		return err
	}
	return pawl.Sleep(ctx, 4*timerSpan) // it still sleeps when its slot is free again
}

func started(ctx *pawl.Context, _ string) error {
	_, err := act.Call(ctx, "A")
	return err
}

func elsewhere(ctx *pawl.Context, _ string) error {
	_, err := another.Call(ctx, "A")
	return err
}

// variant is the present value of side effects: see Faults.Otherwise.
var variant string

func flip(ctx *pawl.Context, _ string) error {
	v, err := pawl.SideEffect(ctx, func() (string, error) { return variant, nil })
	if err == nil {
		_, err = slot.Call(ctx, "A"+v)
	}
	return err
}

// receiver is an instance of another partition.
const receiver = "receiver"

// cycle reads one event per execution, after its activity has completed, and continues as new with the others; another
// activity is still outstanding then. It ends after two events, and sends a message for each.
func cycle() pawl.OrchestrationBinding {
	h := pawl.NewOrchestration[string, string]("cycle")
	return h.Do(func(ctx *pawl.Context, in string) (string, error) {
		a := act.Start(ctx, "A")
		_ = act.Start(ctx, "Z")
		if _, err := a.Get(ctx); err != nil {
			return in, err
		}
		id, err := event.Receive(ctx)
		if err != nil {
			return in, err
		}
		if err := note.Send(ctx, receiver, "had"+id); err != nil {
			return in, err
		}
		if in = in + "+" + id; strings.Count(in, "+") > 1 {
			return in, nil
		}
		return h.ContinueAsNew(ctx, in)
	})
}

// count continues as new with every event, and ends with the third.
func count() pawl.OrchestrationBinding {
	h := pawl.NewOrchestration[string, string]("count")
	return h.Do(func(ctx *pawl.Context, in string) (string, error) {
		id, err := event.Receive(ctx)
		if in = in + "+" + id; err != nil || strings.Count(in, "+") > 2 {
			return in, err
		}
		return h.ContinueAsNew(ctx, in)
	})
}

type planned = message.Input

// plan makes the inputs of an instance of the program from their names: start…: a start; next…: a start by a parent; stop: a cancellation; other: an event for another instance, ystart: its start; purge…, kill…: a
// purge, the latter by force; pause…, hold… (which stops what runs), resume…, retry…, again… (from the start), term…, rewind<event>: requests of operators; all
// others are events.
func plan(program string, ids ...string) (all []planned) {
	for _, id := range ids {
		in := planned{Instance: "x", ID: id, By: id, Kind: message.KindEvent, Name: "event", Payload: history.Payload{Type: history.TypeJSON, Data: []byte(`"` + id + `"`)}}
		switch {
		case id == "other":
			in.Instance = "y"
		case id == "ystart":
			in.Instance, in.Kind, in.Name = "y", message.KindStart, program
		case strings.HasPrefix(id, "start"):
			in.Kind, in.Name = message.KindStart, program
		case strings.HasPrefix(id, "next"):
			in.Kind, in.Name, in.Sender = message.KindStart, program, message.SenderOrchestrator
			in.Parent = &history.Parent{Instance: "parent", Origin: history.Position{Seq: 1, Time: 1}, Execution: 1, Event: 1, Effect: strings.TrimSuffix(id, "again")}
		case strings.HasPrefix(id, "stop"):
			in.Kind, in.Name = message.KindCancel, ""
		case operates(&in, id):
		case strings.HasPrefix(id, "purge"), strings.HasPrefix(id, "kill"):
			in.Kind, in.Name, in.Force = message.KindPurge, "", strings.HasPrefix(id, "kill")
		}
		all = append(all, in)
	}
	return all
}

// operates makes an input a request of an operator, if its name is one.
func operates(in *planned, id string) bool {
	names := map[string]string{"pause": "pause", "hold": "pause", "resume": "resume", "term": "terminate", "retry": "retry", "again": "retry", "rewind": "rewind"}
	for begin, verb := range names {
		if !strings.HasPrefix(id, begin) {
			continue
		}
		in.Kind, in.Name = message.KindOperate, verb
		in.Operate.Stop, in.Operate.Start = begin == "hold", begin == "again"
		if verb == "rewind" {
			in.Operate.To = uint64(id[len("rewind")] - '0')
		}
		return true
	}
	return false
}
