package work

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawlrun/pawl"
)

// The family, and the messages between its members:
//
//	Parent ───── Child (id derived) ── Child (id given) ── Child (abandoned, waits for Go) ── Child (detached)
//	    │  └──── EndlessChild (loses a Select) ── EndlessChild ── Endless, an activity that is cancelled
//	    └─ fails to start a Child whose id is taken; finally starts Counter, detached
//	CancelledParent ── EndlessChild ── EndlessChild ── Endless;  Child (abandoned, waits for Go): a client cancels it
//	Child, clients ──Noted──▶ Relay (a Child's note starts it; new execution every third note) ──Noted──▶ Counter (every note)
//	SlowParent ─── EndlessChild, at once; and EndlessChild, after a period: the end cancels both
//	RandomParent ─ Random, an activity that returns another number each time, then an Echo of it
//
// The instances that send notes decide nothing that depends on the order of their inputs, so a turn that the store loses is
// decided again in the same way. Therefore Counter receives exactly the notes of the surviving histories, each once, whatever
// was lost. Only RandomParent decides differently.
var (
	Parent          = pawl.NewOrchestration[ParentInput, int]("parent")
	CancelledParent = pawl.NewOrchestration[ParentInput, int]("cancelled-parent")
	Child           = pawl.NewOrchestration[ChildInput, int]("child")
	EndlessChild    = pawl.NewOrchestration[int, int]("endless-child")
	Relay           = pawl.NewOrchestration[Tally, Tally]("relay")
	Counter         = pawl.NewOrchestration[Tally, Tally]("counter")
	SlowParent      = pawl.NewOrchestration[time.Duration, int]("slow-parent")
	RandomParent    = pawl.NewOrchestration[string, int]("random-parent")
	Echo            = pawl.NewOrchestration[int, int]("echo")

	Endless = pawl.NewActivity[pawl.None, int]("endless")
	Random  = pawl.NewActivity[pawl.None, int]("random")
	Noted   = pawl.NewEvent[Note]("noted")
)

// Ids of the two instances that count, and a constant of Relay.
const (
	RelayID   = "relay"
	CounterID = "counter"
	Relayed   = 3 // notes that one execution of Relay receives
)

// ParentInput is the input of a Parent and a CancelledParent. The test chooses the ids, and with them the partitions.
type ParentInput struct {
	N         int
	Child     string // id of its second child
	Abandoned string // id of the child that it abandons
	Detached  string // id of the instance that it starts detached
	Taken     string // id of an instance that is not its child
	Deadline  time.Duration
}

// ChildInput is the input of a Child.
type ChildInput struct {
	N    int
	Wait bool          // whether to wait for Go first
	Rest time.Duration // sleep between its two steps
}

// ChildResult is the result of a Child with the number n: one step before its note, and one after.
func ChildResult(n int) int { return n + 2 }

// ParentResult is the sum of the results of the two children that a Parent waits for.
func ParentResult(n int) int { return ChildResult(n) + ChildResult(n+100) }

// Note is an event to Relay and Counter: the id of its sender or, for a relayed note, the ids of all senders.
type Note struct {
	IDs  []string
	Sum  int
	Last bool
}

// Tally is a running total that is carried from one execution to the next.
type Tally struct {
	Note
	Rounds int
}

func (n *Note) add(m Note) {
	n.IDs, n.Sum, n.Last = append(n.IDs, m.IDs...), n.Sum+m.Sum, m.Last
}

// parent starts all others in its first turn, so that their events have the same ids even if the turn is decided again.
func parent(ctx *pawl.Context, in ParentInput) (int, error) {
	first := Child.Start(ctx, ChildInput{N: in.N, Rest: in.Deadline})
	second := Child.Start(ctx, ChildInput{N: in.N + 100}, pawl.ID(in.Child))
	Child.Start(ctx, ChildInput{N: in.N + 200, Wait: true}, pawl.ID(in.Abandoned), pawl.Abandon())
	if err := Child.StartDetached(ctx, in.Detached, ChildInput{N: in.N + 300}); err != nil {
		return 0, err
	}
	endless, deadline := EndlessChild.Start(ctx, 1), pawl.After(ctx, in.Deadline)
	won, err := pawl.Select(ctx, endless, deadline)
	if err != nil {
		return 0, err
	}
	if won != deadline { // it was already cancelled by a turn that Redis has lost
		if _, err := endless.Get(ctx); !errors.Is(err, context.Canceled) {
			return 0, fmt.Errorf("a child that never ends has won: %w", err)
		}
	}
	if _, err := Child.Call(ctx, ChildInput{}, pawl.ID(in.Taken)); !errors.Is(err, pawl.ErrIDTaken) {
		return 0, fmt.Errorf("the id of the child is taken, and the call returned: %w", err)
	}
	sums, err := pawl.All(ctx, first, second)
	if err != nil {
		return 0, err
	}
	return sums[0] + sums[1], Counter.StartDetached(ctx, CounterID, Tally{})
}

func cancelledParent(ctx *pawl.Context, in ParentInput) (int, error) {
	Child.Start(ctx, ChildInput{N: in.N, Wait: true}, pawl.ID(in.Abandoned), pawl.Abandon())
	return EndlessChild.Call(ctx, 1)
}

func child(ctx *pawl.Context, c ChildInput) (int, error) {
	if c.Wait {
		if _, err := Go.Receive(ctx); err != nil {
			return 0, err
		}
	}
	n, err := Step.Call(ctx, c.N)
	if err != nil {
		return 0, err
	}
	if err := pawl.SendOrStart(ctx, Relay, RelayID, Tally{}, Noted, Note{IDs: []string{pawl.Instance(ctx).Instance}, Sum: n}); err != nil {
		return 0, err
	}
	if err := pawl.Sleep(ctx, c.Rest); err != nil {
		return 0, err
	}
	return Step.Call(ctx, n)
}

// endlessChild ends only by cancellation, together with its descendants.
func endlessChild(ctx *pawl.Context, depth int) (int, error) {
	if depth == 0 {
		return Endless.Call(ctx, pawl.None{})
	}
	return EndlessChild.Call(ctx, depth-1)
}

// relay forwards the notes that its execution has received, and continues as new before the forwarded note is acknowledged.
func relay(ctx *pawl.Context, t Tally) (Tally, error) {
	var got Note
	for len(got.IDs) < Relayed && !got.Last {
		n, err := Noted.Receive(ctx)
		if err != nil {
			return t, err
		}
		got.add(n)
	}
	t.add(got)
	t.Rounds++
	if err := Noted.Send(ctx, CounterID, got); err != nil || t.Last {
		return t, err
	}
	return Relay.ContinueAsNew(ctx, t)
}

// counter receives one note per execution. Notes that arrive while it waits for its activity are carried over. Its child is
// cancelled each time.
func counter(ctx *pawl.Context, t Tally) (Tally, error) {
	EndlessChild.Start(ctx, 0)
	step := Step.Start(ctx, t.Rounds)
	n, err := Noted.Receive(ctx)
	if err != nil {
		return t, err
	}
	t.add(n)
	if t.Rounds, err = step.Get(ctx); err != nil || t.Last {
		return t, err
	}
	return Counter.ContinueAsNew(ctx, t)
}

// slowParent starts a child before a period has passed, and another one after it. It does not sleep, because no timer fires
// without NATS.
func slowParent(ctx *pawl.Context, period time.Duration) (int, error) {
	EndlessChild.Start(ctx, 0)
	first, second := Wait.Start(ctx, period), Wait.Start(ctx, 3*period)
	if _, err := first.Get(ctx); err != nil {
		return 0, err
	}
	EndlessChild.Start(ctx, 0)
	_, err := second.Get(ctx)
	return 0, err
}

// randomParent starts its child, whose id is constant, with another input each time that its turn is decided.
func randomParent(ctx *pawl.Context, child string) (int, error) {
	if _, err := Go.Receive(ctx); err != nil {
		return 0, err
	}
	number, err := Random.Call(ctx, pawl.None{})
	if err != nil {
		return 0, err
	}
	returned, err := Echo.Call(ctx, number, pawl.ID(child))
	if err == nil && returned != number {
		err = fmt.Errorf("the child received %d and returned %d", number, returned)
	}
	return returned, err
}

// EchoTime is the time that Echo takes.
const EchoTime = 400 * time.Millisecond

func echo(ctx *pawl.Context, n int) (int, error) {
	if _, err := Step.Call(ctx, n); err != nil {
		return 0, err
	}
	return n, pawl.Sleep(ctx, EchoTime)
}

func families() []pawl.OrchestrationBinding {
	return []pawl.OrchestrationBinding{
		Parent.Do(parent), CancelledParent.Do(cancelledParent), Child.Do(child), EndlessChild.Do(endlessChild), Relay.Do(relay), Counter.Do(counter),
		SlowParent.Do(slowParent), RandomParent.Do(randomParent), Echo.Do(echo),
	}
}

// endless runs until it is cancelled, and then records that.
func (l Ledger) endless(ctx context.Context, _ pawl.None) (int, error) {
	if err := l.write(ctx, "began"); err != nil {
		return 0, err
	}
	<-ctx.Done()
	return 0, errors.Join(context.Cause(ctx), l.write(ctx, "cancelled"))
}

func (l Ledger) random(ctx context.Context, _ pawl.None) (int, error) {
	return rand.IntN(1 << 30), l.write(ctx, "random")
}
