package orchestrator_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
)

func (s streamHarness) inputs() (jetstream.JetStream, jetstream.Stream) {
	s.t.Helper()
	js, err := jetstream.New(s.nats)
	if err != nil {
		s.t.Fatal(err)
	}
	st, err := js.Stream(s.ctx(), s.stream("INPUTS"))
	if err != nil {
		s.t.Fatal(err)
	}
	return js, st
}

// messages counts the messages of INPUTS on a subject.
func (s streamHarness) messages(subject string) uint64 {
	s.t.Helper()
	_, st := s.inputs()
	info, err := st.Info(s.ctx(), jetstream.WithSubjectFilter(subject))
	if err != nil {
		s.t.Fatal(err)
	}
	var n uint64
	for _, c := range info.State.Subjects {
		n += c
	}
	return n
}

func (s streamHarness) publishStart(name, id, version, json string) {
	s.t.Helper()
	s.publish(message.OutInput{
		Instance: id, Kind: message.KindStart, Name: name, Version: version, Payload: history.Payload{Type: history.TypeJSON, Data: []byte(json)},
	})
}

// pour sends n events to the counter, and then the last one.
func pour(ctx *pawl.Context, n int) (int, error) {
	for i := 1; i <= n; i++ {
		if err := add.Send(ctx, "sum", 1); err != nil {
			return 0, err
		}
	}
	return n, nil
}

func TestEventsBetweenInstancesArriveExactlyOnce(t *testing.T) {
	s := newHarness(t)
	pourer := pawl.NewOrchestration[int, int]("pour")
	sum := pawl.NewOrchestration[int, int]("sum")
	bs := []pawl.OrchestrationBinding{pourer.Do(pour), sum.Do(func(ctx *pawl.Context, want int) (int, error) {
		got := 0
		for {
			n, err := add.Receive(ctx)
			if err != nil || n == 0 {
				return got, err
			}
			got += n
			if err := shown.Set(ctx, got); err != nil {
				return 0, err
			}
		}
	})}
	first := s.orchestrate(orchestrator.Config{Member: "a"}, bs...)
	for i := range 10 {
		s.start("pour", fmt.Sprint("pour-", i), `50`)
	}
	s.stop(first) // in the middle: some messages were sent without being marked as sent
	s.orchestrate(orchestrator.Config{Member: "b"}, bs...)
	s.start("sum", "sum", `500`)
	for i := range 10 {
		s.ended(fmt.Sprint("pour-", i))
		s.until("the outbox is empty", func() bool { return s.pending(fmt.Sprint("pour-", i)) == 0 })
	}
	s.event("add", "sum", `0`)
	d := s.ended("sum")
	if got, err := author.Result(sum).Decode(d.Result); err != nil || got != 500 {
		t.Fatalf("%d arrived, %v, %v", got, err, d.Failure)
	}
}

func TestSendOrStartStartsItsReceiverOnceAndDeliversExactlyOnce(t *testing.T) {
	s := newHarness(t)
	feeder := pawl.NewOrchestration[int, int]("feed")
	bs := []pawl.OrchestrationBinding{counter.Do(count), feeder.Do(func(ctx *pawl.Context, n int) (int, error) {
		for range n {
			if err := pawl.SendOrStart(ctx, counter, "fed", tally{}, add, 1); err != nil {
				return 0, err
			}
		}
		return n, nil
	})}
	first := s.orchestrate(orchestrator.Config{Member: "a"}, bs...)
	for i := range 10 {
		s.start("feed", fmt.Sprint("feed-", i), `20`)
	}
	s.stop(first) // in the middle: some messages were sent without being marked as sent
	s.orchestrate(orchestrator.Config{Member: "b"}, bs...)
	for i := range 10 {
		s.ended(fmt.Sprint("feed-", i))
		s.until("the outbox is empty", func() bool { return s.pending(fmt.Sprint("feed-", i)) == 0 })
	}
	s.event("add", "fed", `0`)
	d := s.ended("fed")
	if got, err := author.Result(counter).Decode(d.Result); err != nil || got != 200 || d.Parent != "" {
		t.Fatalf("%d arrived, %v, %+v", got, err, d)
	}
}

func TestDetachedStartHasNoParentAndOutlivesItsStarter(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, race.Do(waitForPing), hello.Do(func(ctx *pawl.Context, in string) (string, error) {
		return in, race.StartDetached(ctx, "free", in)
	}))
	s.start("hello", "p-1", `"x"`)
	s.ended("p-1")
	s.until("the detached one runs", func() bool { d := s.describe("free"); return d.Status == "running" && d.Parent == "" })
	s.event("ping", "free", `"go"`)
	s.ended("free")
}

func TestStartsWithEventsStartOnceAndDeliverEveryEvent(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, counter.Do(count))
	for i := range 5 {
		s.publish(message.OutInput{
			Instance: "t-1", Kind: message.KindStart, Name: "counter", ID: fmt.Sprint("m-", i/2), Payload: history.Payload{Type: history.TypeJSON, Data: []byte(`{}`)},
			Event: &message.OutEvent{Name: "add", Payload: history.Payload{Type: history.TypeJSON, Data: []byte(`5`)}},
		})
	}
	s.event("add", "t-1", `0`)
	d := s.ended("t-1")
	if got, err := author.Result(counter).Decode(d.Result); err != nil || got != 15 {
		t.Fatalf("%d %v %v: of five, two are repeats", got, err, d.Failure)
	}
}

func TestCustomStatusIsPushedToClients(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, counter.Do(count))
	s.start("counter", "c-1", `{}`)
	answers := make(chan request.Answer, 10)
	inbox, err := request.OnAnswers(s.conn, func(_ string, a request.Answer) { answers <- a })
	if err != nil {
		t.Fatal(err)
	}
	defer inbox.Stop()
	readAnswer := func(after uint64) (r request.Answered) {
		q := &request.Status{Instance: "c-1", After: after, ReplyTo: inbox.Subject("t")}
		s.must(s.request(s.conn.PartitionOf("c-1"), q, &r))
		return r
	}
	s.until("it runs", func() bool { return s.describe("c-1").Status == "running" })
	for v, n := range []string{`3`, `4`, `0`} {
		if r := readAnswer(uint64(v)); r.Answer != nil {
			t.Fatalf("version %d already exists: %+v", v+1, r.Answer)
		}
		s.event("add", "c-1", n)
		a := <-answers
		if a.Custom == nil || a.Custom.Version != uint64(v+1) {
			t.Fatalf("after %s: %+v", n, a)
		}
	}
	s.ended("c-1")
	if r := readAnswer(3); r.Answer == nil || r.Answer.Status != "completed" || r.Answer.Custom.Version != 3 {
		t.Fatalf("after the end: %+v", r.Answer)
	}
}

// The status that an execution reads is recorded in its history: a later owner reads the same.
func TestExecutionReadsAndClearsTheStatusOfThePreviousOneEvenWithAnotherOwner(t *testing.T) {
	s := newHarness(t)
	code := counter.Do(func(ctx *pawl.Context, in tally) (int, error) {
		if in.Rounds == 0 {
			if err := shown.Set(ctx, 7); err != nil {
				return 0, err
			}
			return counter.ContinueAsNew(ctx, tally{Rounds: 1})
		}
		before, ok, err := shown.Get(ctx)
		if !ok || err != nil {
			return 0, fmt.Errorf("no status: %w", err)
		}
		if _, err := add.Receive(ctx); err != nil {
			return 0, err
		}
		if err := shown.Clear(ctx); err != nil {
			return 0, err
		}
		_, ok, err = shown.Get(ctx)
		if ok {
			err = errors.New("the status is not cleared")
		}
		return before, err
	})
	first := s.orchestrate(orchestrator.Config{Member: "a"}, code)
	s.start("counter", "c-9", `{}`)
	s.until("the second execution waits", func() bool { d := s.describe("c-9"); return d.Execution == 2 && d.Events > 0 })
	s.stop(first)
	s.orchestrate(orchestrator.Config{Member: "b"}, code)
	s.event("add", "c-9", `1`)
	d := s.ended("c-9")
	if got, err := author.Result(counter).Decode(d.Result); err != nil || got != 7 {
		t.Errorf("%d, %v, %v", got, err, d.Failure)
	}
	if d.CustomStatus == nil || !d.CustomStatus.Cleared || d.CustomStatus.Version != 2 {
		t.Errorf("the status is %+v", d.CustomStatus)
	}
}

func TestDivergedInstanceFailsIfConfigured(t *testing.T) {
	s := newHarness(t)
	first := s.orchestrate(orchestrator.Config{Member: "a"}, race.Do(waitForPing))
	s.start("race", "r-1", `"x"`)
	s.until("it runs", func() bool { return s.describe("r-1").Status == "running" })
	s.stop(first)
	s.orchestrate(orchestrator.Config{Member: "b", FailDiverged: true}, race.Do(func(ctx *pawl.Context, in string) (string, error) {
		return greet.Call(ctx, in)
	}))
	s.event("ping", "r-1", `"go"`)
	d := s.ended("r-1")
	if d.Status != "failed" || d.Failure.Code != history.CodeDiverged {
		t.Fatalf("%s %+v", d.Status, d.Failure)
	}
}
