package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/examples"
	"github.com/pawlrun/pawl/internal/term"
)

const (
	gateUsual   = 100_000 // instances through one gate, if nobody says otherwise
	gateWarm    = 3_000   // of them before the clock starts, at most
	gatePlain   = 15_000  // instances of one activity without a gate, to compare with, at most
	gateWaiters = 10_000  // whose memory is measured, at most
	gateTurns   = 300     // one after the other, at most
	gateChains  = 3_000   // chains of one round, at most
	gateRounds  = 5       // of chains with and without a gate
)

// gateCost is what a gate lets through, and what it costs.
type gateCost struct {
	Scenario    string  `json:"scenario"`
	Instances   int     `json:"instances"` // of one activity, on one key
	InFlight    int     `json:"in_flight"`
	Concurrency int     `json:"concurrency"` // of the activity
	Seconds     float64 `json:"seconds"`     // from the first that began to the last
	GrantsPerS  float64 `json:"grants_per_s"`
	PlainPerS   float64 `json:"ungated_per_s"` // instances of one activity without a gate, just before

	Waiters        int     `json:"waiters"`
	BytesPerWaiter float64 `json:"bytes_per_waiter"` // of Redis' memory: all keys of the gate
	DrainPerS      float64 `json:"drain_per_s"`      // grants a second from there on, with nobody coming

	Turns int     `json:"turns"`  // of a concurrency of one, with a queue, nothing else running
	P50MS float64 `json:"p50_ms"` // in the worker, from the end of one activity to the beginning of the next
	P99MS float64 `json:"p99_ms"`

	Chains         int       `json:"chains"`            // of a round
	ChainPerS      float64   `json:"chain_per_s"`       // activities, of the median round, without a gate
	GatedChainPerS float64   `json:"gated_chain_per_s"` // through a gate with room for all
	ChainRatios    []float64 `json:"chain_ratios"`      // with by without, by round
	ChainRatio     float64   `json:"chain_ratio"`       // their median

	CPU      map[string]float64 `json:"cpu_s_per_1000,omitempty"` // seconds per 1,000 of Instances, by process
	PlainCPU map[string]float64 `json:"ungated_cpu_s_per_1000,omitempty"`
}

// validateGate refuses what would measure a gate at which nobody waits.
func (c *benchCmd) validateGate() error {
	if c.Scenario != "gate" {
		return nil
	}
	if n := 2 * gateConcurrency; c.Instances != 0 && c.Instances < n || c.InFlight < n {
		return fmt.Errorf("--instances %d, --in-flight %d: the gate has room for %d, and somebody must wait: want at least %d", c.Instances, c.InFlight, gateConcurrency, n)
	}
	return nil
}

// benchGate starts a fleet of its own and measures.
func (c *benchCmd) benchGate(ctx context.Context, s streams, log *slog.Logger) (err error) {
	if c.given {
		return misuse{errors.New("gate measures a fleet that it starts itself, with programs of its own: leave --nats out")}
	}
	rig, b, end, err := c.fleet(ctx, s, log, benchMembers(256))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	opts, err := redis.ParseURL(rig.redis.URL())
	if err != nil {
		return err
	}
	rdb := redis.NewClient(opts)
	defer func() { err = errors.Join(err, rdb.Close()) }()
	g := &gateBench{bench: b, gatePrograms: newGatePrograms(), rdb: rdb, namespace: c.Namespace.Namespace, inFlight: c.InFlight, show: s.err}
	cost, err := g.measure(ctx, rig, c.Instances)
	if err != nil {
		return fmt.Errorf("gate: %w", err)
	}
	if c.JSON {
		return writeJSON(s.out, cost)
	}
	return cost.write(s.out)
}

// measure does one after the other what must not disturb each other.
func (g *gateBench) measure(ctx context.Context, r *rig, n int) (cost gateCost, err error) {
	if n == 0 {
		n = gateUsual
	}
	cost = gateCost{Scenario: "gate", Instances: n, InFlight: g.inFlight, Concurrency: gateConcurrency}
	if _, err := g.load(ctx, g.scenario("hello", 1), min(n/10, gateWarm), g.inFlight, io.Discard); err != nil {
		return cost, err
	}
	if err := g.plain(ctx, r, min(n, gatePlain), &cost); err != nil {
		return cost, fmt.Errorf("ungated: %w", err)
	}
	if err := g.many(ctx, r, n, &cost); err != nil {
		return cost, fmt.Errorf("many: %w", err)
	}
	if err := g.turns(ctx, min(n, gateTurns), &cost); err != nil {
		return cost, fmt.Errorf("one at a time: %w", err)
	}
	if err := g.chains(ctx, max(min(n/20, gateChains), 1), &cost); err != nil {
		return cost, fmt.Errorf("chains: %w", err)
	}
	if err := g.waiters(ctx, min(n, gateWaiters), &cost); err != nil {
		return cost, fmt.Errorf("waiters: %w", err)
	}
	return cost, nil
}

// plain has n instances of one activity go through no gate: the machine that does so much does less with one.
func (g *gateBench) plain(ctx context.Context, r *rig, n int, cost *gateCost) error {
	before := r.cpu()
	took, err := g.load(ctx, g.scenario("hello", 1), n, g.inFlight, g.show)
	cost.PlainPerS, cost.PlainCPU = float64(n)/took.Seconds(), perThousand(before, r.cpu(), n)
	return err
}

func perThousand(before, after map[string]time.Duration, n int) map[string]float64 {
	per := make(map[string]float64, len(after))
	for name, t := range after {
		per[name] = (t - before[name]).Seconds() / float64(n) * 1000
	}
	return per
}

// many has n instances go through the gate.
func (g *gateBench) many(ctx context.Context, r *rig, n int, cost *gateCost) error {
	sc := plain(g.bench, "gate", 1, gateUsual, g.through, 1)
	if _, err := g.load(ctx, sc, min(n/10, gateWarm), g.inFlight, io.Discard); err != nil {
		return err
	}
	if _, err := g.turnstile(ctx, turnstileOpen); err != nil {
		return err
	}
	before := r.cpu()
	if _, err := g.load(ctx, sc, n, g.inFlight, g.show); err != nil {
		return err
	}
	after := r.cpu()
	p, err := g.turnstile(ctx, turnstileOpen)
	if err != nil {
		return err
	}
	if p.Started < n || p.Most > gateConcurrency {
		return fmt.Errorf("of %d instances %d activities have begun, up to %d at a time; the limit is %d", n, p.Started, p.Most, gateConcurrency)
	}
	cost.Seconds, cost.GrantsPerS, cost.CPU = p.took().Seconds(), p.perSecond(), perThousand(before, after, n)
	return nil
}

// turns has n wait behind one, which then ends: each lets in the next.
func (g *gateBench) turns(ctx context.Context, n int, cost *gateCost) error {
	if err := g.gather(ctx, g.one, g.passOne.Name(), 1, n); err != nil {
		return err
	}
	p, err := g.letGo(ctx, g.passOne.Name(), 1, n)
	if err != nil {
		return err
	}
	if p.Started < n || p.Most > 1 || len(p.Gaps) < n {
		return fmt.Errorf("of %d that waited %d have begun, up to %d at a time, with %d gaps between them", n, p.Started, p.Most, len(p.Gaps))
	}
	slices.Sort(p.Gaps)
	cost.Turns, cost.P50MS, cost.P99MS = n, percentile(p.Gaps, 0.5), percentile(p.Gaps, 0.99)
	return nil
}

// chains runs n chains without a gate and n through one, again and again: the machine may have other things to do,
// but it has them for both.
func (g *gateBench) chains(ctx context.Context, n int, cost *gateCost) error {
	sides := [2]scenario{g.scenario("chain", 1), plain(g.bench, "gated-chain", examples.ChainLength, gateChains, g.chain, 0)}
	var rates [2][]float64
	for round := range gateRounds + 1 {
		var got [2]float64
		for i := range sides {
			side := (i + round) % 2 // nobody is always the first
			took, err := g.load(ctx, sides[side], n, g.inFlight, g.show)
			if err != nil {
				return err
			}
			got[side] = float64(n*examples.ChainLength) / took.Seconds()
		}
		if round == 0 { // to warm up
			continue
		}
		for side, rate := range got {
			rates[side] = append(rates[side], rate)
		}
		cost.ChainRatios = append(cost.ChainRatios, got[1]/got[0])
	}
	q, err := g.c.QueueStats(ctx, g.passWide.Name(), "")
	if err != nil {
		return err
	}
	if want := uint64((gateRounds + 1) * n * examples.ChainLength); q.Enqueued != want || q.Waiting > 0 { //nolint:gosec // small, and not negative
		return fmt.Errorf("the gate that is wide open has seen %d of %d activities, and %d wait at it", q.Enqueued, want, q.Waiting)
	}
	cost.Chains = n
	cost.ChainPerS, cost.GatedChainPerS, cost.ChainRatio = median(rates[0]), median(rates[1]), median(cost.ChainRatios)
	return nil
}

// waiters measures how much of Redis' memory n take that wait, and then lets them go.
func (g *gateBench) waiters(ctx context.Context, n int, cost *gateCost) error {
	if err := g.gather(ctx, g.through, g.pass.Name(), gateConcurrency, n); err != nil {
		return err
	}
	bytes, err := g.memory(ctx, g.pass.Name())
	if err != nil {
		return err
	}
	cost.Waiters, cost.BytesPerWaiter = n, float64(bytes)/float64(n)
	p, err := g.letGo(ctx, g.pass.Name(), gateConcurrency, n)
	if err != nil {
		return err
	}
	if p.Started < n || p.Most > gateConcurrency {
		return fmt.Errorf("of %d that waited %d have begun, up to %d at a time; the limit is %d", n, p.Started, p.Most, gateConcurrency)
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

func (c gateCost) write(w io.Writer) error {
	f := &term.Fields{}
	f.Add("through one gate", fmt.Sprintf("%d instances in %.2f s: %.0f grants/s, %d at a time; %.0f/s without a gate", c.Instances, c.Seconds, c.GrantsPerS, c.Concurrency, c.PlainPerS))
	var cpu []string
	for _, name := range []string{"nats", "redis", "orchestrator", "worker", "client"} {
		if v, ok := c.CPU[name]; ok {
			cpu = append(cpu, fmt.Sprintf("%s %.3f s (%.3f)", name, v, c.PlainCPU[name]))
		}
	}
	f.Add("processor per 1,000", strings.Join(cpu, ", ")+" (without)")
	f.Add("end to the next one", fmt.Sprintf("p50 %.2f ms, p99 %.2f ms, of %d", c.P50MS, c.P99MS, c.Turns))
	f.Add("chain, wide open gate", fmt.Sprintf("%.2f of one without: %.0f and %.0f activities/s", c.ChainRatio, c.GatedChainPerS, c.ChainPerS))
	f.Add("a waiter in Redis", fmt.Sprintf("%.0f bytes, of %d", c.BytesPerWaiter, c.Waiters))
	f.Add("they drain", fmt.Sprintf("%.0f grants/s", c.DrainPerS))
	return f.Write(w)
}
