package orchestrator_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// push pushes an event to an inbox, as ingest would have done at that time, and has the instance reconciled.
func (s *harness) push(id, name, text string, at time.Time) {
	s.t.Helper()
	body, err := eventcodec.Encode(&history.EventReceived{Name: name, Payload: history.Payload{Type: history.TypeJSON, Data: fmt.Appendf(nil, "%q", text)}})
	if err != nil {
		s.t.Fatal(err)
	}
	el := eventcodec.Element{ID: "s1." + fmt.Sprint(at.UnixNano()) + s.seal(id), At: at.UnixMilli(), Body: body}
	if err := s.redis.RPush(s.ctx(), s.key(id, "in:"+id), el.Encode()).Err(); err != nil {
		s.t.Fatal(err)
	}
	s.reconcileNow(id)
}

// seal returns the seal of the partition of an instance.
func (s *harness) seal(id string) string {
	s.t.Helper()
	key := s.key(id, "p")
	if err := s.redis.HSetNX(s.ctx(), key, "secret", "made by a test").Err(); err != nil { // if the partition has had no owner yet
		s.t.Fatal(err)
	}
	secret, err := s.redis.HGet(s.ctx(), key, "secret").Result()
	if err != nil {
		s.t.Fatal(err)
	}
	return store.Tenure{Secret: secret}.Seal()
}

func (s *harness) reconcileNow(id string) {
	s.t.Helper()
	if err := s.redis.ZAddArgs(s.ctx(), s.key(id, "wakeups"), zNow(id)).Err(); err != nil {
		s.t.Fatal(err)
	}
}

// An event waits for the start of its instance for a day. Dropping an older event must not drop a newer one.
func TestEarlyEventsAreDroppedAfterADay(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, hello.Do(func(ctx *pawl.Context, _ string) (string, error) { return ping.Receive(ctx) }))
	s.push("e-1", "ping", "old", time.Now().Add(-25*time.Hour))
	s.push("e-1", "ping", "older", time.Now().Add(-24*time.Hour-time.Minute))
	s.push("e-1", "ping", "young", time.Now().Add(-23*time.Hour))
	s.reconcileNow("e-1")
	s.until("the old ones are dropped", func() bool { return s.redis.LLen(s.ctx(), s.key("e-1", "in:e-1")).Val() == 1 })
	s.start("hello", "e-1", `"x"`)
	d := s.ended("e-1")
	if got, err := author.Result(hello).Decode(d.Result); err != nil || got != "young" {
		t.Fatalf("%q, %v, %v", got, err, d.Failure)
	}
}

func TestInboxThatDroppedAnInputFailsItsInstanceByName(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, hello.Do(func(ctx *pawl.Context, _ string) (string, error) { return ping.Receive(ctx) }))
	s.start("hello", "f-1", `"x"`)
	s.until("it runs", func() bool { return s.describe("f-1").Status == "running" })
	// The owner that dropped the input died before it could fail the instance; the next owner finds its mark.
	if err := s.redis.RPush(s.ctx(), s.key("f-1", "in:f-1"), "full.17"+s.seal("f-1")+"\n1790000000000\n").Err(); err != nil {
		t.Fatal(err)
	}
	s.reconcileNow("f-1")
	if d := s.ended("f-1"); d.Status != "failed" || d.Failure.Code != history.CodeInboxFull {
		t.Fatalf("%+v %+v", d, d.Failure)
	}
}

func TestElementOfANewerBuildStallsItsInstanceWithoutALoop(t *testing.T) {
	t.Parallel() // mostly waits
	s := newHarness(t)
	c := counters(t)
	s.orchestrate(orchestrator.Config{Metrics: c.reg}, hello.Do(callGreet))
	body, err := eventcodec.Encode(&history.CancelRequested{})
	if err != nil {
		t.Fatal(err)
	}
	body[1] = 0x7f // the version of the encoding
	key := s.key("v-1", "in:v-1")
	if err := s.redis.RPush(s.ctx(), key, append([]byte("!s1.1"+s.seal("v-1")+"\n1\n"), body...)).Err(); err != nil {
		t.Fatal(err)
	}
	s.reconcileNow("v-1")
	s.until("it is listed", func() bool { return strings.Contains(s.describe("v-1").Stalled, "unreadable") })
	before := c.get("pawl_orchestrator_loads_total")
	for range 20 {
		s.reconcileNow("v-1") // inputs keep arriving
		s.start("hello", fmt.Sprint("neighbor-", before), `"x"`)
	}
	if n := c.get("pawl_orchestrator_loads_total") - before; n > 10 {
		t.Errorf("loaded %v times, want few", n)
	}
	if err := s.redis.Del(s.ctx(), key).Err(); err != nil {
		t.Fatal(err)
	}
	s.until("it is no longer listed", func() bool { s.reconcileNow("v-1"); return s.describe("v-1").Stalled == "" })
	s.until("it has no wakeup", func() bool {
		return errors.Is(s.redis.ZScore(s.ctx(), s.key("v-1", "wakeups"), "v-1").Err(), redis.Nil)
	})
	s.work(worker.Config{}, greet.Do(doGreet))
	s.ended(fmt.Sprint("neighbor-", before))
}

func TestRepeatedStartAndCancelOfAnEndedInstanceAreAnsweredWithoutEffect(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, hello.Do(callGreet))
	s.work(worker.Config{}, greet.Do(doGreet))
	answers := make(chan request.Answer, 10)
	inbox, err := request.OnAnswers(s.conn, func(_ string, a request.Answer) { answers <- a })
	if err != nil {
		t.Fatal(err)
	}
	defer inbox.Stop()
	s.start("hello", "d-1", `"you"`)
	s.ended("d-1")
	before := len(s.history("d-1"))
	for i := range 3 {
		in := message.OutInput{Instance: "d-1", Kind: message.KindStart, Name: "race", Reply: inbox.Subject(fmt.Sprint(i))}
		if i == 2 {
			in.Kind, in.Name = message.KindCancel, ""
		}
		s.publish(in)
		select {
		case a := <-answers:
			got, err := author.Result(hello).Decode(a.Result)
			if a.Status != "completed" || err != nil || got != "hello you" {
				t.Errorf("answer %d: %+v", i, a)
			}
		case <-time.After(time.Minute):
			t.Fatalf("input %d is not answered", i)
		}
	}
	s.until("the inbox is empty", func() bool { return s.describe("d-1").UnreadInputs == 0 })
	if n := len(s.history("d-1")); n != before {
		t.Errorf("%d events, were %d", n, before)
	}
}
