package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/internal/outage"
)

// Conn is one namespace on one NATS connection. It is safe for concurrent use. It
// does not own the NATS connection: Close leaves that open.
type Conn struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	opts  Options
	subj  subjects
	log   *slog.Logger
	parts int // 0: not known
	count counters

	unjoined *PermissionError // why parts is not known; nil: it is
	answers  atomic.Value     // string: the subject of the latest inbox of OnAnswers

	outage    *outage.Reporter
	ownOutage bool // no one else runs it

	inputs, tasks jetstream.StreamConfig // as they are created again if they are lost
	mended        time.Time              // when a lost stream was last looked at; under mendMu
	mendMu        sync.Mutex
	taskSeq       atomic.Uint64 // highest sequence that TASKS has acknowledged

	toInputs *publisher
	toTasks  *publisher
	contact  *contact
	lapses   *lapses
	ctx      context.Context // done when the Conn is closed
	cancel   context.CancelFunc
	wg       sync.WaitGroup
}

// Open creates the streams of a namespace, or verifies those that exist: a stream
// that differs in what can not be changed is refused with a *MismatchError. It is
// for orchestrators; whoever has no say in the number of partitions uses Join.
//
// Open and Join wait, until ctx ends, while NATS or JetStream is unavailable, and fail at once when waiting cannot help.
func Open(ctx context.Context, nc *nats.Conn, o Options) (*Conn, error) {
	o.Partitions = cmp.Or(o.Partitions, DefaultPartitions)
	c, err := newConn(nc, o)
	if err != nil {
		return nil, err
	}
	c.parts = c.opts.Partitions
	c.inputs, c.tasks = inputsConfig(c.opts, c.subj), tasksConfig(c.opts, c.subj)
	err = c.await(ctx, "open namespace", func(ctx context.Context) error {
		for _, stream := range []jetstream.StreamConfig{c.inputs, c.tasks} {
			if err := c.ensure(ctx, stream); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c, c.start()
}

// Join opens a namespace that exists, with the number of partitions that it has;
// it is ErrNoNamespace if it does not exist yet.
func Join(ctx context.Context, nc *nats.Conn, o Options) (*Conn, error) {
	c, err := newConn(nc, o)
	if err != nil {
		return nil, err
	}
	var inputs, tasks jetstream.StreamConfig
	err = c.await(ctx, "join namespace", func(ctx context.Context) (err error) {
		if inputs, err = c.existing(ctx, inputsStream(c.opts.Namespace)); err == nil {
			tasks, err = c.existing(ctx, tasksStream(c.opts.Namespace))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if c.parts, err = partitionsOf(inputs, c.subj); err != nil {
		return nil, err
	}
	if o.Partitions != 0 && o.Partitions != c.parts {
		return nil, &MismatchError{Stream: inputs.Name, Field: "partitions", Have: fmt.Sprint(c.parts), Want: fmt.Sprint(o.Partitions)}
	}
	c.opts.Partitions = c.parts
	c.inputs, c.tasks = inputs, tasks
	return c, c.start()
}

// JoinToPublish is Join for a client, which needs less: the TASKS stream is not looked at, and without the permission to look
// at INPUTS the number of partitions is not known. Inputs can be published all the same; Ask returns the *PermissionError.
func JoinToPublish(ctx context.Context, nc *nats.Conn, o Options) (*Conn, error) {
	c, err := newConn(nc, o)
	if err != nil {
		return nil, err
	}
	err = c.await(ctx, "join namespace", func(ctx context.Context) (err error) {
		c.inputs, err = c.existing(ctx, inputsStream(c.opts.Namespace))
		return err
	})
	missing, denied := errors.AsType[*PermissionError](err)
	switch {
	case denied && !missing.Inbox:
		c.unjoined = missing
		c.inputs, c.opts.Partitions = jetstream.StreamConfig{Name: inputsStream(c.opts.Namespace)}, 0
	case err != nil:
		return nil, err
	default:
		if c.parts, err = partitionsOf(c.inputs, c.subj); err != nil {
			return nil, err
		}
		c.opts.Partitions = c.parts
	}
	return c, c.start()
}

func newConn(nc *nats.Conn, o Options) (*Conn, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("queue: JetStream: %w", err)
	}
	c := &Conn{nc: nc, js: js, opts: o, subj: subjectsOf(o.Namespace), outage: o.Outage, ownOutage: o.Outage == nil}
	if c.ownOutage {
		c.outage = outage.New(o.Logger)
	}
	c.log = c.outage.Logger().With("namespace", o.Namespace)
	return c, nil
}

func (c *Conn) start() error {
	c.ctx, c.cancel = context.WithCancel(context.Background())
	var err error
	if c.toInputs, err = newPublisher(c.nc, c.opts.PublishTimeout); err != nil {
		c.cancel()
		return err
	}
	if c.toTasks, err = newPublisher(c.nc, c.opts.PublishTimeout); err != nil {
		c.toInputs.close()
		c.cancel()
		return err
	}
	c.contact, c.lapses = newContact(), newLapses()
	status := c.nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.CLOSED)
	c.wg.Go(func() { c.watch(status) })
	if c.ownOutage {
		c.wg.Go(func() { c.outage.Run(c.ctx) })
	}
	return nil
}

// sweepEvery is how often publishes are looked for whose acknowledgement has not come in time.
const sweepEvery = 250 * time.Millisecond

// watch fails what was under way when the connection lapsed. Nothing is known
// about it, and waiting for a time-out would only delay whoever can repeat it.
func (c *Conn) watch(status chan nats.Status) {
	defer c.nc.RemoveStatusListener(status)
	sweep, refusals := time.NewTicker(min(c.opts.PublishTimeout/4, sweepEvery)), time.NewTicker(violationEvery)
	defer sweep.Stop()
	defer refusals.Stop()
	seen := &violations{nc: c.nc}
	for {
		select {
		case <-c.ctx.Done():
			return
		case now, ok := <-status:
			if !ok {
				status = nil
			}
			c.statusChanged(now)
		case <-refusals.C:
			if v := seen.next(); v != nil && (!v.Inbox || c.receivesAt(v.Subject)) {
				c.toInputs.refused(v)
				c.toTasks.refused(v)
			}
		case now := <-sweep.C:
			c.toInputs.sweep(now)
			c.toTasks.sweep(now)
		}
	}
}

// receivesAt reports whether a subject is an inbox of the Conn. They are subscribed to one after the other, and if the server
// refuses one it refuses all.
func (c *Conn) receivesAt(subject string) bool {
	return subject == c.toInputs.inbox+"*" || subject == c.toTasks.inbox+"*" || subject == c.answers.Load()
}

func (c *Conn) statusChanged(now nats.Status) {
	switch err := c.nc.LastError(); {
	case now == nats.CONNECTED:
		c.observe("connection", nil)
		return
	case now == nats.RECONNECTING:
		c.observe("connection", ErrDisconnected)
	case now == nats.CLOSED && err != nil: // not by its owner: the server has refused it
		c.log.Error("nats connection closed", "error", err)
	}
	c.lapses.lapse()
	c.toInputs.failAll(ErrDisconnected)
	c.toTasks.failAll(ErrDisconnected)
}

// Close ends what the Conn does by itself and fails the publishes under way with
// ErrClosed. Readers, pullers and subscriptions are stopped by whoever has them, before.
func (c *Conn) Close() {
	c.cancel()
	c.wg.Wait()
	c.toInputs.close()
	c.toTasks.close()
}

// Namespace is the name that the streams and subjects carry.
func (c *Conn) Namespace() string { return c.opts.Namespace }

// Partitions is the number of partitions of the INPUTS stream; 0 if it is not known, see JoinToPublish.
func (c *Conn) Partitions() int { return c.parts }

// PartitionOf is the partition of an instance; -1 if the number of partitions is not known, see JoinToPublish.
func (c *Conn) PartitionOf(instance string) int {
	if c.parts == 0 {
		return -1
	}
	return PartitionOf(instance, c.parts)
}

// Connected reports whether NATS can be sent anything. While it cannot, requests fail at once with ErrDisconnected.
func (c *Conn) Connected() bool { return c.nc.IsConnected() }

// NATS is the connection that the Conn was opened on.
func (c *Conn) NATS() *nats.Conn { return c.nc }

// lapses tells everybody who reads that the connection was lost for a moment.
type lapses struct {
	mu sync.Mutex
	ch chan struct{} // closed at the next lapse
}

func newLapses() *lapses { return &lapses{ch: make(chan struct{})} }

// next is closed when the connection lapses next.
func (l *lapses) next() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ch
}

func (l *lapses) lapse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.ch)
	l.ch = make(chan struct{})
}

// whileConnected is a context that is done, with ErrDisconnected as its cause, when
// the connection lapses: what was asked then is not answered any more. The function
// returned must be called.
func (c *Conn) whileConnected(ctx context.Context, lapse <-chan struct{}) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-lapse:
			cancel(ErrDisconnected)
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		wg.Wait()
	}
}
