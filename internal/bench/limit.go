package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/pawlrun/pawl/examples"
)

const (
	limitInstances = 100_000 // default number at one limit
	limitWarmup    = 3_000   // maximum number of instances before the measurement
	unlimitedMax   = 15_000  // maximum number of instances of one activity without a limit, for comparison
	limitWaiters   = 10_000  // maximum number of waiters whose memory is measured
	limitHandovers = 300     // maximum number of activities that are admitted one after the other
	limitChains    = 3_000   // maximum number of chains per round
	limitRounds    = 5       // rounds of chains with and without a limit
)

// limitResult reports how many calls a limit admits, and its cost.
type limitResult struct {
	Scenario    string  `json:"scenario"`
	Instances   int     `json:"instances"` // of one activity, on one key
	InFlight    int     `json:"in_flight"`
	Concurrency int     `json:"concurrency"` // of the activity
	Seconds     float64 `json:"seconds"`     // from the first start of an activity to the last
	GrantsPerS  float64 `json:"grants_per_s"`
	PlainPerS   float64 `json:"unlimited_per_s"` // instances of one activity without a limit, measured just before

	Waiters        int     `json:"waiters"`
	BytesPerWaiter float64 `json:"bytes_per_waiter"` // memory of all keys of the limit in Redis
	DrainPerS      float64 `json:"drain_per_s"`      // admissions of these waiters per second, while no new ones arrive

	Turns int     `json:"turns"`  // handovers of a concurrency of one, with nothing else running
	P50MS float64 `json:"p50_ms"` // in the worker, from the end of one activity to the start of the next
	P99MS float64 `json:"p99_ms"`

	Chains           int       `json:"chains"`              // per round
	ChainPerS        float64   `json:"chain_per_s"`         // activities without a limit, median of the rounds
	LimitedChainPerS float64   `json:"limited_chain_per_s"` // activities with a limit that is never reached, median of the rounds
	ChainRatios      []float64 `json:"chain_ratios"`        // rate with the limit to rate without, by round
	ChainRatio       float64   `json:"chain_ratio"`         // median of the ratios

	CPU      map[string]float64 `json:"cpu_s_per_1000,omitempty"` // seconds per 1,000 of Instances, by process
	PlainCPU map[string]float64 `json:"unlimited_cpu_s_per_1000,omitempty"`
}

// validateLimit rejects numbers that are too small to reach the limit.
func (c *Command) validateLimit() error {
	if c.Scenario != "limit" {
		return nil
	}
	if n := 2 * limitConcurrency; c.Instances != 0 && c.Instances < n || c.InFlight < n {
		return fmt.Errorf("--instances and --in-flight must be at least %d, because the limit admits %d (got %d and %d)", n, limitConcurrency, c.Instances, c.InFlight)
	}
	return nil
}

// limit measures a limit.
func (r *run) limit(ctx context.Context, f *fleet, d *driver) error {
	g := &limitBench{driver: d, limitPrograms: newLimitPrograms(), rdb: f.rdb, inFlight: r.opts.InFlight, progress: r.errw}
	cost, err := g.measure(ctx, f, cmp.Or(r.opts.Instances, limitInstances))
	if err != nil {
		return fmt.Errorf("limit: %w", err)
	}
	return r.report.add(cost)
}

// measure runs the parts one after the other, so that they do not disturb each other.
func (g *limitBench) measure(ctx context.Context, f *fleet, n int) (cost limitResult, err error) {
	cost = limitResult{Scenario: "limit", Instances: n, InFlight: g.inFlight, Concurrency: limitConcurrency}
	if _, err := g.driver.load(ctx, g.driver.scenario("hello", 1), min(n/10, limitWarmup), g.inFlight, io.Discard); err != nil {
		return cost, err
	}
	for _, part := range []struct {
		name string
		run  func() error
	}{
		{"unlimited", func() error { return g.plain(ctx, f, min(n, unlimitedMax), &cost) }},
		{"many", func() error { return g.many(ctx, f, n, &cost) }},
		{"one at a time", func() error { return g.handovers(ctx, min(n, limitHandovers), &cost) }},
		{"chains", func() error { return g.chains(ctx, max(min(n/20, limitChains), 1), &cost) }},
		{"waiters", func() error { return g.waiters(ctx, min(n, limitWaiters), &cost) }},
	} {
		if err := part.run(); err != nil {
			return cost, fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return cost, nil
}

// plain runs n instances of one activity without a limit, for comparison.
func (g *limitBench) plain(ctx context.Context, f *fleet, n int, cost *limitResult) error {
	before := f.cpu()
	took, err := g.driver.load(ctx, g.driver.scenario("hello", 1), n, g.inFlight, g.progress)
	cost.PlainPerS, cost.PlainCPU = float64(n)/took.Seconds(), perThousand(before, f.cpu(), n)
	return err
}

// many runs n instances of a limited activity.
func (g *limitBench) many(ctx context.Context, f *fleet, n int, cost *limitResult) error {
	sc := plain(g.driver, "limit", 1, limitInstances, g.through, 1)
	if _, err := g.driver.load(ctx, sc, min(n/10, limitWarmup), g.inFlight, io.Discard); err != nil {
		return err
	}
	if _, err := g.barrier(ctx, barrierOpen); err != nil {
		return err
	}
	before := f.cpu()
	if _, err := g.driver.load(ctx, sc, n, g.inFlight, g.progress); err != nil {
		return err
	}
	after := f.cpu()
	p, err := g.barrier(ctx, barrierOpen)
	if err != nil {
		return err
	}
	if p.Started < n || p.Max > limitConcurrency {
		return fmt.Errorf("%d of %d activities began, up to %d at a time; the limit is %d", p.Started, n, p.Max, limitConcurrency)
	}
	cost.Seconds, cost.GrantsPerS, cost.CPU = p.took().Seconds(), p.perSecond(), perThousand(before, after, n)
	return nil
}

// handovers queues n waiters behind one holder, and releases it. From then on, the end of each activity admits the next.
func (g *limitBench) handovers(ctx context.Context, n int, cost *limitResult) error {
	if err := g.fill(ctx, g.one, g.passOne.Name(), 1, n); err != nil {
		return err
	}
	p, err := g.release(ctx, g.passOne.Name(), 1, n)
	if err != nil {
		return err
	}
	if p.Started < n || p.Max > 1 || len(p.Gaps) < n {
		return fmt.Errorf("%d of %d waiters began, up to %d at a time, with %d gaps between them", p.Started, n, p.Max, len(p.Gaps))
	}
	cost.Turns = n
	cost.P50MS, cost.P99MS, _ = quantiles(p.Gaps)
	return nil
}

// chains runs n chains without a limit and n with one, alternately, so that other load on the machine affects both.
func (g *limitBench) chains(ctx context.Context, n int, cost *limitResult) error {
	sides := [2]scenario{g.driver.scenario("chain", 1), plain(g.driver, "limited-chain", examples.ChainLength, limitChains, g.chain, 0)}
	var rates [2][]float64
	for round := range limitRounds + 1 {
		var got [2]float64
		for i := range sides {
			side := (i + round) % 2 // the sides take turns in going first
			took, err := g.driver.load(ctx, sides[side], n, g.inFlight, g.progress)
			if err != nil {
				return err
			}
			got[side] = float64(n*examples.ChainLength) / took.Seconds()
		}
		if round == 0 { // warm-up
			continue
		}
		for side, rate := range got {
			rates[side] = append(rates[side], rate)
		}
		cost.ChainRatios = append(cost.ChainRatios, got[1]/got[0])
	}
	q, err := g.driver.c.QueueStats(ctx, g.passWide.Name(), "")
	if err != nil {
		return err
	}
	if want := uint64((limitRounds + 1) * n * examples.ChainLength); q.Enqueued != want || q.Waiting > 0 { //nolint:gosec // small, and not negative
		return fmt.Errorf("the limit that is never reached admitted %d of %d activities, and has %d waiters", q.Enqueued, want, q.Waiting)
	}
	cost.Chains = n
	cost.ChainPerS, cost.LimitedChainPerS, cost.ChainRatio = median(rates[0]), median(rates[1]), median(cost.ChainRatios)
	return nil
}

// waiters measures the memory of n waiters in Redis, and then releases them.
func (g *limitBench) waiters(ctx context.Context, n int, cost *limitResult) error {
	if err := g.fill(ctx, g.through, g.pass.Name(), limitConcurrency, n); err != nil {
		return err
	}
	bytes, err := g.memory(ctx, g.pass.Name())
	if err != nil {
		return err
	}
	cost.Waiters, cost.BytesPerWaiter = n, float64(bytes)/float64(n)
	p, err := g.release(ctx, g.pass.Name(), limitConcurrency, n)
	if err != nil {
		return err
	}
	if p.Started < n || p.Max > limitConcurrency {
		return fmt.Errorf("%d of %d waiters began, up to %d at a time; the limit is %d", p.Started, n, p.Max, limitConcurrency)
	}
	cost.DrainPerS = p.perSecond()
	return nil
}

func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}
