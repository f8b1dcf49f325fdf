package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// runLedger records, outside of Pawl, how often activities ran, by input, and with which keys.
type runLedger struct {
	mu   sync.Mutex
	runs map[string][]string
}

func (l *runLedger) note(ctx context.Context, in string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs == nil {
		l.runs = make(map[string][]string)
	}
	l.runs[in] = append(l.runs[in], pawl.Info(ctx).Key)
	return len(l.runs[in])
}

func (l *runLedger) count(in string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.runs[in])
}

func (s *harness) operator() *client.Client {
	s.t.Helper()
	c, err := client.New(s.ctx(), s.nats, client.Options{Namespace: s.ns, By: "ops", RepeatInterval: 500 * time.Millisecond})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

var errDown = errors.New("the bank is down")

var (
	step    = pawl.NewActivity[string, string]("step")
	order   = pawl.NewOrchestration[string, string]("order")
	parcel  = pawl.NewOrchestration[string, string]("parcel")
	proceed = pawl.NewEvent[string]("proceed")
)

// steps runs activities that a ledger counts. The first run with the input "charge" fails; the first run with the input "hold" lasts until
// it is cancelled.
func (l *runLedger) steps(causes chan<- error) pawl.ActivityBinding {
	return step.Do(func(ctx context.Context, in string) (string, error) {
		first := l.note(ctx, in) == 1
		if in == "charge" && first {
			return "", pawl.Permanent(errDown)
		}
		if in == "hold" && first {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return "", context.Cause(ctx)
		}
		return in, nil
	})
}

func TestRetriedInstanceRunsNoActivityAgainThatItsHistoryCompletes(t *testing.T) {
	s := newHarness(t)
	var l runLedger
	s.orchestrate(orchestrator.Config{},
		parcel.Do(func(ctx *pawl.Context, in string) (string, error) { return step.Call(ctx, in) }),
		order.Do(func(ctx *pawl.Context, in string) (string, error) {
			if _, err := step.Call(ctx, "reserve"); err != nil {
				return "", err
			}
			box := parcel.Start(ctx, "box", pawl.ID(in+"-box"))
			pay, pack := step.Start(ctx, "charge", pawl.Within(time.Minute)), step.Start(ctx, "pack")
			_, packed := pack.Get(ctx)
			_, boxed := box.Get(ctx)
			word, err := proceed.Receive(ctx)
			_, paid := pay.Get(ctx)
			return word, errors.Join(packed, boxed, err, paid)
		}))
	s.work(worker.Config{}, l.steps(nil))
	s.start("order", "o-1", `"o-1"`)
	s.until("the activities run", func() bool { return l.count("pack") == 1 && l.count("charge") == 1 && l.count("box") == 1 })
	s.event("proceed", "o-1", `"now"`)
	if d := s.ended("o-1"); d.Status != "failed" {
		t.Fatalf("%+v", d)
	}
	op := s.operator()
	plan, err := op.PlanRewind(s.ctx(), "o-1", 0)
	if err != nil || len(plan.Reruns) != 1 || plan.Reruns[0].Name != "step" || len(plan.Undone) != 0 {
		t.Errorf("plan: %+v, %v", plan, err)
	}
	got, err := op.Retry(s.ctx(), "o-1", client.Reason("the bank is up"))
	if err != nil || got.Execution != 2 || got.Status != client.Running {
		t.Fatalf("%+v, %v", got, err)
	}
	if d := s.ended("o-1"); d.Status != "completed" || string(d.Result.Data) != `"now"` {
		t.Fatalf("%+v", d)
	}
	for in, want := range map[string]int{"reserve": 1, "pack": 1, "box": 1, "charge": 2} {
		if n := l.count(in); n != want {
			t.Errorf("%s ran %d times, want %d", in, n, want)
		}
	}
	if keys := l.runs["charge"]; keys[0] != keys[1] {
		t.Errorf("the idempotency key of the retried call has changed: %q", keys)
	}
	_, err = op.Retry(s.ctx(), "o-1")
	if !errors.Is(err, client.ErrRefused) {
		t.Errorf("retry of a completed instance: %v", err)
	}
}

func TestRewoundInstanceReceivesItsEventsAgainAndStartsChildrenOfTheSameIDs(t *testing.T) {
	s := newHarness(t)
	var l runLedger
	s.orchestrate(orchestrator.Config{},
		parcel.Do(func(ctx *pawl.Context, in string) (string, error) { return step.Call(ctx, in) }),
		order.Do(func(ctx *pawl.Context, in string) (string, error) {
			if _, err := step.Call(ctx, "reserve"); err != nil {
				return "", err
			}
			words := ""
			for range 3 {
				word, err := proceed.Receive(ctx)
				if err != nil {
					return "", err
				}
				words += word
			}
			return parcel.Call(ctx, words, pawl.ID(in+"-box"))
		}))
	s.work(worker.Config{}, l.steps(nil))
	s.start("order", "o-1", `"o-1"`)
	for _, word := range []string{"a", "b", "c"} {
		s.event("proceed", "o-1", fmt.Sprintf("%q", word))
	}
	if d := s.ended("o-1"); string(d.Result.Data) != `"abc"` {
		t.Fatalf("%+v", d)
	}
	op := s.operator()
	for execution, to := range map[uint64]uint64{2: 3} { // the completion of reserve, which is kept
		got, err := op.Rewind(s.ctx(), "o-1", to, client.Reason("again"))
		if err != nil || got.Execution != execution {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if d := s.ended("o-1"); string(d.Result.Data) != `"abc"` || d.Execution != 2 {
		t.Fatalf("%+v", d)
	}
	if l.count("reserve") != 1 || l.count("abc") != 2 { // the second child is another instance
		t.Errorf("%v", l.runs)
	}
	got, err := op.Rewind(s.ctx(), "o-1", 1)
	if err != nil || got.Execution != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	if d := s.ended("o-1"); string(d.Result.Data) != `"abc"` || l.count("reserve") != 1 {
		t.Errorf("%+v, %v", d, l.runs)
	}
	if _, err := op.Rewind(s.ctx(), "o-1", 999); !errors.Is(err, client.ErrRefused) {
		t.Errorf("rewind to a missing event: %v", err)
	}
}

func TestRetryFromTheStartReceivesTheEventsAgain(t *testing.T) {
	s := newHarness(t)
	var l runLedger
	s.orchestrate(orchestrator.Config{}, order.Do(func(ctx *pawl.Context, _ string) (string, error) {
		word, err := proceed.Receive(ctx)
		if err != nil {
			return "", err
		}
		_, err = step.Call(ctx, "charge")
		return word, err
	}))
	s.work(worker.Config{}, l.steps(nil))
	s.start("order", "o-1", `""`)
	s.event("proceed", "o-1", `"go"`)
	s.ended("o-1")
	if _, err := s.operator().Retry(s.ctx(), "o-1", client.FromStart()); err != nil {
		t.Fatal(err)
	}
	if d := s.ended("o-1"); string(d.Result.Data) != `"go"` || d.Execution != 2 || l.count("charge") != 2 {
		t.Errorf("%+v, %v", d, l.runs)
	}
}

func TestPausedInstanceIsResumedByARequestAfterUnreadInputs(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, order.Do(func(ctx *pawl.Context, _ string) (string, error) {
		words := ""
		for range 300 {
			word, err := proceed.Receive(ctx)
			if err != nil {
				return words, err
			}
			words += word
		}
		return fmt.Sprint(len(words)), nil
	}))
	s.start("order", "o-1", `""`)
	s.until("it runs", func() bool { return s.describe("o-1").Status == "running" })
	op := s.operator()
	if got, err := op.Pause(s.ctx(), "o-1", client.Reason("maintenance")); err != nil || got.Status != client.Paused {
		t.Fatalf("%+v, %v", got, err)
	}
	for range 300 { // more than an owner keeps in memory
		s.event("proceed", "o-1", `"x"`)
	}
	s.until("the events are unread", func() bool { return s.describe("o-1").UnreadInputs == 300 })
	d := s.describe("o-1")
	if d.Status != "paused" || d.PausedBy != "ops" || d.PausedFor != "maintenance" {
		t.Errorf("%+v", d)
	}
	if _, err := op.Pause(s.ctx(), "o-1"); !errors.Is(err, client.ErrRefused) && err != nil {
		t.Errorf("a second pause: %v", err)
	}
	if got, err := op.Resume(s.ctx(), "o-1"); err != nil || got.Status == client.Paused {
		t.Fatalf("%+v, %v", got, err)
	}
	if d := s.ended("o-1"); string(d.Result.Data) != `"300"` {
		t.Errorf("%+v", d)
	}
}

func TestPauseThatStopsRunsActivitiesAgainAfterTheResumption(t *testing.T) {
	s := newHarness(t)
	var l runLedger
	causes := make(chan error, 1)
	s.orchestrate(orchestrator.Config{}, order.Do(func(ctx *pawl.Context, _ string) (string, error) {
		return step.Call(ctx, "hold", pawl.AttemptTimeout(time.Minute))
	}))
	s.work(worker.Config{}, l.steps(causes))
	s.start("order", "o-1", `""`)
	s.until("it runs", func() bool { return l.count("hold") == 1 })
	op := s.operator()
	if _, err := op.Pause(s.ctx(), "o-1", client.Stop()); err != nil {
		t.Fatal(err)
	}
	if c := new(cancel.Cancelled); !errors.As(<-causes, &c) || c.Reason != cancel.Paused || c.By != "ops" {
		t.Errorf("%+v", c)
	}
	if d := s.describe("o-1"); !d.Stopped || len(d.Activities) != 1 {
		t.Errorf("%+v", d)
	}
	if _, err := op.Resume(s.ctx(), "o-1"); err != nil {
		t.Fatal(err)
	}
	if d := s.ended("o-1"); d.Status != "completed" || l.count("hold") != 2 {
		t.Errorf("%+v, %v", d, l.runs)
	}
}

func TestDescriptionAfterAnInputRequiresThatItIsApplied(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, parcel.Do(func(ctx *pawl.Context, in string) (string, error) { return in, pawl.Sleep(ctx, time.Hour) }))
	s.start("parcel", "p-1", `"x"`)
	s.until("it runs", func() bool { return s.describe("p-1").Status == "running" })
	at := s.describe("p-1").Origin.Seq
	describe := func(accepted uint64) error {
		return s.request(s.conn.PartitionOf("p-1"), &request.Describe{Instance: "p-1", Accepted: accepted}, new(request.Description))
	}
	if err := describe(at); err != nil {
		t.Errorf("after its start: %v", err)
	}
	if err := describe(at + 1_000_000); err == nil {
		t.Error("after an input that the stream does not have: no error")
	}
}

func TestCancelTerminateAndPurgeEndAPausedInstance(t *testing.T) {
	s := newHarness(t)
	var l runLedger
	s.orchestrate(orchestrator.Config{},
		parcel.Do(func(ctx *pawl.Context, in string) (string, error) { return in, pawl.Sleep(ctx, time.Hour) }),
		order.Do(func(ctx *pawl.Context, in string) (string, error) {
			out, err := parcel.Call(ctx, in, pawl.ID(in+"-box"))
			if in == "o-cancel" {
				_, undone := step.Call(pawl.Detach(ctx), "undo")
				err = errors.Join(err, undone)
			}
			return out, err
		}))
	s.work(worker.Config{}, l.steps(nil))
	op := s.operator()
	for _, id := range []string{"o-cancel", "o-terminate", "o-purge"} {
		s.start("order", id, fmt.Sprintf("%q", id))
		s.until("the child runs", func() bool { return s.describe(id+"-box").Status == "running" })
		if _, err := op.Pause(s.ctx(), id); err != nil {
			t.Fatal(err)
		}
	}
	if err := op.Cancel(s.ctx(), "o-cancel", "not needed"); err != nil {
		t.Fatal(err)
	}
	if _, err := op.Terminate(s.ctx(), "o-terminate", client.Reason("lost")); err != nil {
		t.Fatal(err)
	}
	if err := op.Purge(s.ctx(), "o-purge", client.Force()); err != nil {
		t.Fatal(err)
	}
	if d := s.ended("o-cancel"); d.Status != "cancelled" || l.count("undo") != 1 {
		t.Errorf("%+v, %v", d, l.runs)
	}
	d := s.ended("o-terminate")
	if end, ok := s.history("o-terminate")[len(s.history("o-terminate"))-1].(*history.Cancelled); !ok || d.Status != "cancelled" || end.By != "ops" || !end.Forced {
		t.Errorf("%+v", d)
	}
	for _, id := range []string{"o-cancel", "o-terminate", "o-purge"} {
		s.until("the child of "+id+" ends", func() bool { return record.Status(s.describe(id + "-box").Status).Ended() })
	}
}

func TestTerminatedChildIsReportedToItsParentAndCanBeRetried(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{},
		parcel.Do(func(ctx *pawl.Context, _ string) (string, error) { return proceed.Receive(ctx) }),
		order.Do(func(ctx *pawl.Context, in string) (string, error) { return parcel.Call(ctx, in, pawl.ID("box")) }))
	op := s.operator()
	s.start("order", "o-1", `""`)
	s.until("the child runs", func() bool { return s.describe("box").Status == "running" })
	if _, err := op.Terminate(s.ctx(), "box"); err != nil {
		t.Fatal(err)
	}
	s.ended("o-1")
	if _, err := op.Retry(s.ctx(), "box"); err != nil {
		t.Fatal(err)
	}
	if _, err := op.Retry(s.ctx(), "o-1"); err != nil {
		t.Fatal(err)
	}
	s.event("proceed", "box", `"done"`)
	if d := s.ended("o-1"); string(d.Result.Data) != `"done"` {
		t.Errorf("%+v", d)
	}
}

func TestEndlessInstanceIsPausedAndTerminatedBetweenTwoExecutions(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, order.Do(func(ctx *pawl.Context, in string) (string, error) {
		return order.ContinueAsNew(ctx, in)
	}))
	s.start("order", "o-1", `""`)
	op := s.operator()
	s.until("it runs", func() bool { return s.describe("o-1").Execution > 3 })
	got, err := op.Pause(s.ctx(), "o-1")
	if err != nil || got.Status != client.Paused {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := op.Resume(s.ctx(), "o-1"); err != nil {
		t.Fatal(err)
	}
	s.until("it continues", func() bool { return s.describe("o-1").Execution > got.Execution+1 })
	if _, err := op.Terminate(s.ctx(), "o-1"); err != nil {
		t.Fatal(err)
	}
	s.ended("o-1")
}

func TestStalledInstanceIsTerminated(t *testing.T) {
	s := newHarness(t)
	s.start("order", "o-1", `""`)
	s.orchestrate(orchestrator.Config{})
	s.until("it is stalled", func() bool { return s.describe("o-1").Stalled != "" })
	if _, err := s.operator().Terminate(s.ctx(), "o-1"); err != nil {
		t.Fatal(err)
	}
	if d := s.ended("o-1"); d.Status != "cancelled" {
		t.Errorf("%+v", d)
	}
}
