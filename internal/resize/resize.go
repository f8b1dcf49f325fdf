// Package resize changes the number of partitions of a namespace while its fleet is stopped.
//
// # Phases
//
// The state is one field of the namespace's settings in Redis. It is written at each change of phase:
//
//	(none) ──▶ seizing ──▶ copying ──▶ removing ──▶ reading ──▶ (none), with the new number
//	                │          │          ▲
//	                └── undone ┴──────────┘
//
//	seizing   The change becomes the owner of all partitions of both numbers: no member can acquire them, and a paused member is fenced. The
//	          positions up to which inputs are ingested are recorded in the state.
//	copying   From here on INPUTS assigns messages to subjects by the new number. Keys of instances, and members of sets, that belong to another
//	          partition are copied there (store.Placement).
//	removing  Keys and members that no longer belong to their partition are removed.
//	reading   Inputs that were accepted before are read from the whole stream, in its order, and ingested into the partitions of their instances,
//	          up to a position after the last one that was published by the former number. This becomes the position of all partitions.
//
// Finally the partitions are released to members with the new number, and the new number is written to the settings.
//
// # Orders
//
//   - If several masters hold the partitions, the state of a phase is on disks and replicas before the phase begins, and the writes of a phase
//     are there before the next phase is saved. Therefore no failover repeats a phase whose successor has begun: copies are complete when the first
//     original is removed, and nothing that was removed reappears when the fleet starts.
//   - A run fails if a Redis restarts or a failover happens (redisx.Bound), because the new master may lack copies that the run has made. The
//     next run continues from what is in Redis.
//   - An input is unread if the partition to which its instance belonged by the former number had not ingested it. Its subject in the stream does
//     not matter, so the change of the stream need not be atomic with any other step.
//   - A run takes the state with its own token, and seizes all partitions with it, before it continues. An earlier run that was paused is
//     fenced.
//
// # Crash points
//
// Each phase may be repeated from its beginning. After a crash the fleet does not start ("partitions are being resized") until a run with
// the same number has completed. Before anything was removed, a run with the former number undoes the change instead: to it the original of each
// key is in the right place, so it removes the copies.
package resize

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/internal/outage"
	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
)

// Config names a namespace and its new number of partitions.
type Config struct {
	NATS       *nats.Conn
	Redis      redis.UniversalClient
	Namespace  string
	Partitions int // 1 to transport.MaxPartitions
	Logger     *slog.Logger
	// Progress receives how much of a step is done, and of how much; of is 0 if that is unknown. It may be called concurrently.
	Progress func(step string, done, of int64)
}

// Result describes a change that was made, or that Plan computes.
type Result struct {
	From      int    `json:"from"`
	To        int    `json:"to"`
	Instances int64  `json:"instances"`        // instances that move
	Keys      int64  `json:"keys"`             // keys of instances that move
	Inputs    int64  `json:"inputs"`           // inputs that were accepted before the change and that this run has ingested
	Phase     string `json:"phase,omitempty"`  // phase of a change that is in progress
	Undone    bool   `json:"undone,omitempty"` // the run undoes a change
}

// BusyError lists the live members of a fleet that is not stopped.
type BusyError struct{ Members []string }

func (e *BusyError) Error() string {
	return "the fleet is not stopped: " + text.Shorten(strings.Join(e.Members, ", "), 1<<10)
}

// UnfinishedError reports an unfinished change that must be completed or undone first.
type UnfinishedError struct {
	From, To int
	Undoable bool // a run with From undoes the change
}

func (e *UnfinishedError) Error() string {
	s := fmt.Sprintf("a change from %d to %d partitions is unfinished: run it again with %d", e.From, e.To, e.To)
	if e.Undoable {
		s += fmt.Sprintf(", or with %d to undo it", e.From)
	}
	return s
}

// The phases.
const (
	seizing  = "seizing"
	copying  = "copying"
	removing = "removing"
	reading  = "reading"
)

// state is the state of a change in Redis.
type state struct {
	ID      string             `json:"id"`
	From    int                `json:"from"`
	To      int                `json:"to"`
	All     int                `json:"all"` // partitions that may contain data: the greater number, even if the change is undone
	Phase   string             `json:"phase"`
	Applied []history.Position `json:"applied,omitempty"` // by former partition
}

// undoable reports whether all originals still exist.
func (s *state) undoable() bool { return s.Phase == seizing || s.Phase == copying }

// change is one run of a change.
type change struct {
	Config
	*partition.Change
	state

	run     *redisx.Runner
	space   redisx.Space
	store   *store.Store
	result  Result
	tenures []store.Tenure // by partition
}

const (
	silentFor  = 10 * time.Second // without a heartbeat, a member is not live: twice the TTL of ownerships
	workerWait = time.Second      // how long answers of workers are collected
	heldWait   = 15 * time.Second // how long the ownership of a dead orchestrator may take to expire
	parallel   = 32               // partitions that are handled concurrently
)

func open(cfg Config) *change {
	if cfg.Progress == nil {
		cfg.Progress = func(string, int64, int64) {}
	}
	run, space := redisx.NewRunner(cfg.Redis), redisx.NewSpace(cfg.Namespace)
	return &change{Config: cfg, Change: partition.NewChange(run, space), run: run, space: space, store: store.New(run, space)}
}

// Plan returns what Run would do. It writes nothing, and may run while the fleet is running.
func Plan(ctx context.Context, cfg Config) (Result, error) {
	c := open(cfg)
	defer c.run.Close()
	v, err := c.run.Do(ctx, redisx.Command("HMGET", c.space.Meta(), "partitions", "resize"))
	if err != nil {
		return Result{}, err
	}
	r := redisx.NewReply(v)
	if r.Str(0) == "" {
		return Result{}, partition.ErrNoNamespace
	}
	if err := c.begin(int(r.Int(0)), r.Str(1)); err != nil {
		return Result{}, err
	}
	if r.Str(1) != "" {
		c.result.Phase = c.Phase
	}
	return c.result, c.survey(ctx)
}

// Run changes the number of partitions, or continues a change. Errors: partition.ErrNoNamespace, a *BusyError, an *UnfinishedError,
// partition.ErrChangeLost if a later run has taken over, redisx.ErrRestarted. After any error it may be called again.
func Run(ctx context.Context, cfg Config) (_ Result, err error) {
	if cfg.Redis, err = redisx.Bound(ctx, cfg.Redis); err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, cfg.Redis.Close()) }()
	c := open(cfg)
	defer c.run.Close()
	filed, err := c.stopped(ctx)
	if err != nil {
		return Result{}, err
	}
	have, saved, err := c.Take(ctx)
	if err != nil {
		return Result{}, err
	}
	if err := c.begin(have, saved); err != nil || saved == "" && have == c.To && filed == c.To {
		return c.result, err
	}
	if err := c.save(ctx); err != nil {
		return Result{}, err
	}
	failpoint.Here("resize.begun")
	if err := c.seizeAll(ctx); err != nil {
		return c.result, err
	}
	conn, err := transport.Resize(ctx, cfg.NATS, transport.Options{Namespace: cfg.Namespace, Partitions: c.To, Logger: cfg.Logger})
	if err != nil {
		return c.result, err
	}
	defer conn.Close()
	failpoint.Here("resize.filed")
	if err := c.move(ctx); err != nil {
		return c.result, err
	}
	if err := c.read(ctx, conn); err != nil {
		return c.result, err
	}
	return c.result, c.end(ctx)
}

// begin sets the state: that of a new change, or the saved one.
func (c *change) begin(have int, saved string) error {
	c.state = state{ID: rand.Text(), From: have, To: c.Partitions, All: max(have, c.Partitions), Phase: seizing}
	if saved != "" {
		if err := json.Unmarshal([]byte(saved), &c.state); err != nil {
			return fmt.Errorf("state of the unfinished change: %w", err)
		}
		switch {
		case c.To == c.Partitions:
		case c.From == c.Partitions && c.undoable():
			c.result.Undone = true
			if c.To = c.From; c.Phase == copying {
				c.Phase = removing
			}
		default:
			return &UnfinishedError{c.From, c.To, c.undoable()}
		}
	}
	c.result.From, c.result.To = c.From, c.To
	return nil
}

func (c *change) save(ctx context.Context) error {
	b, err := json.Marshal(&c.state)
	if err != nil {
		return err
	}
	return c.Save(ctx, string(b))
}

// enter begins a phase, after all earlier writes are durable.
func (c *change) enter(ctx context.Context, phase string) error {
	if err := c.ordered(ctx); err != nil {
		return err
	}
	c.Phase = phase
	if err := c.save(ctx); err != nil {
		return err
	}
	return c.ordered(ctx)
}

// ordered waits until no earlier write can be lost while a later one survives. One master guarantees that by itself, because its disk and its
// replicas receive its writes in order; for several masters the earlier writes must be durable first.
func (c *change) ordered(ctx context.Context) error {
	if _, several := c.Redis.(*redis.ClusterClient); !several {
		return nil
	}
	c.Progress("wait for disks and replicas", 0, 0)
	return redisx.Durable(ctx, c.Redis)
}

// stopped returns the number of partitions by which INPUTS assigns subjects, or a *BusyError if a member of the fleet is live.
func (c *change) stopped(ctx context.Context) (filed int, err error) {
	now, err := c.Redis.Time(ctx).Result()
	if err != nil {
		return 0, fmt.Errorf("redis: %w", err)
	}
	members, err := c.Redis.HGetAll(ctx, c.space.Members()).Result()
	if err != nil {
		return 0, fmt.Errorf("redis: list the orchestrators: %w", err)
	}
	var busy []string
	for name, beat := range members {
		at, _, _ := strings.Cut(beat, " ")
		if ms, err := strconv.ParseInt(at, 10, 64); err == nil && now.Sub(time.UnixMilli(ms)).Abs() < silentFor { // it may be in the future if the clock of Redis was set back
			busy = append(busy, "orchestrator "+name)
		}
	}
	conn, err := transport.JoinToPublish(ctx, c.NATS, transport.Options{Namespace: c.Namespace, Logger: c.Logger})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	workers, err := request.Workers(ctx, conn, workerWait)
	if err != nil {
		return 0, err
	}
	for _, w := range workers {
		busy = append(busy, "worker "+w.Name)
	}
	if slices.Sort(busy); len(busy) > 0 {
		return 0, &BusyError{busy}
	}
	return conn.Partitions(), nil
}

// all calls do for partitions 0 to n-1, several at a time, and returns the first error.
func all(ctx context.Context, n int, do func(ctx context.Context, part int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for p := range n {
		g.Go(func() error { return do(ctx, p) })
	}
	return g.Wait()
}

// seizeAll seizes the partitions of both numbers. The first run of a change also records their positions in the state.
func (c *change) seizeAll(ctx context.Context) error {
	applied := make([]history.Position, c.All)
	c.tenures = make([]store.Tenure, c.All)
	c.Progress("seize the partitions", 0, 0)
	waiting, stop := context.WithTimeout(ctx, heldWait)
	defer stop()
	err := all(ctx, c.All, func(ctx context.Context, part int) error {
		for {
			at, secret, err := c.Seize(ctx, c.ID, part)
			if _, held := errors.AsType[*partition.HeldError](err); held && outage.Sleep(waiting, 250*time.Millisecond) {
				continue
			}
			applied[part], c.tenures[part] = at, store.Tenure{Part: part, Token: c.Token, Secret: secret}
			return err
		}
	})
	if err != nil {
		return err
	}
	failpoint.Here("resize.seized")
	if c.Phase != seizing {
		return c.survey(ctx)
	}
	c.Applied = applied[:c.From]
	if err := c.survey(ctx); err != nil {
		return err
	}
	if c.result.Undone {
		return c.enter(ctx, removing)
	}
	return c.enter(ctx, copying)
}

func (c *change) home(name string) int { return transport.PartitionOf(name, c.To) }

// survey counts the instances and keys that must move.
func (c *change) survey(ctx context.Context) error {
	c.Progress("count", 0, 0)
	found, err := c.store.NewPlacement(c.home, nil, nil).Misplaced(ctx)
	c.result.Instances, c.result.Keys = found.Instances, found.Keys
	return err
}

// move runs the phases copying and removing, if they are not complete.
func (c *change) move(ctx context.Context) error {
	for _, p := range []struct {
		phase, next, step string
		do                func(*store.Placement, context.Context) error
	}{
		{copying, removing, "copy", (*store.Placement).Copy},
		{removing, reading, "remove", (*store.Placement).Remove},
	} {
		if c.Phase != p.phase {
			continue
		}
		var done atomic.Int64
		err := p.do(c.store.NewPlacement(c.home, c.tenures, func(keys int) {
			failpoint.Here("resize." + p.phase)
			c.Progress(p.step, done.Add(int64(keys)), c.result.Keys)
		}), ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", p.step, err)
		}
		failpoint.Here("resize." + p.phase + ".done")
		if err := c.enter(ctx, p.next); err != nil {
			return err
		}
	}
	return nil
}

// end releases the partitions, and writes the new number.
func (c *change) end(ctx context.Context) error {
	if err := all(ctx, c.All, func(ctx context.Context, part int) error { return c.Release(ctx, c.ID, part, c.To) }); err != nil {
		return err
	}
	failpoint.Here("resize.released")
	if err := c.ordered(ctx); err != nil {
		return err
	}
	if err := c.Commit(ctx, c.To); err != nil {
		return err
	}
	c.Progress("wait for disks and replicas", 0, 0)
	return redisx.Durable(ctx, c.Redis)
}
