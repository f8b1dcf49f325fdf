package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/pawlrun/pawl/examples"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/leases"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/process"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
)

// floorInstances is the default number of chains.
const floorInstances = 6_000

// floorQueue is the task queue, and the name of the activity and of the orchestration.
const floorQueue = "floor"

// floor measures the bare loop of a chain: commit, task, claim, ack, doorbell. It uses the scripts and messages of the runtime without
// its engine: it neither replays nor runs orchestrations, calls no handlers, renews no leases, and reads no inputs.
// This process owns the partitions; the worker is a process of its own. The rate is in activities per second.
func (r *run) floor(ctx context.Context) (rate float64, err error) {
	f, err := startFleet(ctx, r.log, r.childLog, layout{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	r.opts.NATSURL = settings.URL(f.nats.url())
	o, err := r.floorOwner(ctx, f)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, o.stop(context.WithoutCancel(ctx))) }()
	if err := f.add(&f.workers, "floor", 0, workerConcurrency); err != nil {
		return 0, err
	}
	sc := timed(floorQueue, examples.ChainLength, floorInstances, o.chain)
	d := &driver{run: strconv.Itoa(os.Getpid())}
	m, err := r.measure(ctx, sc, r.opts.Instances, d, f)
	if err != nil {
		return 0, err
	}
	m.CPU["orchestrator"] = m.CPU["client"]
	delete(m.CPU, "client")
	return m.ActivitiesPerS, r.report.add(m)
}

// floorOwner owns all partitions, and commits the turns.
type floorOwner struct {
	conn   *transport.Conn
	run    *redisx.Runner
	store  *store.Store
	keeper *partition.Keeper
	close  func()

	mu      sync.Mutex
	tenures map[int]*partition.Tenure
	chains  map[string]*floorChain
}

// floorChain is an instance. It is used by one goroutine at a time: by its start, and then by the doorbell of each commit.
type floorChain struct {
	id, head string
	activity uint64 // event id
	ended    chan error
}

func (r *run) floorOwner(ctx context.Context, f *fleet) (*floorOwner, error) {
	nc, err := r.opts.OpenNATS(r.log)
	if err != nil {
		return nil, err
	}
	ns := r.opts.Namespace.Namespace
	space, run := redisx.NewSpace(ns), redisx.NewRunner(f.rdb)
	o := &floorOwner{run: run, store: store.New(run, space), tenures: make(map[int]*partition.Tenure), chains: make(map[string]*floorChain)}
	o.close = nc.Close
	if o.conn, err = transport.Open(ctx, nc, transport.Options{Namespace: ns, Logger: r.log}); err != nil {
		run.Close()
		o.close()
		return nil, err
	}
	o.keeper = partition.NewKeeper(partition.Config{
		Redis: f.rdb, Space: space, Partitions: o.conn.Partitions(), Member: floorQueue, Logger: slog.New(slog.DiscardHandler), Run: o.serve, Released: func(int) {},
	})
	if err := o.keeper.Start(ctx); err != nil {
		return nil, errors.Join(err, o.stop(ctx))
	}
	owned := func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.tenures) == o.conn.Partitions()
	}
	if err := until(ctx, owned); err != nil {
		return nil, errors.Join(fmt.Errorf("own the partitions: %w", err), o.stop(ctx))
	}
	return o, nil
}

func (o *floorOwner) stop(ctx context.Context) error {
	err := o.keeper.Stop(ctx)
	o.run.Close()
	o.conn.Close()
	o.close()
	return err
}

// serve listens to the doorbells of a partition.
func (o *floorOwner) serve(ctx context.Context, t *partition.Tenure) error {
	doorbells, err := o.conn.OnDoorbells(t.Part, func(doorbells []message.Doorbell) {
		for _, b := range doorbells {
			o.mu.Lock()
			c := o.chains[b.Instance]
			o.mu.Unlock()
			if e, err := eventcodec.ParseElement(b.Element); err == nil && c != nil {
				o.turn(t, c, e)
			}
		}
	})
	if err != nil {
		return err
	}
	defer doorbells.Stop()
	o.mu.Lock()
	o.tenures[t.Part] = t
	o.mu.Unlock()
	<-ctx.Done()
	return nil
}

// chain runs a chain to its end.
func (o *floorOwner) chain(ctx context.Context, id string) error {
	c := &floorChain{id: id, ended: make(chan error, 1)}
	o.mu.Lock()
	o.chains[id] = c
	t := o.tenures[o.conn.PartitionOf(id)]
	o.mu.Unlock()
	o.turn(t, c, eventcodec.Element{})
	select {
	case err := <-c.ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// turn commits a turn of a chain, which takes the completion of an activity and schedules the next one, or ends.
func (o *floorOwner) turn(t *partition.Tenure, c *floorChain, completion eventcodec.Element) {
	commit := &record.Commit{
		Instance: c.id, Execution: 1, Head: c.head, NewHead: c.id + "." + strconv.FormatUint(c.activity, 10), Record: &record.Record{},
		From: record.Running, Wakeup: time.Now().Add(10 * time.Second).UnixMilli(), MaxUnread: record.UnreadBatch,
	}
	if c.head == "" {
		commit.From = ""
		commit.Record = &record.Record{Name: floorQueue, Version: "1", Origin: history.Position{Seq: 1, Time: 1}, Execution: 1, Status: record.Running, Created: 1}
		commit.Events = append(commit.Events, make([]byte, 100)) // about the size of Started
	} else {
		commit.Pop, commit.Events = []string{completion.ID}, append(commit.Events, completion.Body)
	}
	c.activity++
	task := transport.Task{
		Instance: c.id, Origin: history.Position{Seq: 1, Time: 1}, Execution: 1, Activity: c.activity + 1, Name: floorQueue, Queue: floorQueue, Attempt: 1,
		Payload: history.Payload{Type: history.TypeJSON, Data: []byte("1")}, ScheduledAt: 1,
	}
	if c.activity/2 < examples.ChainLength {
		task.Effect = task.ContentID()
		commit.Events = append(commit.Events, make([]byte, 100)) // ActivityScheduled
		commit.Create = []record.Lease{{Activity: task.Activity, Effect: task.Effect}}
		c.activity++
	} else {
		commit.Record.Status, commit.Record.Ended = record.Completed, 1
		commit.Events = append(commit.Events, make([]byte, 50)) // the end
		commit.Record.End = commit.Events[1]
	}
	c.head = commit.NewHead
	tenure := store.Tenure{Part: t.Part, Token: t.Token, Secret: t.Secret}
	o.store.Commit(tenure, commit, func(done record.Committed, err error) {
		if err == nil {
			t.Committed(done.Number)
		}
		if err != nil || task.Effect == "" {
			o.mu.Lock()
			delete(o.chains, c.id)
			o.mu.Unlock()
			c.ended <- err
			return
		}
		o.conn.PublishTask(task, func(err error) {
			if err != nil {
				c.ended <- err
			}
		})
	})
}

// floorWorker claims and acknowledges every task at once, until standard input ends.
func (c *memberProgram) floorWorker(ctx context.Context) (err error) {
	ctx, cancel := process.UntilStdinClosed(ctx)
	defer cancel()
	log := c.Log.Open(os.Stderr)
	nc, err := c.DialNATS(ctx, log)
	if err != nil {
		return err
	}
	defer nc.Close()
	rdb, err := c.DialRedis(log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rdb.Close()) }()
	conn, err := transport.Join(ctx, nc, transport.Options{Namespace: c.Namespace.Namespace, Logger: log})
	if err != nil {
		return err
	}
	defer conn.Close()
	run := redisx.NewRunner(rdb)
	defer run.Close()
	w := &floorTasks{conn: conn, leases: leases.New(run, redisx.NewSpace(c.Namespace.Namespace)), wake: make(chan struct{}, 1), pending: make(map[int][]message.Doorbell)}
	if w.puller, err = conn.Pull(ctx, floorQueue); err != nil {
		return err
	}
	defer w.puller.Stop()
	w.puller.Request(workerConcurrency)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.wake:
			w.sendDoorbells()
		case d := <-w.puller.Tasks():
			w.take(d)
		}
	}
}

type floorTasks struct {
	conn   *transport.Conn
	leases *leases.Scripts
	puller *transport.Puller
	claims int
	wake   chan struct{}

	mu      sync.Mutex
	pending map[int][]message.Doorbell // by partition
}

func (w *floorTasks) take(d *transport.Delivery) {
	w.claims++
	t := d.Task
	claim := leases.Claim{Token: "floor-" + strconv.Itoa(w.claims), Ref: leases.Ref{
		Part: w.conn.PartitionOf(t.Instance), Instance: t.Instance, Execution: t.Execution, Activity: t.Activity, Effect: t.Effect,
	}}
	w.leases.Claim(leases.ClaimRequest{Claim: claim, Worker: floorQueue, TTL: 30 * time.Second, MaxClaims: 10}, func(leases.ClaimReply, error) {
		d.Ack()
		body, _ := eventcodec.Encode(&history.ActivityCompleted{Scheduled: t.Activity, Result: t.Payload, Worker: floorQueue, Claims: 1})
		w.leases.Ack(leases.Completion{Claim: claim, Body: body}, func(a leases.Acked, err error) {
			w.puller.Request(1)
			if err != nil || a.Outcome != leases.OK {
				return
			}
			w.mu.Lock()
			w.pending[claim.Part] = append(w.pending[claim.Part], message.Doorbell{Instance: t.Instance, Effect: t.Effect, Element: a.Element.Encode(), Proof: a.Proof})
			w.mu.Unlock()
			select {
			case w.wake <- struct{}{}:
			default:
			}
		})
	})
}

func (w *floorTasks) sendDoorbells() {
	w.mu.Lock()
	now := w.pending
	w.pending = make(map[int][]message.Doorbell, len(now))
	w.mu.Unlock()
	for p, doorbells := range now {
		_ = w.conn.SendDoorbells(p, doorbells)
	}
}
