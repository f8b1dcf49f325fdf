package queue

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

func TestAllWorkersTellAboutThemselves(t *testing.T) {
	s := newStand(t)
	asker := s.open(Options{})
	all := []WorkerInfo{
		{
			Name: "w1", Host: "h", PID: 7, Since: 1_790_000_000_000, Activities: []string{"charge", "reserve"}, Queues: []string{"q"}, Concurrency: 64, Running: 3,
			Abandoned: []Abandoned{{Activity: "charge", Instance: "order-1", Since: 9}}, LastError: "redis: away", LastErrorAt: 8, NotReady: "too many",
		},
		{Name: "w2"},
	}
	for _, info := range all {
		sub, err := s.open(Options{}).ServeWorkers(func() WorkerInfo { return info })
		stop(t, sub, err)
	}
	other := s.open(Options{Namespace: "other"})
	sub, err := other.ServeWorkers(func() WorkerInfo { return WorkerInfo{Name: "elsewhere"} })
	stop(t, sub, err)

	var got []WorkerInfo
	eventually(t, "both", func() bool { // how long is long enough nobody knows: see AskWorkers
		got, err = asker.AskWorkers(soon(t), 50*time.Millisecond)
		ok(t, err)
		return len(got) == 2
	})
	slices.SortFunc(got, func(a, b WorkerInfo) int { return b.PID - a.PID })
	if !reflect.DeepEqual(got, all) {
		t.Fatalf("%+v", got)
	}
}

func TestWhereThereIsNoWorkerThatIsKnownAtOnce(t *testing.T) {
	c := newStand(t).open(Options{})
	if got, err := c.AskWorkers(soon(t), time.Hour); err != nil || len(got) > 0 {
		t.Fatal(got, err)
	}
}

func TestAWorkerThatIsSilentCostsTheWaitAndNonsenseIsNoWorker(t *testing.T) {
	s := newStand(t)
	c := s.open(Options{})
	asked := make(chan struct{}, 9)
	nc := s.dial()
	sub, err := subscribe(nc, "pawl.default.workers", func(m *nats.Msg) {
		_ = m.Respond([]byte("hello"))
		asked <- struct{}{}
	})
	stop(t, sub, err)
	ok(t, nc.Flush()) // the server knows of it
	ctx, cancel := context.WithCancelCause(context.Background())
	enough := errors.New("enough")
	go func() {
		<-asked
		for c.Stats().Ignored == 0 {
			<-time.After(time.Millisecond)
		}
		cancel(enough)
	}()
	if got, err := c.AskWorkers(ctx, time.Hour); !errors.Is(err, enough) || len(got) > 0 {
		t.Fatal(got, err)
	}
}

func TestARequestThatWantsItsAnswerToBecomeAnInputIsNotAnswered(t *testing.T) {
	c := newStand(t).open(Options{})
	sub, err := c.ServeWorkers(func() WorkerInfo { return WorkerInfo{Name: "w"} })
	stop(t, sub, err)
	ok(t, c.nc.PublishRequest("pawl.default.workers", "pawl.default.to.order-1.cancel", nil))
	eventually(t, "an answer to a request behind it", func() bool {
		got, err := c.AskWorkers(soon(t), 50*time.Millisecond)
		ok(t, err)
		return len(got) == 1
	})
	stream, err := c.js.Stream(soon(t), c.inputs.Name)
	ok(t, err)
	if n := stream.CachedInfo().State.Msgs; n > 0 {
		t.Fatalf("%d inputs", n)
	}
}

func TestABurstTakesWhatIsThereAndNoMore(t *testing.T) {
	c := newStand(t).open(Options{})
	p := pull(t, c, "q")
	if got, err := p.Burst(soon(t), 10); err != nil || len(got) > 0 {
		t.Fatal(got, err)
	}
	offer(t, c, "q", 0, 7)
	first, err := p.Burst(soon(t), 5)
	ok(t, err)
	rest, err := p.Burst(soon(t), 5)
	ok(t, err)
	if len(first) != 5 || len(rest) != 2 || first[0].Task.Instance != "i-0" || rest[1].Task.Instance != "i-6" {
		t.Fatalf("%d and %d", len(first), len(rest))
	}
	for _, d := range first[1:] {
		d.Ack()
	}
	first[0].Nak() // it is delivered again, to whoever asks
	for _, d := range rest {
		d.Ack()
	}
	p.Want(1)
	if d := get(t, p.Tasks(), "the task that was given back"); d.Task.Instance != "i-0" {
		t.Fatal(d.Task.Instance)
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := p.Burst(over, 5); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestABurstRemovesPoisonAndGoesOn(t *testing.T) {
	c := newStand(t).open(Options{})
	p := pull(t, c, "q")
	_, err := c.js.Publish(soon(t), "pawl.default.task.q", []byte("nonsense"))
	ok(t, err)
	offer(t, c, "q", 0, 1)
	got, err := p.Burst(soon(t), 10)
	ok(t, err)
	if len(got) != 1 || c.Stats().Poison != 1 {
		t.Fatalf("%d, %d removed", len(got), c.Stats().Poison)
	}
	got[0].Ack()
}
