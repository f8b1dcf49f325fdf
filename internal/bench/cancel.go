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
	cancelActivities = 1000                   // that are cancelled, by default
	cancelWarmup     = 50                     // instances, before the clock starts
	cancelSpread     = 10 * time.Second       // over which cancellations without hints are spread: three renewals of the default TTL
	cancelPace       = 100 * time.Millisecond // maximum between two of them
	calibrateOver    = 4000                   // instances of the load, to measure the capacity of the fleet
	calibrateWith    = 200                    // of them in flight
	loadPart         = 0.5                    // of the capacity
	loadTick         = time.Millisecond       // what is due meanwhile is sent at once, and waits for one another
)

// cancelResult is how long activities run, in another process, after their cancellation.
type cancelResult struct {
	Scenario  string  `json:"scenario"`
	Cancelled int     `json:"cancelled"`           // activities
	Missed    int     `json:"missed"`              // activities whose context did not end within 15 s, or with another reason
	Hints     bool    `json:"hints"`               // were sent
	LoadPerS  float64 `json:"load_per_s"`          // activities per second that the fleet runs meanwhile
	Fanout    int     `json:"fanout"`              // activities of an instance, cancelled by one commit
	P50MS     float64 `json:"p50_ms"`              // from the commit that cancels to ctx.Done() in the worker
	P99MS     float64 `json:"p99_ms"`              //
	MaxMS     float64 `json:"max_ms"`              //
	CommitMS  float64 `json:"commit_ms,omitempty"` // of Redis' time, the fastest of the commits; only with hints and a fanout that takes it some time
	Burst     *burst  `json:"burst,omitempty"`     // only without load and fanout, and with hints
}

// validateCancel rejects flags of other scenarios, and what cannot be measured.
func (c *Command) validateCancel() error {
	switch {
	case c.Scenario != "cancel" && (c.Load || c.NoHints || c.Fanout != 1):
		return errors.New("--load, --no-hints and --fanout apply to the scenario cancel only")
	case c.Fanout < 1 || c.Fanout > 10_000:
		return fmt.Errorf("--fanout must be 1 to 10,000, the outstanding activities of an instance (got %d)", c.Fanout)
	}
	return nil
}

// cancelled is the number of instances to cancel.
func (r *run) cancelled() int {
	return cmp.Or(r.opts.Instances, max(cancelActivities/r.opts.Fanout, 3))
}

// cancelLayout has room for the activities that run at a time.
func (r *run) cancelLayout() layout {
	concurrent := r.opts.Fanout
	if r.opts.NoHints {
		concurrent *= r.cancelled()
	}
	return layout{orchestrators: 1, workers: 1, concurrency: max(burstInstances*burstActivities, concurrent), noHints: r.opts.NoHints}
}

// cancel measures cancellation, on one machine because it compares clocks.
func (r *run) cancel(ctx context.Context, f *fleet, d *driver) error {
	n := r.cancelled()
	result, err := r.measureCancel(ctx, f.rdb, d, n)
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
	if r.opts.Fanout > 1 && !r.opts.NoHints { // without hints, several are under way at a time
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
	result.count(took, n*r.opts.Fanout)
	if !r.opts.Load && !r.opts.NoHints && r.opts.Fanout == 1 {
		result.Burst, err = c.burst(ctx, rdb)
	}
	return result, err
}

func (c *cancelResult) count(took []time.Duration, all int) {
	slices.Sort(took)
	c.Cancelled, c.Missed = len(took), all-len(took)
	c.P50MS, c.P99MS, c.MaxMS = percentile(took, 0.5), percentile(took, 0.99), percentile(took, 1)
}

// cancelOne cancels an instance and returns how long its activities ran from then on.
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

// cancellation cancels one instance whose activities run.
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

// spread cancels n instances concurrently, at moments that are spread over several renewals.
func (c *canceller) spread(ctx context.Context, n, fanout int, progress io.Writer, one cancellation) ([]time.Duration, error) {
	holds := make([]*held, n)
	if err := each(ctx, n, 100, func(ctx context.Context, i int) (err error) {
		holds[i], err = c.hold(ctx, fanout)
		return err
	}); err != nil {
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
	err := g.Wait()
	return slices.Concat(took...), err
}

// background measures how many small instances the fleet can run per second, and then has it run half of that until stop.
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

// halfLoad returns half of the rate at which the fleet runs n instances of a scenario. Few are in flight: with many a turn takes several of
// their inputs, and the rate is one that no client which does not wait for a backlog can reach.
func (d *driver) halfLoad(ctx context.Context, sc scenario, n int, progress io.Writer) (perSecond float64, err error) {
	if _, err := d.load(ctx, sc, max(n/4, 1), calibrateWith, io.Discard); err != nil {
		return 0, err
	}
	took, err := d.load(ctx, sc, n, calibrateWith, progress)
	return loadPart * float64(n) / took.Seconds(), err
}

// pace starts instances at the rate, whether or not the previous ones have ended.
func (d *driver) pace(ctx context.Context, g *errgroup.Group, sc scenario, perSecond float64) error {
	tick := time.NewTicker(loadTick)
	defer tick.Stop()
	began, started := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for due := int(time.Since(began).Seconds() * perSecond); started < due; started++ {
			finish, err := sc.begin(ctx, d.id(sc.name))
			if err != nil {
				return err
			}
			g.Go(func() error { return finish(ctx) })
		}
	}
}
