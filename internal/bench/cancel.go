package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/pawlrun/pawl/internal/term"
)

const (
	cancelActivities = 1000                   // activities to cancel by default
	cancelWarmup     = 50                     // instances cancelled before the measurement
	cancelSpread     = 10 * time.Second       // cancellations without hints are spread over three renewals of the default TTL
	cancelPace       = 100 * time.Millisecond // maximum time between two of them
	calibrateOver    = 4000                   // instances that measure the capacity of the fleet
	calibrateWith    = 200                    // instances in flight meanwhile
	loadPart         = 0.5                    // background load as a part of the capacity
	loadTick         = time.Millisecond       // starts that are due within a tick are sent together
)

// cancelResult reports how long activities run in another process after their cancellation.
type cancelResult struct {
	Scenario  string  `json:"scenario"`
	Cancelled int     `json:"cancelled"`           // activities
	Missed    int     `json:"missed"`              // activities whose context did not end within 15 s, or ended for another reason
	Hints     bool    `json:"hints"`               // whether NATS delivered hints to the worker
	LoadPerS  float64 `json:"load_per_s"`          // background load, activities per second
	Fanout    int     `json:"fanout"`              // activities of an instance, cancelled by one commit
	P50MS     float64 `json:"p50_ms"`              // from the commit that cancels to ctx.Done() in the worker
	P99MS     float64 `json:"p99_ms"`              //
	MaxMS     float64 `json:"max_ms"`              //
	CommitMS  float64 `json:"commit_ms,omitempty"` // the fastest commit, in Redis; measured only with hints and a fanout
	Burst     *burst  `json:"burst,omitempty"`     // measured only with hints, and without load and fanout
}

// validateCancel rejects flags that the scenario does not have, and fanouts that no instance can have.
func (c *Command) validateCancel() error {
	switch {
	case c.Scenario != "cancel" && (c.Load || c.NoHints || c.Fanout != 1):
		return errors.New("--load, --no-hints and --fanout apply to the scenario cancel only")
	case c.Fanout < 1 || c.Fanout > 10_000:
		return fmt.Errorf("--fanout must be 1 to 10,000, the outstanding activities of an instance (got %d)", c.Fanout)
	}
	return nil
}

// instancesToCancel returns the number of instances to cancel.
func (r *run) instancesToCancel() int {
	return cmp.Or(r.opts.Instances, max(cancelActivities/r.opts.Fanout, 3))
}

// cancelLayout returns a fleet whose worker has a slot for every activity that is held at the same time.
func (r *run) cancelLayout() layout {
	concurrent := r.opts.Fanout
	if r.opts.NoHints {
		concurrent *= r.instancesToCancel()
	}
	return layout{orchestrators: 1, workers: 1, concurrency: max(burstInstances*burstActivities, concurrent), noHints: r.opts.NoHints}
}

// cancel measures cancellation. It compares the clocks of processes, so all run on one machine.
func (r *run) cancel(ctx context.Context, f *fleet, d *driver) error {
	result, err := r.measureCancel(ctx, f.rdb, d, r.instancesToCancel())
	if err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	return r.report.add(result)
}

func (r *run) measureCancel(ctx context.Context, rdb redis.UniversalClient, d *driver, n int) (result cancelResult, err error) {
	result = cancelResult{Scenario: "cancel", Hints: !r.opts.NoHints, Fanout: r.opts.Fanout}
	c, err := newCanceller(d)
	if err != nil {
		return result, err
	}
	if err := c.warmUp(ctx); err != nil {
		return result, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := func() error { return nil }
	if r.opts.Load {
		if result.LoadPerS, stop, err = c.background(ctx, r.errw); err != nil {
			return result, err
		}
	}
	one := c.cancelOne
	if r.opts.Fanout > 1 && !r.opts.NoHints { // without hints, several cancellations are outstanding at a time
		one = func(ctx context.Context, h *held) (took []time.Duration, err error) {
			ms, err := commitTime(ctx, rdb, h.id, func() (err error) { took, err = c.cancelOne(ctx, h); return err })
			if result.CommitMS == 0 || ms < result.CommitMS {
				result.CommitMS = ms
			}
			return took, err
		}
	}
	repeat := c.inSequence
	if r.opts.NoHints {
		repeat = c.spread
	}
	took, err := repeat(ctx, n, r.opts.Fanout, r.errw, one)
	if err := errors.Join(err, stop()); err != nil {
		return result, err
	}
	result.Cancelled, result.Missed = len(took), n*r.opts.Fanout-len(took)
	result.P50MS, result.P99MS, result.MaxMS = quantiles(took)
	if !r.opts.Load && !r.opts.NoHints && r.opts.Fanout == 1 {
		result.Burst, err = c.burst(ctx, rdb)
	}
	return result, err
}

// cancelOne cancels an instance, and returns how long each of its activities ran after the cancellation.
func (c *canceller) cancelOne(ctx context.Context, h *held) ([]time.Duration, error) {
	if err := c.request(ctx, h); err != nil {
		return nil, err
	}
	at, err := c.await(ctx, h)
	if err != nil {
		return nil, err
	}
	return c.latencies(ctx, h.id, at)
}

func (c *canceller) warmUp(ctx context.Context) error {
	return each(ctx, cancelWarmup, cancelWarmup, func(ctx context.Context, _ int) error {
		h, err := c.hold(ctx, 1)
		if err == nil {
			_, err = c.cancelOne(ctx, h)
		}
		return err
	})
}

// cancellation cancels one instance whose activities are running, and returns how long each ran after the cancellation.
type cancellation func(context.Context, *held) ([]time.Duration, error)

// inSequence cancels n instances one after the other.
func (c *canceller) inSequence(ctx context.Context, n, fanout int, progress io.Writer, one cancellation) ([]time.Duration, error) {
	p := term.NewProgress(progress, n, "cancelled instances")
	defer p.End()
	var all []time.Duration
	for i := range n {
		h, err := c.hold(ctx, fanout)
		if err != nil {
			return nil, err
		}
		took, err := one(ctx, h)
		if err != nil {
			return nil, err
		}
		all = append(all, took...)
		p.Set(i + 1)
	}
	return all, nil
}

// spread cancels n instances concurrently, at times spread over several renewals of their leases.
func (c *canceller) spread(ctx context.Context, n, fanout int, progress io.Writer, one cancellation) ([]time.Duration, error) {
	holds, err := c.holdMany(ctx, n, 100, fanout)
	if err != nil {
		return nil, err
	}
	p := term.NewProgress(progress, n, "cancelled instances")
	defer p.End()
	took := make([][]time.Duration, n)
	g, ctx := errgroup.WithContext(ctx)
	pace := time.NewTicker(max(min(cancelSpread/time.Duration(n), cancelPace), time.Microsecond))
	defer pace.Stop()
	for i, h := range holds {
		select {
		case <-pace.C:
		case <-ctx.Done():
			return nil, errors.Join(g.Wait(), context.Cause(ctx))
		}
		p.Set(i + 1)
		g.Go(func() (err error) { took[i], err = one(ctx, h); return err })
	}
	err = g.Wait()
	return slices.Concat(took...), err
}

// background measures how many small instances the fleet can run per second, and starts half as many until stop is called.
func (c *canceller) background(ctx context.Context, progress io.Writer) (perSecond float64, stop func() error, err error) {
	hello := c.scenario("hello", 1)
	if perSecond, err = c.halfLoad(ctx, hello, calibrateOver, progress); err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.pace(ctx, g, hello, perSecond) })
	return perSecond, func() error {
		cancel()
		if err := g.Wait(); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}, nil
}

// halfLoad returns half of the rate at which the fleet runs n instances of a scenario. It keeps few instances in flight: with many, a turn
// takes several inputs at once, and clients that build up no backlog cannot reach the resulting rate.
func (d *driver) halfLoad(ctx context.Context, sc scenario, n int, progress io.Writer) (perSecond float64, err error) {
	if _, err := d.load(ctx, sc, max(n/4, 1), calibrateWith, io.Discard); err != nil {
		return 0, err
	}
	took, err := d.load(ctx, sc, n, calibrateWith, progress)
	return loadPart * float64(n) / took.Seconds(), err
}

// pace starts instances at a rate until ctx ends, whether or not the previous ones have ended.
func (d *driver) pace(ctx context.Context, g *errgroup.Group, sc scenario, perSecond float64) error {
	return every(ctx, time.Duration(float64(time.Second)/perSecond), func() error {
		finish, err := sc.begin(ctx, d.id(sc.name))
		if err == nil {
			g.Go(func() error { return finish(ctx) })
		}
		return err
	})
}

// every calls start once per interval until it returns an error or ctx ends. It catches up on delays.
func every(ctx context.Context, interval time.Duration, start func() error) error {
	tick := time.NewTicker(max(interval, loadTick))
	defer tick.Stop()
	began, started := time.Now(), time.Duration(0)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for due := time.Since(began) / interval; started < due; started++ {
			if err := start(); err != nil {
				return err
			}
		}
	}
}
