package work

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl"
)

// Numbered is the event that clients send: 1, 2, 3, …, in this order.
var Numbered = pawl.NewEvent[int]("numbered")

// ErrDeclined is the failure of kind "fail".
var ErrDeclined = pawl.NewError("chaos.declined")

// Outcomes other than results.
const (
	Cancelled = "cancelled"
	Declined  = "failed chaos.declined"
	Expired   = "failed pawl.run-timeout"
)

// Seats is the maximum number of concurrent runs of Seat for one tenant.
const Seats = 3

// kinds lists all kinds. Their names are the names of the orchestrations, which programs of an earlier commit also use.
var kinds = []Kind{
	kind("chain", 6, chain, func(in Input) []string { return []string{strconv.Itoa(2 * in.N)} }),
	kind("fan", 4, fan, func(in Input) []string { return []string{strconv.Itoa(in.N * (in.N + 1) / 2)} }),
	with(kind("mail", 4, mail, func(in Input) []string { return []string{numbers(in.N)} }), -1, false),
	kind("race", 3, race, want("deadline")),
	kind("tree", 2, tree, func(in Input) []string { return []string{strconv.Itoa(1 << (in.N % 3))} }),
	with(kind("loop", 3, loop, func(in Input) []string { return []string{fmt.Sprintf("%d rounds, event 1", in.N)} }), 1, false),
	kind("seat", 4, seat, want("sat")),
	with(kind("victim", 3, victim, want(Cancelled)), 0, true),
	with(kind("undo", 2, undo, want(Cancelled)), 0, true),
	kind("retry", 2, retry, want("ok")),
	kind("meter", 2, meter, want("ok")),
	kind("quota", 2, quota, want("ok")),
	kind("door", 2, door, want("in", "rejected")),
	kind("hurry", 1, hurry, want("in", "timed out")),
	kind("pair", 2, pair, want("sent")),
	kind("fail", 1, fail, want(Declined)),
	kind("sleep", 2, sleep, want("slept")),
	kind("change", 3, change, func(in Input) []string { return []string{strconv.Itoa(in.N), strconv.Itoa(in.N + 1)} }),
	job, cron, asked, halted, mended, again, delayed, expiring, reused, sealed, large, flock,
	kind("listener", 0, listener, func(in Input) []string { return []string{"received " + strconv.Itoa(in.N)} }),
}

func kind(name string, weight int, code func(*pawl.Context, Input) (string, error), want func(Input) []string) Kind {
	return Kind{Name: name, Weight: weight, Handle: handle(name), Code: code, Want: want}
}

func handle(name string) pawl.Orchestration[Input, string] {
	return pawl.NewOrchestration[Input, string](name)
}

func with(k Kind, events int, cancel bool) Kind {
	k.Events, k.Cancel = events, cancel
	return k
}

func want(outcomes ...string) func(Input) []string {
	return func(Input) []string { return outcomes }
}

// Orchestrations returns the bindings of the orchestrators. Release 2 changes one of them.
func Orchestrations(release int) []pawl.OrchestrationBinding {
	out := []pawl.OrchestrationBinding{Ballot.Do(ballot), Bird.Do(flies)}
	for _, k := range kinds {
		if k.Code == nil {
			continue
		}
		if k.Name == "change" && release < 2 {
			k.Code = unchanged
		}
		out = append(out, k.Handle.Do(k.Code))
	}
	return out
}

func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d ", i+1)
	}
	return strings.TrimSpace(b.String())
}

// chain calls an activity N times, one call after another.
func chain(ctx *pawl.Context, in Input) (string, error) {
	sum := in.N
	for range in.N {
		var err error
		if sum, err = Step.Call(ctx, sum); err != nil {
			return "", err
		}
	}
	return strconv.Itoa(sum), nil
}

// fan calls an activity N times at once.
func fan(ctx *pawl.Context, in Input) (string, error) {
	parts := make([]*pawl.Future[int], in.N)
	for i := range parts {
		parts[i] = Step.Start(ctx, i)
	}
	all, err := pawl.All(ctx, parts...)
	sum := 0
	for _, n := range all {
		sum += n
	}
	return strconv.Itoa(sum), err
}

// mail receives its events in order, and runs an activity between every two of them.
func mail(ctx *pawl.Context, in Input) (string, error) {
	got := make([]string, in.N)
	for i := range got {
		n, err := Numbered.Receive(ctx)
		if err != nil {
			return "", err
		}
		got[i] = strconv.Itoa(n)
		if _, err := Step.Call(ctx, n); err != nil {
			return "", err
		}
	}
	more, err := Numbered.Drain(ctx)
	if len(more) > 0 {
		return "", fmt.Errorf("received %d more events than were sent: %v", len(more), more)
	}
	return strings.Join(got, " "), err
}

// race cancels an endless activity.
func race(ctx *pawl.Context, in Input) (string, error) {
	endless, deadline := Endless.Start(ctx, in.N), pawl.After(ctx, time.Duration(in.N)*50*time.Millisecond)
	first, err := pawl.Select(ctx, endless, deadline)
	if err != nil {
		return "", err
	}
	if first != deadline {
		return "", errors.New("an endless activity has won")
	}
	return "deadline", nil
}

// tree has two children on each level.
func tree(ctx *pawl.Context, in Input) (string, error) {
	if in.N%3 == 0 {
		if _, err := Step.Call(ctx, 0); err != nil {
			return "", err
		}
		return "1", nil
	}
	below := Input{N: in.N%3 - 1 + 3}
	left, right := handle("tree").Start(ctx, below), handle("tree").Start(ctx, below)
	sums, err := pawl.All(ctx, left, right)
	if err != nil {
		return "", err
	}
	sum := 0
	for _, s := range sums {
		n, err := strconv.Atoi(s)
		if err != nil {
			return "", err
		}
		sum += n
	}
	return strconv.Itoa(sum), nil
}

// loop continues as new N times. The last execution receives the event.
func loop(ctx *pawl.Context, in Input) (string, error) {
	var err error
	if in.Sum, err = Step.Call(ctx, in.Sum); err != nil {
		return "", err
	}
	if in.Round++; in.Round < in.N {
		return handle("loop").ContinueAsNew(ctx, in)
	}
	n, err := Numbered.Receive(ctx)
	return fmt.Sprintf("%d rounds, event %d", in.Sum, n), err
}

// seat calls an activity with a concurrency limit for each tenant.
func seat(ctx *pawl.Context, in Input) (string, error) {
	for range 2 {
		if _, err := Seat.Call(ctx, in); err != nil {
			return "", err
		}
	}
	return "sat", nil
}

// victim runs until the client cancels it.
func victim(ctx *pawl.Context, in Input) (string, error) {
	_, err := Endless.Call(ctx, in.N)
	return "", err
}

// undo runs an activity after its cancellation.
func undo(ctx *pawl.Context, in Input) (string, error) {
	_, err := Endless.Call(ctx, in.N)
	if err == nil {
		return "", errors.New("an endless activity has ended")
	}
	if _, uerr := Undo.Call(pawl.Detach(ctx), in.N); uerr != nil {
		return "", uerr
	}
	return "", err
}

// retry calls an activity that fails on its first attempts.
func retry(ctx *pawl.Context, in Input) (string, error) {
	return Flaky.Call(ctx, in.N, pawl.Retry{Attempts: 3, Initial: 10 * time.Millisecond})
}

// meter calls an activity with a rate limit.
func meter(ctx *pawl.Context, in Input) (string, error) { return Meter.Call(ctx, in.N) }

// quota calls an activity with a quota.
func quota(ctx *pawl.Context, in Input) (string, error) { return Allowance.Call(ctx, in.N) }

// door calls an activity whose limit rejects callers instead of queueing them.
func door(ctx *pawl.Context, in Input) (string, error) {
	_, err := Door.Call(ctx, in.N)
	if errors.Is(err, pawl.ErrLimited) {
		return "rejected", nil
	}
	return "in", err
}

// hurry calls an activity whose callers time out in the queue.
func hurry(ctx *pawl.Context, in Input) (string, error) {
	_, err := Hurry.Call(ctx, in.N)
	if errors.Is(err, pawl.ErrQueueTimeout) {
		return "timed out", nil
	}
	return "in", err
}

// unchanged is the previous release of change: it lacks the step of the patch.
func unchanged(ctx *pawl.Context, in Input) (string, error) {
	if err := pawl.Sleep(ctx, 300*time.Millisecond); err != nil {
		return "", err
	}
	n, err := Step.Call(ctx, in.N-1)
	return strconv.Itoa(n), err
}

// change has a patch in its second release.
func change(ctx *pawl.Context, in Input) (string, error) {
	if err := pawl.Sleep(ctx, 300*time.Millisecond); err != nil {
		return "", err
	}
	n, err := Step.Call(ctx, in.N-1)
	if err == nil && pawl.Patched(ctx, "second-step") {
		n, err = Step.Call(ctx, n)
	}
	return strconv.Itoa(n), err
}

// pair starts an instance that is not its child, and sends it an event.
func pair(ctx *pawl.Context, in Input) (string, error) {
	id := Listener(pawl.Instance(ctx).Instance)
	if err := handle("listener").StartDetached(ctx, id, in); err != nil {
		return "", err
	}
	return "sent", Numbered.Send(ctx, id, in.N)
}

// Listener returns the id of the instance that a pair starts.
func Listener(pair string) string { return "listener-" + strings.TrimPrefix(pair, "pair-") }

// listener receives the event of a pair.
func listener(ctx *pawl.Context, _ Input) (string, error) {
	n, err := Numbered.Receive(ctx)
	return "received " + strconv.Itoa(n), err
}

// fail ends with a failure.
func fail(ctx *pawl.Context, in Input) (string, error) {
	if _, err := Step.Call(ctx, in.N); err != nil {
		return "", err
	}
	return "", ErrDeclined
}

// sleep checks that its timer does not fire early.
func sleep(ctx *pawl.Context, in Input) (string, error) {
	d := time.Duration(in.N) * 200 * time.Millisecond
	begun := pawl.Now(ctx)
	if err := pawl.Sleep(ctx, d); err != nil {
		return "", err
	}
	if slept := pawl.Now(ctx).Sub(begun); slept < d {
		return "", fmt.Errorf("a timer of %v fired after %v", d, slept)
	}
	return "slept", nil
}
