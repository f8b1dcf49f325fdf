package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/pawlrun/pawl/internal/term"
)

const (
	cancelUsual   = 1000                   // activities that are cancelled, if nobody says otherwise
	cancelWarm    = 50                     // instances, before the clock starts
	cancelSpread  = 10 * time.Second       // over which cancellations are spread without hints: three renewals of the default TTL
	cancelPace    = 100 * time.Millisecond // between two of them, at most
	calibrateOver = 4000                   // instances of the load, to learn what the fleet can do
	loadPart      = 0.5                    // of that
	loadTick      = 5 * time.Millisecond
)

// cancelCost is how long activities go on, in another process, when nobody wants them any more.
type cancelCost struct {
	Scenario  string  `json:"scenario"`
	Hints     bool    `json:"hints"`
	LoadPerS  float64 `json:"load_per_s"` // activities a second that the fleet runs beside it
	Fanout    int     `json:"fanout"`     // activities of an instance, cancelled by one commit
	P50MS     float64 `json:"p50_ms"`     // from the commit that decides to ctx.Done() in the worker
	P99MS     float64 `json:"p99_ms"`
	MaxMS     float64 `json:"max_ms"`
	Cancelled int     `json:"cancelled"` // activities that were told
	Missed    int     `json:"missed"`    // that were not, within 15 s, or not why

	CommitMS float64 `json:"commit_ms,omitempty"` // of Redis' time, the quickest of the commits: others may have the cores; only with hints and a fanout that takes it some time
	Burst    *burst  `json:"burst,omitempty"`     // only idle, with hints, and without a fanout
}

// validateCancel refuses what can not be measured.
func (c *benchCmd) validateCancel() error {
	switch {
	case c.Scenario != "cancel" && (c.Load || c.NoHints || c.Fanout != 1):
		return errors.New("--load, --no-hints and --fanout are for the scenario cancel")
	case c.Fanout < 1 || c.Fanout > 10_000:
		return fmt.Errorf("--fanout %d: an instance has 1 to 10,000 activities outstanding", c.Fanout)
	}
	return nil
}

// benchCancel starts a fleet of its own and measures.
func (c *benchCmd) benchCancel(ctx context.Context, s streams, log *slog.Logger) (err error) {
	if c.given {
		return misuse{errors.New("cancel measures a fleet that it starts itself, on one machine with one clock: leave --nats out")}
	}
	n, atOnce := c.Instances, c.Fanout
	if n == 0 {
		n = max(cancelUsual/c.Fanout, 3)
	}
	if c.NoHints {
		atOnce = n * c.Fanout
	}
	rig, b, end, err := c.fleet(ctx, s, log, cancelMembers(c.NoHints, max(burstInstances*burstActivities, atOnce)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	cost, err := c.measureCancel(ctx, s, b, rig, n)
	if err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	if c.JSON {
		return writeJSON(s.out, cost)
	}
	return cost.write(s.out)
}

func cancelMembers(noHints bool, concurrency int) members {
	m := benchMembers(concurrency)
	if noHints {
		m.nats, m.workerUser = "serve-deaf-nats", deafUser
	}
	return m
}

// benchMembers are a fleet that has the examples, what is cancelled, and what goes through gates.
func benchMembers(concurrency int) members {
	return members{
		nats:         "serve-nats",
		orchestrator: []string{"serve-bench", "orchestrator"},
		worker:       []string{"serve-bench", "worker", "--concurrency", strconv.Itoa(concurrency)},
	}
}

func (c *benchCmd) measureCancel(ctx context.Context, s streams, b *bench, r *rig, n int) (cost cancelCost, err error) {
	cost = cancelCost{Scenario: "cancel", Hints: !c.NoHints, Fanout: c.Fanout}
	cc, err := newCanceller(b, benchReports)
	if err != nil {
		return cost, err
	}
	opts, err := redis.ParseURL(r.redis.URL())
	if err != nil {
		return cost, err
	}
	rdb := redis.NewClient(opts)
	defer func() { err = errors.Join(err, rdb.Close()) }()
	if err := cc.warm(ctx); err != nil {
		return cost, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := func() error { return nil }
	if c.Load {
		if cost.LoadPerS, stop, err = cc.press(ctx, s.err); err != nil {
			return cost, err
		}
	}
	one := func(ctx context.Context, h *held) ([]time.Duration, error) { return cc.tell(ctx, h) }
	if c.Fanout > 1 && !c.NoHints { // without, several are under way at a time
		one = func(ctx context.Context, h *held) (took []time.Duration, err error) {
			ms, err := commitTime(ctx, rdb, h.id, func() (err error) { took, err = cc.tell(ctx, h); return err })
			if cost.CommitMS == 0 || ms < cost.CommitMS {
				cost.CommitMS = ms
			}
			return took, err
		}
	}
	repeat := cc.inTurn
	if c.NoHints {
		repeat = cc.spread
	}
	took, err := repeat(ctx, n, c.Fanout, s.err, one)
	if err := errors.Join(err, stop()); err != nil {
		return cost, err
	}
	cost.count(took, n*c.Fanout)
	if !c.Load && !c.NoHints && c.Fanout == 1 {
		cost.Burst, err = cc.burst(ctx, rdb, c.Namespace.Namespace)
	}
	return cost, err
}

func (c *cancelCost) count(took []time.Duration, all int) {
	slices.Sort(took)
	c.Cancelled, c.Missed = len(took), all-len(took)
	c.P50MS, c.P99MS, c.MaxMS = percentile(took, 0.5), percentile(took, 0.99), percentile(took, 1)
}

// tell cancels an instance and gives how long its activities went on.
func (c *canceller) tell(ctx context.Context, h *held) ([]time.Duration, error) {
	if err := c.cancel(ctx, h); err != nil {
		return nil, err
	}
	told, err := c.await(ctx, h)
	if err != nil {
		return nil, err
	}
	return c.latencies(ctx, h.id, told)
}

func (c *canceller) warm(ctx context.Context) error {
	return each(ctx, cancelWarm, cancelWarm, func(ctx context.Context, _ int) error {
		h, err := c.hold(ctx, 1)
		if err == nil {
			_, err = c.tell(ctx, h)
		}
		return err
	})
}

// repetition is one instance, whose activities run, from its cancellation on.
type repetition func(context.Context, *held) ([]time.Duration, error)

// inTurn cancels n instances one after the other.
func (c *canceller) inTurn(ctx context.Context, n, fanout int, show io.Writer, one repetition) ([]time.Duration, error) {
	p := term.NewProgress(show, n, "cancelled instances")
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

// spread cancels n instances side by side, at moments that are spread over some renewals.
func (c *canceller) spread(ctx context.Context, n, fanout int, show io.Writer, one repetition) ([]time.Duration, error) {
	holds := make([]*held, n)
	if err := each(ctx, n, 100, func(ctx context.Context, i int) (err error) {
		holds[i], err = c.hold(ctx, fanout)
		return err
	}); err != nil {
		return nil, err
	}
	p := term.NewProgress(show, n, "cancelled instances")
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

// press learns how many small instances the fleet can run in a second, and then has it run
// half of that until stop.
func (c *canceller) press(ctx context.Context, show io.Writer) (perSecond float64, stop func() error, err error) {
	hello := c.scenario("hello", 1)
	if _, err := c.load(ctx, hello, calibrateOver/4, 200, io.Discard); err != nil {
		return 0, nil, err
	}
	took, err := c.load(ctx, hello, calibrateOver, 200, show)
	if err != nil {
		return 0, nil, err
	}
	perSecond = loadPart * calibrateOver / took.Seconds()
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

// pace starts instances at the rate, whether or not those before have ended.
func (c *canceller) pace(ctx context.Context, g *errgroup.Group, sc scenario, perSecond float64) error {
	tick := time.NewTicker(loadTick)
	defer tick.Stop()
	begun, started := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for due := int(time.Since(begun).Seconds() * perSecond); started < due; started++ {
			finish, err := sc.begin(ctx, c.id(sc.name))
			if err != nil {
				return err
			}
			g.Go(func() error { return finish(ctx) })
		}
	}
}

func (c cancelCost) write(w io.Writer) error {
	ms := func(v float64) string { return fmt.Sprintf("%.2f ms", v) }
	f := &term.Fields{}
	f.Add("cancelled", fmt.Sprintf("%d activities, %d an instance; %d not told in time", c.Cancelled, c.Fanout, c.Missed))
	f.Add("hints", map[bool]string{true: "heard", false: "none"}[c.Hints])
	f.Add("beside it", fmt.Sprintf("%.0f activities/s", c.LoadPerS))
	f.Add("commit to ctx.Done()", fmt.Sprintf("p50 %s, p99 %s, at most %s", ms(c.P50MS), ms(c.P99MS), ms(c.MaxMS)))
	if c.CommitMS > 0 {
		f.Add("commit in Redis", ms(c.CommitMS))
	}
	if b := c.Burst; b != nil {
		f.Add("at once", fmt.Sprintf("%d instances of %d activities: all told after %s", b.Instances, cmp.Or(b.Activities/b.Instances, 1), ms(b.ToldMS)))
		f.Add("left of them", fmt.Sprintf("%d leases, %d goroutines; purged, %d agenda members", b.Leases, b.Goroutines, b.Agenda))
	}
	return f.Write(w)
}
