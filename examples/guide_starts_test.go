package examples

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pawltest/integration"
	"github.com/pawlrun/pawl/pkg/client"
)

// The options of a start in docs/guide/client.md.

func notify(ctx context.Context, c *client.Client, customer string, at time.Time) error {
	_, err := client.Start(ctx, c, Notice, "notice:"+customer, customer, client.StartAt(at), client.RunTimeout(24*time.Hour), client.AfterFailure)
	return err
}

func reserveName(ctx context.Context, c *client.Client, name string) (free bool, _ error) {
	run, err := client.Start(ctx, c, Notice, "name:"+name, name, client.Reject)
	if err != nil {
		return false, err
	}
	err = run.WaitStarted(ctx)
	if errors.Is(err, client.ErrIDTaken) {
		return false, nil
	}
	return err == nil, err
}

func renotify(ctx context.Context, c *client.Client, id, customer, requestID string) error {
	run, err := client.Start(ctx, c, Notice, id, customer, client.TerminateExisting, client.MessageID(requestID))
	if err != nil {
		return err
	}
	return run.WaitStarted(ctx)
}

// Notice completes when it has been read.
var (
	Notice = pawl.NewOrchestration[string, string]("notice")
	seen   = pawl.NewEvent[string]("seen")

	polling = pawl.NewOrchestration[int, int]("poll-forever")
	beginAt = pawl.NewOrchestration[pawl.None, time.Time]("begin-at")
	third   = pawl.NewOrchestration[pawl.None, string]("third-time")
	retried = pawl.NewOrchestration[string, string]("retry-child")
	errNot  = pawl.NewError("not-yet")
)

func startFleet(t *testing.T) *client.Client {
	t.Helper()
	return integration.Start(
		t,
		Notice.Do(func(ctx *pawl.Context, customer string) (string, error) {
			by, err := seen.Receive(ctx)
			if by == "fail" {
				return "", errNot
			}
			return customer + by, err
		}),
		polling.Do(func(ctx *pawl.Context, n int) (int, error) {
			if err := pawl.Sleep(ctx, 20*time.Millisecond); err != nil {
				return n, err
			}
			return polling.ContinueAsNew(ctx, n+1)
		}),
		beginAt.Do(func(ctx *pawl.Context, _ pawl.None) (time.Time, error) { return pawl.Now(ctx), nil }),
		third.Do(func(ctx *pawl.Context, _ pawl.None) (string, error) {
			id := pawl.Instance(ctx).Instance
			if !strings.HasSuffix(id, "~3") {
				return "", errNot
			}
			return id, nil
		}),
		retried.Do(func(ctx *pawl.Context, id string) (string, error) {
			return third.Call(ctx, pawl.None{}, pawl.ID(id), pawl.Retry{Initial: time.Millisecond})
		}),
	).Client
}

// A delayed start is pending, in lists and counts, until it is due or cancelled. Its code begins at its time.
func TestDelayedStartIsPendingUntilItIsDueOrCancelled(t *testing.T) {
	t.Parallel()
	c, ctx := startFleet(t), t.Context()
	later, err := client.Start(ctx, c, Notice, "later", "a", client.After(time.Hour), client.RunTimeout(time.Minute))
	if err = errors.Join(err, later.WaitStarted(ctx)); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, time.Minute, "it is pending", func() bool {
		n, err := c.Count(ctx, client.CountOptions{Where: "status = pending and orchestration = notice"})
		return err == nil && n.Count == 1
	})
	d, err := c.Describe(ctx, "later")
	if until := time.Until(d.StartAt); err != nil || d.Status != client.Pending || until < 50*time.Minute || until > time.Hour || d.Deadline.Sub(d.StartAt) != time.Minute {
		t.Errorf("%+v, %v", d, err)
	}
	if err := c.Cancel(ctx, "later", "not needed"); err != nil {
		t.Fatal(err)
	}
	if _, err := later.Result(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "not needed") {
		t.Errorf("the cancelled instance: %v", err)
	}
	for delay := 700 * time.Millisecond; ; delay *= 4 { // on a busy machine, a start may arrive after its time
		at := time.Now().Add(delay)
		soon, err := client.Start(ctx, c, beginAt, "soon-"+delay.String(), pawl.None{}, client.StartAt(at))
		if err != nil {
			t.Fatal(err)
		}
		now, err := soon.Result(ctx)
		if err != nil || now.UnixMilli() < at.UnixMilli() || now.UnixMilli() > at.UnixMilli() && delay > time.Minute {
			t.Fatalf("it began at %v, want %v: %v", now, at, err)
		}
		if now.UnixMilli() == at.UnixMilli() {
			return
		}
	}
}

// The timeout of a run ends it, whatever its code does, across all of its executions.
func TestRunTimeoutEndsTheInstance(t *testing.T) {
	t.Parallel()
	c, ctx := startFleet(t), t.Context()
	idle, err := client.Start(ctx, c, Notice, "idle", "a", client.RunTimeout(300*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	_, err = idle.Result(ctx)
	timedOut := func(err error) {
		if !errors.Is(err, pawl.ErrRunTimeout) || !errors.Is(err, pawl.ErrTimeout) {
			t.Fatalf("ended with %v", err)
		}
	}
	timedOut(err)
	for within := 500 * time.Millisecond; ; within *= 4 { // the first execution may be slow on a busy machine
		id := "endless-" + within.String()
		endless, err := client.Start(ctx, c, polling, id, 0, client.RunTimeout(within))
		if err != nil {
			t.Fatal(err)
		}
		_, err = endless.Result(ctx)
		timedOut(err)
		d, err := c.Describe(ctx, id)
		if err != nil || d.Status != client.Failed || d.Code != "pawl.run-timeout" || d.Execution < 2 && within > time.Minute {
			t.Fatalf("%+v, %v", d, err)
		}
		if d.Execution > 1 {
			return
		}
	}
}

// A start with an id that is in use does what its policy requires, and a duplicate of its message has no further effect.
func TestStartOfAnIDThatIsTakenFollowsItsPolicy(t *testing.T) {
	t.Parallel()
	c, ctx := startFleet(t), t.Context()
	start := func(in string, opts ...client.StartOption) error {
		run, err := client.Start(ctx, c, Notice, "r-1", in, opts...)
		if err != nil {
			t.Fatal(err)
		}
		return run.WaitStarted(ctx)
	}
	ends := func(by, want string) {
		t.Helper()
		if err := client.Send(ctx, c, seen, "r-1", by); err != nil {
			t.Fatal(err)
		}
		if got, err := client.Attach(c, Notice, "r-1").Result(ctx); got != want || (want == "") != errors.Is(err, errNot) {
			t.Errorf("ended with %q, %v, want %q", got, err, want)
		}
	}
	for i, x := range []struct {
		in    string
		opts  []client.StartOption
		taken bool
	}{
		{"a", []client.StartOption{client.Reject, client.MessageID("1")}, false},
		{"a", []client.StartOption{client.Reject, client.MessageID("1")}, false}, // a duplicate
		{"b", []client.StartOption{client.Reject, client.MessageID("2")}, true},
		{"c", []client.StartOption{client.AfterFailure}, true},
		{"d", nil, false}, // ignored
	} {
		if err := start(x.in, x.opts...); errors.Is(err, client.ErrIDTaken) != x.taken || !x.taken && err != nil {
			t.Errorf("start %d: %v", i, err)
		}
	}
	if d, err := c.Describe(ctx, "r-1"); err != nil || d.Execution != 1 { // never replaced
		t.Errorf("execution %d, %v", d.Execution, err)
	}
	ends("fail", "")
	if err := start("f", client.AfterFailure); err != nil {
		t.Error(err)
	}
	ends("!", "f!")
	if err := start("g", client.AfterFailure); !errors.Is(err, client.ErrIDTaken) {
		t.Errorf("after a completed instance: %v", err)
	}
	if err := notify(ctx, c, "ada", time.Now().Add(time.Hour)); err != nil {
		t.Error(err)
	}
	for range 2 {
		run, err := client.Start(ctx, c, Notice, "r-2", "h", client.After(time.Hour), client.Reject, client.MessageID("4"))
		if err = errors.Join(err, run.WaitStarted(ctx)); err != nil {
			t.Errorf("a delayed start, and its repeat: %v", err)
		}
	}
	other, err := client.Start(ctx, c, Notice, "r-2", "i", client.Reject, client.MessageID("5"))
	if err = errors.Join(err, other.WaitStarted(ctx)); !errors.Is(err, client.ErrIDTaken) {
		t.Errorf("after a delayed start: %v", err)
	}
	replaced, err := client.Start(ctx, c, Notice, "r-3", "j")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := renotify(ctx, c, "r-3", "k", "6"); err != nil {
			t.Errorf("replacement of a running instance, and its repeat: %v", err)
		}
	}
	if _, err := replaced.Result(ctx); !errors.As(err, new(*pawl.Cancelled)) {
		t.Errorf("the replaced instance ended with %v", err)
	}
	if d, err := c.Describe(ctx, "r-3"); err != nil || d.Execution != 2 || d.Status != client.Running {
		t.Errorf("%s in execution %d, %v", d.Status, d.Execution, err)
	}
	for _, want := range []bool{true, false} {
		if free, err := reserveName(ctx, c, "ada"); free != want || err != nil {
			t.Errorf("free: %v, %v", free, err)
		}
	}
}

// A child that fails is started again as a separate instance.
func TestChildIsRetriedAsAnotherInstance(t *testing.T) {
	t.Parallel()
	c, ctx := startFleet(t), t.Context()
	run, err := client.Start(ctx, c, retried, "parent", "child")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := run.Result(ctx); got != "child~3" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
