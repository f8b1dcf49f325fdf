package limits

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl"
)

// Visit is the input of an activity, which records that it enters its room, stays there, and records that it leaves.
type Visit struct {
	Room  string        `json:"room"` // empty: the room of its action and key
	Key   string        `json:"key,omitempty"`
	Hold  bool          `json:"hold,omitempty"`  // it stays until the test releases it
	Dwell time.Duration `json:"dwell,omitempty"` // it stays for this time, after its release if it holds
	Fails uint32        `json:"fails,omitempty"` // number of attempts that fail
	Kills bool          `json:"kills,omitempty"` // it kills its worker
}

// Crowd is the input of an instance that starts several calls of an action in one turn.
type Crowd struct {
	Action   string        `json:"action"`
	Visits   []Visit       `json:"visits"`
	Retry    int           `json:"retry,omitempty"` // number of attempts
	Pause    time.Duration `json:"pause,omitempty"` // backoff between attempts
	Limited  bool          `json:"limited,omitempty"`
	Keep     bool          `json:"keep,omitempty"`
	Deadline time.Duration `json:"deadline,omitempty"` // after which the first call is cancelled
	Attempt  time.Duration `json:"attempt,omitempty"`  // attempt timeout
	Within   time.Duration `json:"within,omitempty"`   // timeout of the whole call
}

// Stay is the input of a limited orchestration.
type Stay struct {
	Hold  bool `json:"hold,omitempty"`
	Again int  `json:"again,omitempty"` // number of further executions
	Child bool `json:"child,omitempty"` // it calls itself as a child
	Far   bool `json:"far,omitempty"`   // it calls itself through another orchestration
}

// Call is the input of an orchestration that calls a limited orchestration as a child.
type Call struct {
	Name  string `json:"name"`
	ID    string `json:"id"`
	Stay  Stay   `json:"stay"`
	Leave bool   `json:"leave,omitempty"` // it ends at a signal, without waiting for the child
}

var (
	crowds = pawl.NewOrchestration[Crowd, []string]("crowd")
	host   = pawl.NewOrchestration[Call, string]("host")
	mark   = pawl.NewActivity[Visit, string]("mark") // unlimited; with it, limited orchestrations record their presence

	leave = pawl.NewEvent[pawl.None]("leave")

	few   = pawl.Group("few", pawl.Concurrency(3))
	empty = pawl.Group("empty") // without a declared policy
)

// errFailing is the error of an attempt that fails on request.
var errFailing = pawl.NewError("failing")

type visits = pawl.Activity[Visit, string]

// actions returns the limited activities; most are the subject of one scenario.
func actions() []visits {
	one := pawl.Concurrency(1)
	act := func(name string, opts ...pawl.ActivityOption) visits {
		return pawl.NewActivity[Visit, string](name, opts...)
	}
	return []visits{
		act("three", one), act("hundred", one), act("thousand", pawl.Concurrency(4)), act("busy", pawl.Concurrency(3)),
		act("keyed", one, pawl.KeyBy("key")), act("scattered", one, pawl.KeyBy("key")), act("left", one), act("right", one), act("rated", pawl.Rate(5, 500*time.Millisecond)), act("quota", pawl.Quota(3, time.Second)),
		act("cancelled-instance", one), act("cancelled-waiter", one), act("cancelled-holder", one), act("killed", one), act("poison", one),
		act("purged", one), act("timed", one), act("hurried", one), act("kept-and-cancelled", one), act("kept-and-purged", one),
		act("full", one, pawl.QueueLimit(1)), act("full-again", one, pawl.QueueLimit(1)), act("late", one, pawl.QueueTimeout(300*time.Millisecond)),
		act("rejecting", one, pawl.Reject()), act("cleared", one), act("kept", one), act("requeued", one),
		act("free"), act("alone"), act("own", pawl.Concurrency(5), few), act("of-few", few), act("of-empty", empty), act("of-none"),
	}
}

type stays = pawl.Orchestration[Stay, string]

// halls returns the limited orchestrations.
func halls() []stays {
	one := pawl.Concurrency(1)
	hall := func(name string, opts ...pawl.OrchestrationOption) stays {
		return pawl.NewOrchestration[Stay, string](name, opts...)
	}
	return []stays{
		hall("hall", one), hall("annex", one), hall("vault", one), hall("full-hall", one, pawl.QueueLimit(1)),
		hall("late-hall", one, pawl.QueueTimeout(300*time.Millisecond)), hall("rejecting-hall", one, pawl.Reject()), hall("cleared-hall", one),
		hall("orphan-hall", one), hall("deadlock", one, pawl.QueueTimeout(deadlockFor)), hall("far-deadlock", one, pawl.QueueTimeout(deadlockFor)),
	}
}

// deadlockFor is the maximum wait in a deadlock, within which the test observes the deadlock.
const deadlockFor = 15 * time.Second

func named[H interface{ Name() string }](all []H, name string) (H, error) {
	for _, h := range all {
		if h.Name() == name {
			return h, nil
		}
	}
	var none H
	return none, fmt.Errorf("there is no %q", name)
}

func orchestrations() []pawl.OrchestrationBinding {
	all := []pawl.OrchestrationBinding{crowds.Do(crowd), host.Do(hosts)}
	for _, h := range halls() {
		all = append(all, h.Do(func(ctx *pawl.Context, s Stay) (string, error) { return stay(ctx, h, s) }))
	}
	return all
}

func crowd(ctx *pawl.Context, c Crowd) ([]string, error) {
	action, err := named(actions(), c.Action)
	if err != nil {
		return nil, err
	}
	var opts []pawl.CallOption
	if c.Retry > 0 {
		opts = append(opts, pawl.Retry{Attempts: c.Retry, Initial: c.Pause, Factor: 1, Limited: c.Limited})
	}
	if c.Attempt > 0 {
		opts = append(opts, pawl.AttemptTimeout(c.Attempt))
	}
	if c.Within > 0 {
		opts = append(opts, pawl.Within(c.Within))
	}
	if c.Keep {
		opts = append(opts, pawl.KeepSlot())
	}
	all := make([]*pawl.Future[string], len(c.Visits))
	for i, v := range c.Visits {
		all[i] = action.Start(ctx, v, opts...)
	}
	got := make([]string, len(all))
	if c.Deadline > 0 {
		if first, err := pawl.Select(ctx, all[0], pawl.After(ctx, c.Deadline)); err != nil || first == all[0] {
			return nil, errors.Join(err, errors.New("a caller was admitted"))
		}
	}
	for i, f := range all {
		_, err := f.Get(ctx)
		got[i] = errorNames(err)
	}
	return got, pawl.Err(ctx)
}

func hosts(ctx *pawl.Context, c Call) (string, error) {
	h, err := named(halls(), c.Name)
	if err != nil {
		return "", err
	}
	child := h.Start(ctx, c.Stay, pawl.ID(c.ID))
	if c.Leave {
		_, err := leave.Receive(ctx)
		return "left", err
	}
	_, err = child.Get(ctx)
	return errorNames(err), nil
}

// stay occupies its slot from its first turn to the end of its last execution.
func stay(ctx *pawl.Context, h stays, s Stay) (string, error) {
	if _, err := mark.Call(ctx, Visit{Room: h.Name(), Hold: s.Hold}); err != nil {
		return "", err
	}
	if s.Far {
		return host.Call(ctx, Call{Name: h.Name(), ID: pawl.Instance(ctx).Instance + "-child"})
	}
	if s.Child {
		_, err := h.Call(ctx, Stay{}, pawl.ID(pawl.Instance(ctx).Instance+"-child"))
		return errorNames(err), nil
	}
	if s.Again > 0 {
		return h.ContinueAsNew(ctx, Stay{Hold: s.Hold, Again: s.Again - 1})
	}
	return "ok", nil
}

// errorNames names the error of a call, by the sentinels that an author would test for.
func errorNames(err error) string {
	var words []string
	for name, sentinel := range map[string]error{
		"queue full": pawl.ErrQueueFull, "queue timeout": pawl.ErrQueueTimeout, "cleared": pawl.ErrQueueCleared, "limited": pawl.ErrLimited,
		"timeout": pawl.ErrTimeout,
		"failing": errFailing, "cancelled": context.Canceled,
	} {
		if errors.Is(err, sentinel) {
			words = append(words, name)
		}
	}
	switch {
	case err == nil:
		return "ok"
	case len(words) == 0:
		return err.Error()
	default:
		return strings.Join(slices.Sorted(slices.Values(words)), ", ")
	}
}

// activities returns the bindings of a worker: only one activity, or all but those that kill their workers.
func (b recorder) activities(only string) []pawl.ActivityBinding {
	bound := []pawl.ActivityBinding{mark.Do(b.visit)}
	for _, a := range actions() {
		if only == a.Name() {
			return []pawl.ActivityBinding{a.Do(b.visit)}
		}
		if a.Name() != "killed" && a.Name() != "poison" {
			bound = append(bound, a.Do(b.visit))
		}
	}
	return bound
}

func (b recorder) visit(ctx context.Context, v Visit) (string, error) {
	i := pawl.Info(ctx)
	if v.Room == "" {
		v.Room = i.Name
		if v.Key != "" {
			v.Room += "/" + v.Key
		}
	}
	if err := b.enter(ctx, v.Room, i); err != nil {
		return "", err
	}
	var err error
	switch {
	case v.Kills:
		os.Exit(1)
	case i.Attempt <= v.Fails:
		err = errFailing
	default:
		err = b.stay(ctx, v, i.Instance)
	}
	return "", errors.Join(err, b.leave(context.WithoutCancel(ctx), v.Room, i))
}

// stay waits until the test releases the activity, and then for its time.
func (b recorder) stay(ctx context.Context, v Visit, instance string) error {
	if v.Hold {
		if err := b.wait(ctx, v.Room, instance); err != nil {
			return err
		}
	}
	if v.Dwell == 0 {
		return nil
	}
	select {
	case <-time.After(v.Dwell):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
