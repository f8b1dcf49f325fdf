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
//	Household ── Kid (id derived) ── Kid (id given) ── Kid (abandoned, waits for Go) ── Kid (detached)
//	    │  └──── Nest (loses a Select) ── Nest ── Endless, an activity that is cancelled
//	    └─ fails to start a Kid whose id is taken; finally starts Till, detached
//	Doomed ───── Nest ── Nest ── Endless;  Kid (abandoned, waits for Go): a client cancels it
//	Kid, clients ──Noted──▶ Relay (a Kid's note starts it; new execution every third note) ──Noted──▶ Till (every note)
//	Late ─────── Nest, at once; and Nest, after a while: the end cancels both
//	Fickle ───── Roll, an activity that returns another number each time, then an Echo of it
//
// The instances that send notes decide nothing that depends on the order of their inputs, so a turn that the store loses is
// decided again in the same way. Therefore Till has seen exactly the notes of the surviving histories, each once, whatever
// was lost. Only Fickle decides differently.
var (
	Household = pawl.NewOrchestration[House, int]("household")
	Doomed    = pawl.NewOrchestration[House, int]("doomed")
	Kid       = pawl.NewOrchestration[Chore, int]("kid")
	Nest      = pawl.NewOrchestration[int, int]("nest")
	Relay     = pawl.NewOrchestration[Tally, Tally]("relay")
	Till      = pawl.NewOrchestration[Tally, Tally]("till")
	Late      = pawl.NewOrchestration[time.Duration, int]("late")
	Fickle    = pawl.NewOrchestration[string, int]("fickle")
	Echo      = pawl.NewOrchestration[int, int]("echo")

	Endless = pawl.NewActivity[pawl.None, int]("endless")
	Roll    = pawl.NewActivity[pawl.None, int]("roll")
	Noted   = pawl.NewEvent[Note]("noted")
)

// Ids of the two instances that count, and a constant of Relay.
const (
	RelayID = "relay"
	TillID  = "till"
	Relayed = 3 // notes that one execution of Relay receives
)

// House is the input of a Household and a Doomed. The test chooses the ids, and with them the partitions.
type House struct {
	N        int
	Kid      string // id of its second child
	Left     string // id of the child that it abandons
	Free     string // id of the instance that it starts detached
	Taken    string // id of an instance that is not its child
	Deadline time.Duration
}

// Chore is the input of a Kid.
type Chore struct {
	N    int
	Wait bool          // whether to wait for Go first
	Rest time.Duration // pause between its two steps
}

// KidResult is the result of a Kid with the number n: one step before its note, and one after.
func KidResult(n int) int { return n + 2 }

// HouseholdResult is the sum of the results of the two kids that a Household waits for.
func HouseholdResult(n int) int { return KidResult(n) + KidResult(n+100) }

// Note is an event to Relay and Till: the id of its sender or, for a relayed note, the ids of all senders.
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

// household starts all others in its first turn, so that their events have the same ids even if the turn is decided again.
func household(ctx *pawl.Context, h House) (int, error) {
	first := Kid.Start(ctx, Chore{N: h.N, Rest: h.Deadline})
	second := Kid.Start(ctx, Chore{N: h.N + 100}, pawl.ID(h.Kid))
	Kid.Start(ctx, Chore{N: h.N + 200, Wait: true}, pawl.ID(h.Left), pawl.Abandon())
	if err := Kid.StartDetached(ctx, h.Free, Chore{N: h.N + 300}); err != nil {
		return 0, err
	}
	nest, deadline := Nest.Start(ctx, 1), pawl.After(ctx, h.Deadline)
	won, err := pawl.Select(ctx, nest, deadline)
	if err != nil {
		return 0, err
	}
	if won != deadline { // it was already cancelled by a turn that Redis has lost
		if _, err := nest.Get(ctx); !errors.Is(err, context.Canceled) {
			return 0, fmt.Errorf("a child that never ends has won: %w", err)
		}
	}
	if _, err := Kid.Call(ctx, Chore{}, pawl.ID(h.Taken)); !errors.Is(err, pawl.ErrIDTaken) {
		return 0, fmt.Errorf("the id of the child is taken, and the call returns: %w", err)
	}
	sums, err := pawl.All(ctx, first, second)
	if err != nil {
		return 0, err
	}
	return sums[0] + sums[1], Till.StartDetached(ctx, TillID, Tally{})
}

func doomed(ctx *pawl.Context, h House) (int, error) {
	Kid.Start(ctx, Chore{N: h.N, Wait: true}, pawl.ID(h.Left), pawl.Abandon())
	return Nest.Call(ctx, 1)
}

func kid(ctx *pawl.Context, c Chore) (int, error) {
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

// nest ends only by cancellation, together with its descendants.
func nest(ctx *pawl.Context, depth int) (int, error) {
	if depth == 0 {
		return Endless.Call(ctx, pawl.None{})
	}
	return Nest.Call(ctx, depth-1)
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
	if err := Noted.Send(ctx, TillID, got); err != nil || t.Last {
		return t, err
	}
	return Relay.ContinueAsNew(ctx, t)
}

// till receives one note per execution. Notes that arrive while it waits for its activity are carried over. Its child is
// cancelled each time.
func till(ctx *pawl.Context, t Tally) (Tally, error) {
	Nest.Start(ctx, 0)
	step := Step.Start(ctx, t.Rounds)
	n, err := Noted.Receive(ctx)
	if err != nil {
		return t, err
	}
	t.add(n)
	if t.Rounds, err = step.Get(ctx); err != nil || t.Last {
		return t, err
	}
	return Till.ContinueAsNew(ctx, t)
}

// late starts a child before a period has passed, and another one after it. It does not sleep, because no timer fires
// without NATS.
func late(ctx *pawl.Context, while time.Duration) (int, error) {
	Nest.Start(ctx, 0)
	first, second := Rest.Start(ctx, while), Rest.Start(ctx, 3*while)
	if _, err := first.Get(ctx); err != nil {
		return 0, err
	}
	Nest.Start(ctx, 0)
	_, err := second.Get(ctx)
	return 0, err
}

// fickle passes its child, whose id is constant, another input each time that it is decided.
func fickle(ctx *pawl.Context, child string) (int, error) {
	if _, err := Go.Receive(ctx); err != nil {
		return 0, err
	}
	rolled, err := Roll.Call(ctx, pawl.None{})
	if err != nil {
		return 0, err
	}
	echoed, err := Echo.Call(ctx, rolled, pawl.ID(child))
	if err == nil && echoed != rolled {
		err = fmt.Errorf("the child got %d and returned %d", rolled, echoed)
	}
	return echoed, err
}

// Listening is the time that Echo takes.
const Listening = 400 * time.Millisecond

func echo(ctx *pawl.Context, n int) (int, error) {
	if _, err := Step.Call(ctx, n); err != nil {
		return 0, err
	}
	return n, pawl.Sleep(ctx, Listening)
}

func families() []pawl.OrchestrationBinding {
	return []pawl.OrchestrationBinding{
		Household.Do(household), Doomed.Do(doomed), Kid.Do(kid), Nest.Do(nest), Relay.Do(relay), Till.Do(till),
		Late.Do(late), Fickle.Do(fickle), Echo.Do(echo),
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

func (l Ledger) roll(ctx context.Context, _ pawl.None) (int, error) {
	return rand.IntN(1 << 30), l.write(ctx, "roll")
}
