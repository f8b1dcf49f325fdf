package worker_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/leases"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const partitions = 4

// owner simulates an orchestrator: it creates leases, publishes tasks and reads inboxes.
type owner struct {
	testing.TB
	redis *redistest.Server
	rdb   redis.UniversalClient
	url   string
	conn  *transport.Conn
	space redisx.Space
	ns    string
	next  atomic.Uint64
}

func newOwner(t testing.TB, redisArgs ...string) *owner {
	t.Helper()
	o := &owner{TB: t, redis: redistest.Start(t, redisArgs...), ns: redistest.Namespace()}
	o.rdb, o.url, o.space = o.redis.Client(t), natstest.Start(t).ClientURL(), redisx.NewSpace(o.ns)
	var err error
	o.conn, err = transport.Open(context.Background(), o.dial(), transport.Options{Namespace: o.ns, Partitions: partitions, AckWait: 2 * time.Second})
	o.must(err)
	t.Cleanup(o.conn.Close)
	return o
}

func (o *owner) dial() *nats.Conn {
	o.Helper()
	nc, err := nats.Connect(o.url, nats.MaxReconnects(-1))
	o.must(err)
	o.Cleanup(natstest.Closer(nc))
	return nc
}

func (o *owner) must(err error) {
	o.Helper()
	if err != nil {
		o.Fatal(err)
	}
}

// config returns a configuration with a lease TTL that no stall of the machine exceeds.
func (o *owner) config() worker.Config {
	return worker.Config{NATS: o.dial(), Redis: o.redis.Client(o), Namespace: o.ns, LeaseTTL: time.Minute}
}

// start runs a worker until the test ends.
func (o *owner) start(cfg worker.Config, a ...pawl.ActivityBinding) *worker.Worker {
	o.Helper()
	w, err := worker.New(cfg, a...)
	o.must(err)
	o.must(w.Start(context.Background()))
	o.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		if err := w.Stop(ctx); err != nil {
			o.Error(err)
		}
	})
	return w
}

// schedule creates a lease as the commit of a turn does, and returns its task, which is not published yet.
func (o *owner) schedule(name, queueName string, in history.Payload) transport.Task {
	o.Helper()
	n := o.next.Add(1)
	t := transport.Task{
		Instance: "order-" + strconv.FormatUint(n%7, 10), Execution: 1, Activity: n,
		Name: name, Queue: queueName, Attempt: 1, Payload: in, Origin: history.Position{Seq: 1, Time: 1},
	}
	t.Effect = t.ContentID()
	o.must(o.rdb.HSet(context.Background(), o.leaseKey(t), "e", t.Effect, "n", "0", "c", time.Now().UnixMilli()).Err())
	return t
}

func (o *owner) ref(t transport.Task) leases.Ref {
	return leases.Ref{
		Part: transport.PartitionOf(t.Instance, partitions), Instance: t.Instance,
		Execution: t.Execution, Activity: t.Activity, Effect: t.Effect,
	}
}

func (o *owner) part(t transport.Task) redisx.Part { return o.space.Part(o.ref(t).Part) }

func (o *owner) leaseKey(t transport.Task) string {
	return o.part(t).Lease(t.Instance, t.Execution, t.Activity)
}

func (o *owner) publish(t transport.Task) {
	o.Helper()
	ch := make(chan error, 1)
	o.conn.PublishTask(t, func(err error) { ch <- err })
	o.must(<-ch)
}

// send schedules and publishes a task.
func (o *owner) send(name string, in history.Payload) transport.Task {
	o.Helper()
	t := o.schedule(name, name, in)
	o.publish(t)
	return t
}

func (o *owner) lease(t transport.Task) map[string]string {
	o.Helper()
	m, err := o.rdb.HGetAll(context.Background(), o.leaseKey(t)).Result()
	o.must(err)
	return m
}

// inbox returns the completions of one activity in the inbox of its instance.
func (o *owner) inbox(t transport.Task) []history.Event {
	o.Helper()
	raw, err := o.rdb.LRange(context.Background(), o.part(t).Inbox(t.Instance), 0, -1).Result()
	o.must(err)
	var out []history.Event
	for _, r := range raw {
		e, err := eventcodec.ParseElement([]byte(r))
		o.must(err)
		ev, err := e.Event()
		o.must(err)
		switch c := ev.(type) {
		case *history.ActivityCompleted:
			if c.Scheduled == t.Activity {
				out = append(out, ev)
			}
		case *history.ActivityFailed:
			if c.Scheduled == t.Activity {
				out = append(out, ev)
			}
		default:
			o.Fatalf("%T in the inbox", ev)
		}
	}
	return out
}

func (o *owner) until(what string, ok func() bool) {
	o.Helper()
	poll.Until(o, 60*time.Second, what, ok)
}

// completed waits for the completion of an activity, and checks that there is only one and that it is not a failure.
func (o *owner) completed(t transport.Task) *history.ActivityCompleted {
	o.Helper()
	c, ok := o.end(t).(*history.ActivityCompleted)
	if !ok {
		o.Fatalf("it failed: %+v", o.end(t))
	}
	return c
}

func (o *owner) failed(t transport.Task) *history.ActivityFailed {
	o.Helper()
	f, ok := o.end(t).(*history.ActivityFailed)
	if !ok {
		o.Fatal("it completed")
	}
	return f
}

func (o *owner) end(t transport.Task) history.Event {
	o.Helper()
	var in []history.Event
	o.until("completion of "+t.Name, func() bool { in = o.inbox(t); return len(in) > 0 })
	if len(in) != 1 {
		o.Fatalf("%d completions", len(in))
	}
	return in[0]
}

// described waits until the only worker describes itself. Its reply may miss the first request on a busy machine.
func (o *owner) described() (w request.Worker) {
	o.Helper()
	o.until("the worker describes itself", func() bool {
		all, err := request.Workers(context.Background(), o.conn, 100*time.Millisecond)
		o.must(err)
		if len(all) > 0 {
			w = all[0]
		}
		return len(all) == 1
	})
	return w
}

// drained waits until the queue holds no messages, delivered or not.
func (o *owner) drained(queueName string) {
	o.Helper()
	o.until("queue is empty", func() bool {
		_, some, err := o.conn.OldestTask(context.Background(), queueName)
		o.must(err)
		return !some
	})
}

// signal is a channel on which a handler signals, or waits for the test.
type signal chan struct{}

func (o *owner) wait(what string, s <-chan struct{}) {
	o.Helper()
	select {
	case <-s:
	case <-time.After(time.Minute):
		o.Fatalf("never happened: %s", what)
	}
}

// blocking is an activity that signals its start, and returns when released or when its context ends.
type blocking struct {
	started, release signal
	runs             atomic.Int32
	cause            chan error
}

func newBlocking() *blocking {
	return &blocking{started: make(signal, 100), release: make(signal), cause: make(chan error, 100)}
}

func (b *blocking) run(ctx context.Context, _ pawl.None) (string, error) {
	b.runs.Add(1)
	b.started <- struct{}{}
	select {
	case <-b.release:
		return "done by " + pawl.Info(ctx).Worker, nil
	case <-ctx.Done():
		b.cause <- context.Cause(ctx)
		return "", ctx.Err()
	}
}

func (b *blocking) do(name string) pawl.ActivityBinding {
	return pawl.NewActivity[pawl.None, string](name).Do(b.run)
}

// cancelCause waits for the end of the activity's context, and returns its cause.
func (o *owner) cancelCause(b *blocking) *pawl.Cancelled {
	o.Helper()
	select {
	case err := <-b.cause:
		var c *pawl.Cancelled
		if !errors.As(err, &c) {
			o.Fatalf("cause %v is not a *Cancelled", err)
		}
		return c
	case <-time.After(time.Minute):
		o.Fatal("the context has not ended")
		return nil
	}
}
