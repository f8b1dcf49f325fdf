package transport

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

func replies(t *testing.T, c *Conn, wait time.Duration) (all []string, err error) {
	t.Helper()
	err = c.RequestWorkers(soon(t), wait, func(b []byte) error {
		all = append(all, string(b))
		return nil
	})
	slices.Sort(all)
	return all, err
}

func TestAllWorkersOfTheNamespaceReply(t *testing.T) {
	s := newHarness(t)
	c := s.open(Options{})
	for _, name := range []string{"w1", "w2"} {
		sub, err := s.open(Options{}).ServeWorkers(func() []byte { return []byte(name) })
		stop(t, sub, err)
	}
	sub, err := s.open(Options{Namespace: "other"}).ServeWorkers(func() []byte { return []byte("elsewhere") })
	stop(t, sub, err)
	eventually(t, "both replies", func() bool {
		got, err := replies(t, c, 50*time.Millisecond)
		return err == nil && slices.Equal(got, []string{"w1", "w2"})
	})
}

func TestRequestWorkersReturnsImmediatelyIfThereIsNone(t *testing.T) {
	c := newHarness(t).open(Options{})
	if got, err := replies(t, c, time.Hour); err != nil || len(got) > 0 {
		t.Fatal(got, err)
	}
}

func TestMalformedReplyOfAWorkerIsCounted(t *testing.T) {
	s := newHarness(t)
	c := s.open(Options{})
	nc := s.dial()
	sub, err := subscribe(nc, "pawl.default.workers", func(m *nats.Msg) { _ = m.Respond([]byte("hello")) })
	stop(t, sub, err)
	ok(t, nc.Flush()) // the server has received it
	ctx, cancel := context.WithCancelCause(context.Background())
	enough := errors.New("enough")
	err = c.RequestWorkers(ctx, time.Hour, func([]byte) error {
		cancel(enough)
		return ErrMalformed
	})
	if !errors.Is(err, enough) || c.Stats().Ignored != 1 {
		t.Fatal(err, c.Stats().Ignored)
	}
}

func TestWorkersDoNotReplyToSubjectsOfInputs(t *testing.T) {
	c := newHarness(t).open(Options{})
	sub, err := c.ServeWorkers(func() []byte { return []byte("w") })
	stop(t, sub, err)
	ok(t, c.nc.PublishRequest("pawl.default.workers", "pawl.default.to.order-1.cancel", nil))
	eventually(t, "the reply to a later request", func() bool {
		got, err := replies(t, c, 50*time.Millisecond)
		return err == nil && len(got) == 1
	})
	stream, err := c.js.Stream(soon(t), c.inputs.Name)
	ok(t, err)
	if n := stream.CachedInfo().State.Msgs; n > 0 {
		t.Fatalf("%d inputs", n)
	}
}

// queued waits until the consumer has n tasks to deliver: the server acknowledges a publication before it notifies the consumers.
func queued(t testing.TB, p *Puller, n uint64) {
	t.Helper()
	eventually(t, "the consumer to have the tasks", func() bool {
		info, err := p.consumer.Info(soon(t))
		ok(t, err)
		return info.NumPending == n
	})
}

func TestBurstReturnsOnlyQueuedTasks(t *testing.T) {
	c := newHarness(t).open(Options{})
	p := pull(t, c, "q")
	if got, err := p.Burst(soon(t), 10); err != nil || len(got) > 0 {
		t.Fatal(got, err)
	}
	offer(t, c, "q", 0, 7)
	queued(t, p, 7)
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
	first[0].Nak() // delivered again, for the next request
	for _, d := range rest {
		d.Ack()
	}
	p.Request(1)
	if d := get(t, p.Tasks(), "the returned task"); d.Task.Instance != "i-0" {
		t.Fatal(d.Task.Instance)
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := p.Burst(over, 5); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestBurstRemovesPoisonAndContinues(t *testing.T) {
	c := newHarness(t).open(Options{})
	p := pull(t, c, "q")
	_, err := c.js.Publish(soon(t), "pawl.default.task.q", []byte("nonsense"))
	ok(t, err)
	offer(t, c, "q", 0, 1)
	queued(t, p, 2)
	got, err := p.Burst(soon(t), 10)
	ok(t, err)
	if len(got) != 1 || c.Stats().Poison != 1 {
		t.Fatalf("%d, %d removed", len(got), c.Stats().Poison)
	}
	got[0].Ack()
}
