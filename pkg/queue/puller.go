package queue

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

// maxWaiting is how many pull requests a queue's consumer keeps. The server drops
// further ones silently; then they are found missing and made again.
const maxWaiting = 16384

// Puller takes tasks from one queue. It never has more in hand than was asked for
// with Want, so that no task waits behind a busy worker while another is idle. It
// repairs itself: after a lapse of the connection, missed heartbeats, or the loss of
// its consumer or stream, it sets up again and asks again for what had not come.
type Puller struct {
	c     *Conn
	queue string
	tasks chan *Delivery

	ctx     context.Context // done when Stop is called
	cancel  context.CancelFunc
	stopped chan struct{} // the goroutine has ended

	mu     sync.Mutex
	fetch  *fetch // nil while it is set up
	held   int    // wanted meanwhile
	narrow bool   // one task is asked for at a time
}

// Delivery is one task in the hand of this process. Exactly one of its methods
// should be called within the AckWait, or the task is delivered again. They do not
// wait and may be lost: only the claim decides.
type Delivery struct {
	Task  Task
	reply string
	nc    *nats.Conn
}

// Ack removes the task from the queue: it is claimed, or nobody wants it any more.
func (d *Delivery) Ack() { d.say("+ACK") }

// Nak gives the task back, to be delivered at once to whoever asks.
func (d *Delivery) Nak() { d.say("-NAK") }

// GiveBack gives the task back to be delivered to another worker: at once if it was delivered for the first time, else
// after a delay that grows to a second, so that workers which all cannot run it do not hand it round without a pause.
func (d *Delivery) GiveBack() {
	n := deliveries(d.reply)
	if n <= 1 {
		d.Nak()
		return
	}
	d.NakAfter(min(giveBackDelay<<min(n-2, 16), maxGiveBackDelay))
}

const (
	giveBackDelay    = 10 * time.Millisecond
	maxGiveBackDelay = time.Second
)

// deliveries reads off the reply subject of a delivery how often its message has been delivered:
// $JS.ACK.[<domain>.<account>.]<stream>.<consumer>.<deliveries>.… 0: it is none.
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

// NakAfter gives the task back, to be delivered after a delay.
func (d *Delivery) NakAfter(delay time.Duration) {
	d.say(fmt.Sprintf(`-NAK {"delay": %d}`, delay.Nanoseconds()))
}

// Term removes the task because it can not be understood.
func (d *Delivery) Term() { d.say("+TERM") }

func (d *Delivery) say(word string) {
	_ = d.nc.Publish(d.reply, []byte(word)) // lost or not sent: delivered again
}

// Pull opens a queue, creating its consumer if need be. Nothing is delivered until
// Want is called. ctx bounds the opening, not the pulling; until it ends, Pull waits
// while NATS or JetStream is unavailable. The error is ErrBadName,
// or of JetStream; a queue that was opened once is not given up any more.
func (c *Conn) Pull(ctx context.Context, queue string) (*Puller, error) {
	if err := checkQueue(queue); err != nil {
		return nil, err
	}
	p := &Puller{c: c, queue: queue, tasks: make(chan *Delivery), stopped: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	lapse := c.lapses.next()
	if err := c.await(ctx, "pull tasks", p.setUp); err != nil {
		p.cancel()
		return nil, fmt.Errorf("queue: pull from %s: %w", queue, err)
	}
	go p.run(lapse)
	return p, nil
}

// Tasks delivers what was asked for. It is never closed.
func (p *Puller) Tasks() <-chan *Delivery { return p.tasks }

// Want asks for n more tasks: n places have become free. It does not wait.
func (p *Puller) Want(n int) {
	if n <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fetch == nil {
		p.held += n
		return
	}
	p.fetch.want(n)
}

// Narrow has one task at a time asked for from now on, the first and each further one only when Next is called.
// What the server was asked for before still comes, until those requests expire. Want only adds to what is wanted.
func (p *Puller) Narrow() { p.setNarrow(true) }

// Widen has all tasks asked for that are wanted. It is how a Puller begins.
func (p *Puller) Widen() { p.setNarrow(false) }

func (p *Puller) setNarrow(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.narrow = on
	if p.fetch != nil {
		p.fetch.setNarrow(on)
	}
}

// Next lets one more task be asked for. It has no effect unless the Puller is narrow.
func (p *Puller) Next() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fetch != nil { // a new one may ask for one from the start
		p.fetch.permit()
	}
}

// Stop ends the pulling and waits. What was delivered and not taken is given back
// first, so that others get it at once. Nothing may be received from Tasks afterwards.
func (p *Puller) Stop() {
	p.cancel()
	<-p.stopped
}

// resume begins to fetch again. The consumer is created only if it is gone: while one that exists has no leader, a request
// to create it is not answered, and each costs the cluster an agreement; one to describe it costs nothing, and is answered
// as soon as there is a leader.
func (p *Puller) resume(ctx context.Context) error {
	var ignored struct{}
	err := p.c.api(ctx, "CONSUMER.INFO."+p.c.tasks.Name+"."+queueToken(p.queue), struct{}{}, &ignored)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
		return p.setUp(ctx)
	case err != nil:
		return err
	default:
		return p.begin()
	}
}

// setUp makes sure of the consumer and begins to fetch what was wanted meanwhile.
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
		ctx, settle := p.c.whileAllowed(ctx, p.c.apiSubject("CONSUMER.CREATE."+p.c.tasks.Name+"."+cfg.Durable+"."))
		consumer, err := p.c.js.CreateOrUpdateConsumer(ctx, p.c.tasks.Name, cfg)
		return consumer, settle(err)
	}
	_, err := repeated(ctx, createAgain, create)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err = p.c.mend(ctx, p.c.tasks); err == nil {
			_, err = repeated(ctx, createAgain, create)
		}
	}
	if err != nil {
		return p.c.explain(err)
	}
	return p.begin()
}

func (p *Puller) begin() error {
	f, err := newFetch(p.c.nc, p.requests(), pullExpires, p.take)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fetch = f
	if p.narrow {
		f.setNarrow(true)
		f.permit()
	}
	if p.held > 0 {
		f.want(p.held)
		p.held = 0
	}
	return nil
}

// take is called for every message that arrives.
func (p *Puller) take(m *nats.Msg, asked bool) {
	if !asked {
		p.giveBack(&Delivery{reply: m.Reply, nc: p.c.nc})
		return
	}
	d := p.open(m)
	if d == nil {
		p.Want(1)
		p.Next()
		return
	}
	if p.ctx.Err() != nil {
		p.giveBack(d)
		return
	}
	select {
	case p.tasks <- d:
		p.c.count.delivered.Add(1)
	case <-p.ctx.Done():
		p.giveBack(d)
	}
}

func (p *Puller) giveBack(d *Delivery) {
	p.c.count.returned.Add(1)
	d.Nak()
}

// refuse handles a message that is not a task. One of a newer version goes to a
// newer worker, if there is one; anything else would come back for ever.
func (p *Puller) refuse(d *Delivery, err error) {
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
	p.c.log.Error("a message on a task queue is not a task that can be read", "queue", p.queue, "error", err)
}

// run watches over the fetch and replaces it when it has ended.
func (p *Puller) run(lapse <-chan struct{}) {
	defer close(p.stopped)
	tick := time.NewTicker(fetchCheck)
	defer tick.Stop()
	for {
		f := p.fetch // only this goroutine changes it
		select {
		case <-p.ctx.Done():
			p.giveUp(f)
			return
		case <-lapse:
			lapse = p.c.lapses.next()
			f.stop(ErrDisconnected)
		case now := <-tick.C:
			f.check(now)
		case <-f.done:
			p.c.count.resets.Add(1)
			p.c.failedPull("pulling interrupted", p.queue, f.reason())
			p.giveUp(f)
			if lapse = p.again(); lapse == nil {
				return
			}
		}
	}
}

// giveUp closes a fetch. What it had in hand goes where it was going, to the caller
// or, when stopping, back to the queue; what had not come is wanted again.
func (p *Puller) giveUp(f *fetch) {
	p.mu.Lock()
	p.fetch = nil
	p.mu.Unlock()
	n := f.close(true)
	p.mu.Lock()
	p.held += n
	p.mu.Unlock()
}

// again sets up until it succeeds, and returns what is closed at the next lapse of
// the connection; nil if Stop is called.
func (p *Puller) again() <-chan struct{} {
	wait := 20 * time.Millisecond
	for {
		select {
		case <-p.ctx.Done():
			return nil
		case <-time.After(wait/2 + rand.N(wait/2)):
		}
		lapse := p.c.lapses.next()
		if p.c.nc.IsConnected() {
			ctx, cancel := p.c.whileConnected(p.ctx, lapse)
			err := p.resume(ctx)
			cancel()
			if err == nil {
				p.c.observe("pull tasks", nil)
				return lapse
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

// failedPull logs why no tasks come. An outage has lines of its own.
func (c *Conn) failedPull(what, queue string, err error) {
	c.observe("pull tasks", err)
	level := slog.LevelWarn
	if Unavailable(err) {
		level = slog.LevelDebug
	}
	c.log.Log(c.ctx, level, what, "queue", queue, "error", err)
}
