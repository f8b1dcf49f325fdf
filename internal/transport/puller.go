package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// maxWaiting is the maximum number of pull requests of a queue's consumer. The server silently drops further ones; they are detected as
// lost and repeated.
const maxWaiting = 16384

// Puller pulls tasks from one queue. It never receives more than were requested with Request, so that no task waits for a busy worker while
// another one is idle. It repairs itself: after a disconnect, missed heartbeats, or the loss of its consumer or stream, it sets up again
// and repeats the requests that were not answered.
type Puller struct {
	c     *taskStream
	queue string
	tasks chan *Delivery

	ctx     context.Context // cancelled by Stop
	cancel  context.CancelFunc
	stopped chan struct{} // closed when the goroutine has ended

	mu       sync.Mutex
	consumer jetstream.Consumer // as it was created last
	fetch    *fetch             // nil while it is being set up
	wanted   int                // number of tasks wanted in the meantime
	narrow   bool               // one task is requested at a time
}

// Delivery is a task that was delivered to this process. Exactly one of its methods should be called within AckWait, otherwise the task is
// delivered again. They do not wait and may be lost: only the claim decides.
type Delivery struct {
	Task  Task
	reply string
	nc    *nats.Conn
}

// Ack removes the task from the queue, because it was claimed or is no longer required.
func (d *Delivery) Ack() { d.send("+ACK") }

// Nak returns the task, to be delivered immediately to any worker.
func (d *Delivery) Nak() { d.send("-NAK") }

// Return returns the task to be delivered to another worker: immediately after its first delivery, and otherwise after a delay that grows
// to a second, so that workers that cannot run it do not pass it on without a pause.
func (d *Delivery) Return() {
	n := deliveries(d.reply)
	if n <= 1 {
		d.Nak()
		return
	}
	d.NakAfter(min(returnDelay<<min(n-2, 16), maxReturnDelay))
}

const (
	returnDelay    = 10 * time.Millisecond
	maxReturnDelay = time.Second
)

// deliveries returns how often the message has been delivered, from its reply subject:
// $JS.ACK.[<domain>.<account>.]<stream>.<consumer>.<deliveries>.… It returns 0 for any other subject.
func deliveries(reply string) int {
	tokens := strings.Split(reply, ".")
	at := 4
	if len(tokens) > 9 {
		at = 6
	}
	if len(tokens) <= at {
		return 0
	}
	n, _ := strconv.Atoi(tokens[at])
	return n
}

// NakAfter returns the task, to be delivered after the delay.
func (d *Delivery) NakAfter(delay time.Duration) {
	d.send(fmt.Sprintf(`-NAK {"delay": %d}`, delay.Nanoseconds()))
}

// Term removes a task that cannot be decoded.
func (d *Delivery) Term() { d.send("+TERM") }

func (d *Delivery) send(reply string) {
	_ = d.nc.Publish(d.reply, []byte(reply)) // if it is lost or not sent, the task is delivered again
}

// Pull opens a queue, and creates its consumer if necessary. Nothing is delivered until Request is called. ctx bounds the opening, not the
// pulling; until it ends, Pull waits while NATS or JetStream is unavailable. The error is ErrBadName, or one of JetStream. Once opened, the
// queue is retried indefinitely.
func (c *taskStream) Pull(ctx context.Context, queue string) (*Puller, error) {
	if err := checkQueue(queue); err != nil {
		return nil, err
	}
	p := &Puller{c: c, queue: queue, tasks: make(chan *Delivery), stopped: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	disconnected := c.disconnects.next()
	if err := c.await(ctx, "pull tasks", p.setUp); err != nil {
		p.cancel()
		return nil, fmt.Errorf("queue: pull from %s: %w", queue, err)
	}
	go p.run(disconnected)
	return p, nil
}

// Tasks delivers the requested tasks. It is never closed.
func (p *Puller) Tasks() <-chan *Delivery { return p.tasks }

// Request requests n more tasks, because n slots have become free. It does not wait.
func (p *Puller) Request(n int) {
	if n <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fetch == nil {
		p.wanted += n
		return
	}
	p.fetch.want(n)
}

// Limit limits the requests to one task at a time: one immediately, and one for each call of Next. Tasks that were requested before still
// arrive until those requests expire. Request only increases the number of wanted tasks.
func (p *Puller) Limit() { p.setLimited(true) }

// Unlimit requests all tasks that are wanted, as a new Puller does.
func (p *Puller) Unlimit() { p.setLimited(false) }

func (p *Puller) setLimited(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.narrow = on
	if p.fetch != nil {
		p.fetch.setLimited(on)
	}
}

// Next permits one more request. It has no effect unless the Puller is narrow.
func (p *Puller) Next() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fetch != nil { // a new fetch has a permit from the start
		p.fetch.permit()
	}
}

// Stop ends the pulling and waits. Tasks that were delivered and not received are returned first, so that other workers receive them
// immediately. Nothing may be received from Tasks afterwards.
func (p *Puller) Stop() {
	p.cancel()
	<-p.stopped
}

// resume fetches again. It creates the consumer only if it is gone: while an existing consumer has no leader, a request to create it is
// not answered, and requires an agreement of the cluster; a request for its state is cheap, and is answered as soon as there is a leader.
func (p *Puller) resume(ctx context.Context) error {
	var ignored struct{}
	err := p.c.streams.api(ctx, "CONSUMER.INFO."+p.c.streams.tasks.Name+"."+queueToken(p.queue), struct{}{}, &ignored)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
		return p.setUp(ctx)
	case err != nil:
		return err
	default:
		return p.begin()
	}
}

// setUp ensures that the consumer exists, and fetches what was wanted in the meantime.
func (p *Puller) setUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	cfg := jetstream.ConsumerConfig{
		Durable:       queueToken(p.queue),
		Description:   "Pawl: queue " + p.queue,
		FilterSubject: p.c.subj.task(p.queue),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       p.c.opts.AckWait,
		MaxDeliver:    -1,
		MaxAckPending: -1,
		MaxWaiting:    maxWaiting,
	}
	create := func(ctx context.Context) (jetstream.Consumer, error) {
		ctx, settle := p.c.whileAllowed(ctx, p.c.streams.apiSubject("CONSUMER.CREATE."+p.c.streams.tasks.Name+"."+cfg.Durable+"."))
		consumer, err := p.c.js.CreateOrUpdateConsumer(ctx, p.c.streams.tasks.Name, cfg)
		return consumer, settle(err)
	}
	consumer, err := repeated(ctx, createAgain, create)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err = p.c.streams.mend(ctx, p.c.streams.tasks); err == nil {
			consumer, err = repeated(ctx, createAgain, create)
		}
	}
	if err != nil {
		return p.c.explain(err)
	}
	p.mu.Lock()
	p.consumer = consumer
	p.mu.Unlock()
	return p.begin()
}

func (p *Puller) begin() error {
	requests := p.c.streams.apiSubject("CONSUMER.MSG.NEXT." + p.c.streams.tasks.Name + "." + queueToken(p.queue))
	f, err := newFetch(p.c.nc, requests, pullExpires, calmExpires, p.take)
	if err != nil {
		return err
	}
	p.c.fetches.add(f)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fetch = f
	if p.narrow {
		f.setLimited(true)
		f.permit()
	}
	if p.wanted > 0 {
		f.want(p.wanted)
		p.wanted = 0
	}
	return nil
}

// take handles a message that has arrived.
func (p *Puller) take(m *nats.Msg, requested bool) {
	if !requested {
		p.returnTask(&Delivery{reply: m.Reply, nc: p.c.nc})
		return
	}
	d := p.open(m.Reply, m.Header, m.Data)
	if d == nil {
		p.Request(1)
		p.Next()
		return
	}
	if p.ctx.Err() != nil {
		p.returnTask(d)
		return
	}
	select {
	case p.tasks <- d:
		p.c.count.delivered.Add(1)
	case <-p.ctx.Done():
		p.returnTask(d)
	}
}

// open decodes a task. It returns nil if the task cannot be decoded; it was removed or returned in that case.
func (p *Puller) open(reply string, header nats.Header, data []byte) *Delivery {
	d := &Delivery{reply: reply, nc: p.c.nc}
	var err error
	d.Task, err = DecodeTask(data)
	d.Task.Headers = headersOfTask(header)
	if err == nil && d.Task.Queue != p.queue {
		err = fmt.Errorf("%w: activity %s of %s was scheduled for queue %q", ErrForged, d.Task.Name, d.Task.Instance, d.Task.Queue)
	}
	if err != nil {
		p.reject(d, err)
		return nil
	}
	return d
}

// Burst returns at most n of the tasks that are currently in the queue, in order, in addition to those requested with Request. It is for callers
// that settle many tasks without running them; a task that must run is returned with Nak. Tasks that have arrived are returned even with
// an error.
func (p *Puller) Burst(ctx context.Context, n int) (all []*Delivery, _ error) {
	p.mu.Lock()
	consumer := p.consumer
	p.mu.Unlock()
	batch, err := consumer.FetchNoWait(n)
	if err != nil {
		return nil, fmt.Errorf("queue: burst from %s: %w", p.queue, err)
	}
	for {
		select {
		case m, more := <-batch.Messages():
			if err := batch.Error(); !more && err != nil {
				return all, fmt.Errorf("queue: burst from %s: %w", p.queue, err)
			}
			if !more {
				return all, nil
			}
			if d := p.open(m.Reply(), m.Headers(), m.Data()); d != nil {
				all = append(all, d)
			}
		case <-ctx.Done(): // tasks that arrive later are delivered again after AckWait
			return all, context.Cause(ctx)
		}
	}
}

func (p *Puller) returnTask(d *Delivery) {
	p.c.count.returned.Add(1)
	d.Nak()
}

// reject handles a message that is not a valid task. A task of a newer version is left for a newer worker; any other one is removed, because
// it would be delivered again indefinitely.
func (p *Puller) reject(d *Delivery, err error) {
	switch {
	case errors.Is(err, ErrNewer):
		d.NakAfter(time.Second)
	case errors.Is(err, ErrForged):
		d.Term()
		p.c.count.forged.Add(1)
		p.c.log.Error("forged task dropped", "queue", p.queue, "error", err)
		return
	default:
		d.Term()
		p.c.count.poison.Add(1)
	}
	p.c.log.Error("task not decodable", "queue", p.queue, "error", err)
}

// run supervises the fetch, and replaces it when it has ended.
func (p *Puller) run(disconnected <-chan struct{}) {
	defer close(p.stopped)
	for {
		f := p.fetch // only this goroutine changes it
		select {
		case <-p.ctx.Done():
			p.closeFetch(f)
			return
		case <-disconnected:
			disconnected = p.c.disconnects.next()
			f.stop(ErrDisconnected)
		case <-f.done:
			p.c.count.resets.Add(1)
			p.c.failedPull("pulling interrupted", p.queue, f.reason())
			p.closeFetch(f)
			if disconnected = p.setUpAgain(); disconnected == nil {
				return
			}
		}
	}
}

// closeFetch closes a fetch. Tasks in its buffer are passed to the caller or, when stopping, returned to the queue; tasks that had not
// arrived are wanted again.
func (p *Puller) closeFetch(f *fetch) {
	p.mu.Lock()
	p.fetch = nil
	p.mu.Unlock()
	n := f.close(true)
	p.mu.Lock()
	p.wanted += n
	p.mu.Unlock()
}

// setUpAgain retries until it succeeds, and returns the channel of the next disconnect; nil if Stop is called.
func (p *Puller) setUpAgain() <-chan struct{} {
	wait := 20 * time.Millisecond
	for {
		select {
		case <-p.ctx.Done():
			return nil
		case <-time.After(wait/2 + rand.N(wait/2)):
		}
		disconnected := p.c.disconnects.next()
		if p.c.nc.IsConnected() {
			ctx, cancel := p.c.whileConnected(p.ctx, disconnected)
			err := p.resume(ctx)
			cancel()
			if err == nil {
				p.c.observe("pull tasks", nil)
				return disconnected
			}
			if p.ctx.Err() != nil {
				return nil
			}
			p.c.failedPull("pulling not set up, retrying", p.queue, err)
		} else {
			p.c.observe("pull tasks", ErrDisconnected)
		}
		wait = min(2*wait, maxBackoff)
	}
}

// failedPull logs the reason for which no tasks arrive. An outage has log lines of its own.
func (c *taskStream) failedPull(what, queue string, err error) {
	c.observe("pull tasks", err)
	level := slog.LevelWarn
	if Unavailable(err) {
		level = slog.LevelDebug
	}
	c.log.Log(c.ctx, level, what, "queue", queue, "error", err)
}
