package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/internal/outage"
	"github.com/pawlrun/pawl/internal/timers"
)

// Conn connects a process to one namespace through a NATS connection. It is safe for concurrent use. Close does not close the NATS
// connection.
//
// Its methods are those of its parts: inputs and tasks are the two streams, signals are core-NATS messages without replies, requests are
// core-NATS messages with replies.
type Conn struct {
	*link
	*streams
	*inputStream
	*taskStream
	*objects
	*signals
	*requests
}

// Open creates the streams of a namespace, or verifies existing ones: a stream whose unchangeable settings differ is a *MismatchError.
// It is for orchestrators; programs that do not decide the number of partitions use Join.
//
// Open and Join wait until ctx ends while NATS or JetStream is unavailable, and fail immediately if waiting cannot help.
func Open(ctx context.Context, nc *nats.Conn, o Options) (*Conn, error) {
	o.Partitions = cmp.Or(o.Partitions, DefaultPartitions)
	c, err := newConn(nc, o)
	if err != nil {
		return nil, err
	}
	c.parts = c.opts.Partitions
	c.inputs, c.tasks = inputsConfig(c.opts, c.subj), tasksConfig(c.opts, c.subj)
	err = c.await(ctx, "open namespace", func(ctx context.Context) error {
		if have, err := c.existing(ctx, c.inputs.Name); err == nil { // an existing INPUTS of another kind may also have the subjects of TASKS
			if err := verify(have, c.inputs); err != nil {
				return err
			}
		}
		for _, stream := range []jetstream.StreamConfig{c.tasks, c.inputs} { // INPUTS last: a client takes it as a sign that the namespace exists
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

// Join opens an existing namespace with its number of partitions. The error is ErrNoNamespace if it does not exist, and a *MismatchError
// if o.Partitions is set and differs.
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

// JoinToPublish is Join for a client, which needs fewer permissions: it does not read TASKS, and without permission to read the state of
// INPUTS the number of partitions is unknown. Inputs can be published nevertheless, but Request returns the *PermissionError.
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
	l := &link{nc: nc, js: js, opts: o, subj: subjectsOf(o.Namespace), outage: o.Outage, ownOutage: o.Outage == nil, disconnects: newDisconnects(),
		partitions: make(chan struct{}, maxPartitionRequests)}
	if l.ownOutage {
		l.outage = outage.New(o.Logger)
	}
	l.log = l.outage.Logger().With("namespace", o.Namespace)
	s := &streams{link: l}
	return &Conn{
		link: l, streams: s, inputStream: &inputStream{link: l, streams: s, contact: newContact()}, taskStream: &taskStream{link: l, streams: s},
		objects: newObjects(s), signals: &signals{l}, requests: &requests{link: l},
	}, nil
}

func (c *Conn) start() error {
	c.ctx, c.cancel = context.WithCancel(context.Background())
	sweepAfter := min(c.opts.PublishTimeout/4, sweepEvery)
	ticks := timers.NewTicker(min(sweepAfter, violationEvery))
	var err error
	if c.toInputs, err = newPublisher(c.nc, c.opts.PublishTimeout, ticks); err != nil {
		c.cancel()
		return err
	}
	if c.toTasks, err = newPublisher(c.nc, c.opts.PublishTimeout, ticks); err != nil {
		c.toInputs.close()
		c.cancel()
		return err
	}
	status := c.nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.CLOSED)
	c.wg.Go(func() { c.watch(status, ticks, sweepAfter) })
	if c.ownOutage {
		c.wg.Go(func() { c.outage.Run(c.ctx) })
	}
	return nil
}

const (
	sweepEvery = 250 * time.Millisecond // interval at which publishes without an acknowledgement are ended
	checkEvery = time.Second            // interval at which fetches are checked
)

// watch ends all outstanding operations when the connection is lost. Their outcome is unknown, and waiting for a timeout would only
// delay their repetition. While no publish is outstanding it wakes up once a second.
func (c *Conn) watch(status chan nats.Status, ticks *timers.Ticker, sweepAfter time.Duration) {
	defer c.nc.RemoveStatusListener(status)
	defer ticks.Stop()
	check := time.NewTimer(timers.Until(checkEvery))
	defer check.Stop()
	seen, swept := &violations{nc: c.nc}, time.Now()
	for {
		select {
		case <-c.ctx.Done():
			return
		case now, ok := <-status:
			if !ok {
				status = nil
			}
			c.statusChanged(now)
			ticks.Require() // the server may reject the inboxes of a new connection
		case now := <-ticks.C:
			ticks.Received()
			c.readRefusals(seen)
			if now.Sub(swept) >= sweepAfter {
				swept = now
				c.toInputs.sweep(now)
				c.toTasks.sweep(now)
			}
			if c.toInputs.outstanding() || c.toTasks.outstanding() {
				ticks.Require()
			}
		case now := <-check.C:
			check.Reset(timers.Until(checkEvery))
			c.readRefusals(seen)
			c.fetches.check(now)
		}
	}
}

// readRefusals ends the publishes that the server has rejected.
func (c *Conn) readRefusals(seen *violations) {
	if v := seen.next(); v != nil && (!v.Inbox || c.receivesAt(v.Subject)) {
		c.toInputs.refused(v)
		c.toTasks.refused(v)
	}
}

// receivesAt reports whether a subject is an inbox of the Conn. The inboxes are subscribed to one after the other, and a server that
// rejects one rejects all.
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
	case now == nats.CLOSED && err != nil: // closed because the server rejected it
		c.log.Error("nats connection closed", "error", err)
	}
	c.disconnects.notify()
	c.toInputs.failAll(ErrDisconnected)
	c.toTasks.failAll(ErrDisconnected)
}

// Close ends the goroutines of the Conn and fails outstanding publishes with ErrClosed. Readers, pullers and subscriptions must be
// stopped before.
func (c *Conn) Close() {
	c.cancel()
	c.wg.Wait()
	c.toInputs.close()
	c.toTasks.close()
}
