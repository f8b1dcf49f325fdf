package transport

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/pkg/history"
)

// A failed leader loses what it has not acknowledged. The publish ends long before its timeout, with an unknown outcome.
func TestPublishWithoutAnswerEndsWhenLaterOnesAreAnswered(t *testing.T) {
	for name, answer := range map[string]*nats.Msg{
		"acknowledged":          {Data: []byte(`{"stream":"x","seq":7}`)},
		"accepted by no stream": {Header: nats.Header{"Status": {"503"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newHarness(t).open(Options{PublishTimeout: time.Hour})
			var n atomic.Int32
			_, err := c.nc.Subscribe("stream", func(m *nats.Msg) {
				if n.Add(1) > 1 {
					_ = m.RespondMsg(answer)
				}
			})
			ok(t, err)
			first, second := make(chan error, 1), make(chan error, 1)
			c.toTasks.publish("stream", nil, nil, func(_ uint64, err error) { first <- err })
			c.toTasks.publish("stream", nil, nil, func(_ uint64, err error) { second <- err })
			if err := get(t, second, "the answer"); err != nil && !errors.Is(err, ErrNoStream) {
				t.Fatal(err)
			}
			if err := get(t, first, "the end of the first"); !errors.Is(err, ErrUnknown) {
				t.Fatal(err)
			}
		})
	}
}

// While the consumer of a queue has no leader, requests to create it fail, and each requires an agreement of the cluster.
func TestPullerThatIsInterruptedDoesNotCreateAConsumerThatExists(t *testing.T) {
	c := newHarness(t).open(Options{})
	p := pull(t, c, "q")
	p.Request(1)
	var created atomic.Int32
	for _, subject := range []string{"CONSUMER.CREATE.>", "CONSUMER.DURABLE.CREATE.>"} {
		_, err := c.nc.Subscribe(c.apiSubject(subject), func(*nats.Msg) { created.Add(1) })
		ok(t, err)
	}
	resets := c.Stats().Resets
	p.mu.Lock()
	p.fetch.stop(errSilence)
	p.mu.Unlock()
	eventually(t, "the interruption", func() bool { return c.Stats().Resets > resets })
	offer(t, c, "q", 0, 1)
	get(t, p.Tasks(), "a task").Ack()
	if n := created.Load(); n != 0 {
		t.Errorf("%d requests to create the consumer", n)
	}
	ok(t, c.js.DeleteConsumer(soon(t), c.tasks.Name, "q"))
	p.Request(1)
	offer(t, c, "q", 1, 1)
	get(t, p.Tasks(), "a task after the consumer was deleted").Ack()
	eventually(t, "a request to create the consumer again", func() bool { return created.Load() > 0 }) // the subscription has its own goroutine
}

// deadPlacement is a JetStream that places the first consumer on a dead server: no request with its name is answered.
type deadPlacement struct {
	jetstream.JetStream

	dead string
}

func (d *deadPlacement) CreateConsumer(ctx context.Context, stream string, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	if d.dead == "" {
		d.dead = cfg.Name
	}
	if cfg.Name == d.dead {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return d.JetStream.CreateConsumer(ctx, stream, cfg)
}

func TestReaderPlacedOnADeadServerIsPlacedAgain(t *testing.T) {
	t.Parallel()
	c := newHarness(t).open(Options{Partitions: 1})
	want := publish(t, c, 0, 2)
	c.js = &deadPlacement{JetStream: c.js}
	got, _ := readAfter(t, c, history.Position{}, 2)
	same(t, got, want)
}
