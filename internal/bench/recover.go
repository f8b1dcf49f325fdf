package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/term"
)

const (
	calmBefore           = 300 * time.Millisecond // time for which instances are started before the fault
	healthTimeout        = 2 * time.Minute        // maximum time until a fleet is complete and fast before a round
	fastInARow           = 50                     // consecutive fast instances that make a fleet fast
	exclusiveBelow       = time.Second            // rounds with a lower target run alone
	recoverOrchestrators = 3
	recoverWorkers       = 4
	recoverConcurrency   = 64
)

// recoverResult reports how long instances of one activity wait because of one kind of fault. The wait of a round is the longest one of
// its instances.
type recoverResult struct {
	Scenario  string  `json:"scenario"`
	Fault     string  `json:"fault"`
	Since     string  `json:"since" table:"-"` // event at which the wait begins
	Rounds    int     `json:"rounds"`
	Instances int     `json:"instances" table:"-"`
	P50MS     float64 `json:"p50_ms"` // median wait of the rounds
	MaxMS     float64 `json:"max_ms"`
	TargetMS  float64 `json:"target_ms"`
	HeldP50MS float64 `json:"held_p50_ms,omitempty"` // median wait of the instances whose activities ran on the affected member
	HeldMaxMS float64 `json:"held_max_ms,omitempty"`
	HeldMS    float64 `json:"held_target_ms,omitempty"`
	CalmMS    float64 `json:"calm_max_ms"` // longest wait before the fault, which the machine alone causes
	UsualMS   float64 `json:"usual_ms"`    // median time of all instances of all rounds
	Failed    int     `json:"failed_calls"`
	Reached   bool    `json:"reached"`
}

// recover starts fleets for each kind of servers that the faults need, and injects the faults.
func (r *run) recover(ctx context.Context) error {
	left, err := selectFaults(r.opts.Fault)
	if err != nil {
		return settings.Usage(err)
	}
	rec := newRecovery(r, left)
	defer rec.progress.End()
	for len(left) > 0 {
		first := left[0]
		other := func(f fault) bool { return f.nats != first.nats || f.redis != first.redis }
		if err := rec.on(ctx, slices.DeleteFunc(slices.Clone(left), other)); err != nil {
			return err
		}
		left = slices.DeleteFunc(slices.Clone(left), func(f fault) bool { return !other(f) })
	}
	return nil
}

// recovery measures several faults, on several fleets.
//
//	rounds ──▶ fleet 1 ──▶ round ──▶ samples, reported after the last round of a fault
//	       ──▶ fleet 2 ──▶ …
//
// Rounds with a short target run alone until the instances that were started after the fault have recovered: these rounds lock exclusive,
// and all others read-lock it.
type recovery struct {
	run *run

	progress  *term.Progress
	exclusive sync.RWMutex

	mu  sync.Mutex
	all []*samples
}

// samples collects the measurements of all rounds of one fault.
type samples struct {
	fault
	recoverResult

	worst, held []time.Duration // longest wait of each round; held: of instances whose activities ran on the affected member
	usual       []time.Duration // time of each instance
	calm        time.Duration
}

// oneRound is a round to run.
type oneRound struct {
	of    *samples
	round int
}

func newRecovery(r *run, selected []fault) *recovery {
	rec := &recovery{run: r, progress: term.NewProgress(r.errw, r.opts.Rounds*len(selected), "rounds")}
	for _, f := range selected {
		rec.all = append(rec.all, &samples{fault: f, recoverResult: recoverResult{
			Scenario: "recover", Fault: f.name, Since: f.since,
			TargetMS: millis(f.target), HeldMS: millis(f.held),
		}})
	}
	return rec
}

// on measures faults that need the same servers, until the first error.
func (r *recovery) on(ctx context.Context, selected []fault) error {
	rounds := make(chan oneRound, len(selected)*r.run.opts.Rounds)
	for _, m := range r.all {
		for round := range r.run.opts.Rounds {
			if slices.ContainsFunc(selected, func(f fault) bool { return f.name == m.name }) {
				rounds <- oneRound{m, round}
			}
		}
	}
	close(rounds)
	g, ctx := errgroup.WithContext(ctx)
	for range min(r.run.opts.Fleets, len(rounds)) {
		g.Go(func() error { return r.fleet(ctx, selected[0], rounds) })
	}
	return g.Wait()
}

// fleet starts a fleet and runs rounds on it until there are none left.
func (r *recovery) fleet(ctx context.Context, kind fault, rounds <-chan oneRound) (err error) {
	own := *r.run
	command := *r.run.opts // start sets the address of NATS
	own.opts = &command
	f, d, stop, err := own.start(ctx, layout{
		natsServers: kind.nats, redisCluster: kind.redis, orchestrators: recoverOrchestrators, workers: recoverWorkers, concurrency: recoverConcurrency, proxies: true,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if r.run.opts.Instances > 0 {
		p := term.NewProgress(r.run.errw, r.run.opts.Instances, "waiting instances")
		err = d.startWaiting(ctx, r.run.opts.Instances, p)
		if p.End(); err != nil {
			return err
		}
	}
	for one := range rounds {
		if err := r.round(ctx, f, d, one); err != nil {
			return fmt.Errorf("recover: %s: %w", one.of.name, err)
		}
	}
	return nil
}

// round injects the fault while instances are started, heals the fleet after the recovery, waits for every instance, and records their times.
func (r *recovery) round(ctx context.Context, f *fleet, d *driver, one oneRound) error {
	ft := one.of.fault
	if err := f.awaitComplete(ctx, d); err != nil {
		return err
	}
	unlock := r.lock(ft.target < exclusiveBelow)
	defer unlock()
	if err := d.awaitFast(ctx); err != nil {
		return err
	}
	cs := startCanaries(ctx, d, d.scenario("hello", 1), cmp.Or(ft.every, canaryInterval))
	defer cs.end()
	if ft.held > 0 {
		cs.startLong(ctx)
	}
	if err := waitUntil(ctx, time.Now().Add(calmBefore)); err != nil {
		return err
	}
	injected := time.Now()
	from, err := ft.inject(ctx, f, d, one.round)
	if err != nil {
		return err
	}
	err = cs.awaitRecovery(ctx, from, ft.held == 0)
	if ctx.Err() != nil {
		return err
	}
	if err == nil && ft.held == 0 {
		cs.end() // the healing is not measured
	}
	if ft.held > 0 {
		cs.stop()
		unlock()
		if err := cs.awaitRecovery(ctx, from, true); err != nil && ctx.Err() != nil {
			return err
		}
	}
	var healed error
	if ft.heal != nil {
		healed = ft.heal(ctx, f, d)
	}
	if err := errors.Join(healed, f.heal()); err != nil { // a fleet that did not recover by itself recovers now, and its waits are that long
		return err
	}
	return r.record(one.of, cs.end(), injected, from)
}

// lock waits until no round runs alone, or, for a round that runs alone, until no other round runs. unlock has an effect once.
func (r *recovery) lock(alone bool) (unlock func()) {
	if alone {
		r.exclusive.Lock()
		return sync.OnceFunc(r.exclusive.Unlock)
	}
	r.exclusive.RLock()
	return sync.OnceFunc(r.exclusive.RUnlock)
}

// record adds the measurements of a round, and reports the result of the fault after its last round. The fault was injected at one time, and
// from the other on instances need no longer wait.
func (r *recovery) record(m *samples, cs []*canary, injected, from time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	worst, held := waited(cs, from, m.HeldMS > 0)
	m.worst, m.held, m.Rounds, m.Instances = append(m.worst, worst), append(m.held, held), m.Rounds+1, m.Instances+len(cs)
	for _, one := range cs {
		took := one.ended.Sub(one.began) - one.runs
		m.usual = append(m.usual, took)
		if one.ended.Before(injected) {
			m.calm = max(m.calm, took)
		}
		if one.err != nil {
			if m.Failed++; m.Failed == 1 {
				r.progress.Printf("%s: a call failed: %v", m.name, one.err)
			}
		}
	}
	done := 0
	for _, other := range r.all {
		done += other.Rounds
	}
	r.progress.Set(done)
	if m.Rounds < r.run.opts.Rounds {
		return nil
	}
	m.sum()
	return r.run.report.add(m.recoverResult)
}

// sum computes the result of all rounds.
func (m *samples) sum() {
	m.CalmMS = millis(m.calm)
	m.P50MS, _, m.MaxMS = quantiles(m.worst)
	m.UsualMS, _, _ = quantiles(m.usual)
	if m.HeldMS > 0 {
		m.HeldP50MS, _, m.HeldMaxMS = quantiles(m.held)
	}
	m.Reached = m.MaxMS <= m.TargetMS && m.HeldMaxMS <= m.HeldMS && m.Failed == 0
}

// awaitFast waits until consecutive instances are fast.
func (d *driver) awaitFast(ctx context.Context) error {
	deadline, row := time.Now().Add(healthTimeout), 0
	for row < fastInARow && time.Now().Before(deadline) {
		began := time.Now()
		err := d.scenario("hello", 1).run(ctx, d.id("fast"))
		if row++; err != nil || time.Since(began) > canaryFast {
			row = 0
		}
	}
	if row < fastInARow {
		return fmt.Errorf("the fleet is not fast after %s", healthTimeout)
	}
	return ctx.Err()
}

// waited returns the longest wait of an instance after from. With apart, held is that of the instances that were started before from, and
// worst that of the others.
func waited(cs []*canary, from time.Time, apart bool) (worst, held time.Duration) {
	for _, c := range cs {
		if c.ended.Before(from) {
			continue
		}
		since := from
		if c.began.After(from) {
			since = c.began
		}
		if took := c.ended.Sub(since) - c.runs; apart && c.began.Before(from) {
			held = max(held, took)
		} else {
			worst = max(worst, took)
		}
	}
	return worst, held
}
