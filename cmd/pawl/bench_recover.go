package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/term"
)

const (
	recoverBefore  = 300 * time.Millisecond // of instances before the fault
	recoverHealthy = 40 * time.Second       // in which a fleet must be whole and answer quickly before a round begins
	recoverRun     = 50                     // so many instances in a row that are quick
	recoverAlone   = time.Second            // targets below it are measured while nothing else is
)

// recovery is how long instances of one activity wait because of one kind of fault.
type recovery struct {
	Scenario  string  `json:"scenario"`
	Fault     string  `json:"fault"`
	Since     string  `json:"since"` // what the times are counted from
	Rounds    int     `json:"rounds"`
	Instances int     `json:"instances"`
	P50MS     float64 `json:"p50_ms"` // of the rounds: the longest that any instance waited
	MaxMS     float64 `json:"max_ms"`
	TargetMS  float64 `json:"target_ms"`
	HeldP50MS float64 `json:"held_p50_ms,omitempty"` // likewise of those that were under way when the member was killed
	HeldMaxMS float64 `json:"held_max_ms,omitempty"`
	HeldMS    float64 `json:"held_target_ms,omitempty"`
	CalmMS    float64 `json:"calm_max_ms"` // the longest that an instance waited before the fault: what the machine does by itself
	UsualMS   float64 `json:"usual_ms"`    // median of all instances of all rounds: what bystanders see
	Failed    int     `json:"failed_calls"`
	Reached   bool    `json:"reached"`
}

// benchRecover starts fleets for each kind of servers that the faults need, and measures.
func (c *benchCmd) benchRecover(ctx context.Context, s streams, log *slog.Logger) error {
	if c.given {
		return misuse{errors.New("recover measures a fleet that it starts itself, and kills: leave --nats out")}
	}
	some, err := faultsNamed(c.Fault)
	if err != nil {
		return misuse{err}
	}
	r := newRecovering(c, s, log, some)
	for len(some) > 0 {
		first := some[0]
		other := func(f fault) bool { return f.nats != first.nats || f.redis != first.redis }
		here := slices.DeleteFunc(slices.Clone(some), other)
		if err := r.on(ctx, here); err != nil {
			return errors.Join(err, r.table())
		}
		some = slices.DeleteFunc(slices.Clone(some), func(f fault) bool { return !other(f) })
	}
	return r.table()
}

// recovering measures several faults, on several fleets.
//
//	rounds ──▶ fleet 1 ──▶ round ──▶ recoveries, written when the last round of a fault is over
//	       ──▶ fleet 2 ──▶ …
//
// Rounds whose target is short have the machine to themselves, until what was started after the fault has recovered: quiet
// is locked for them, and read-locked for all others.
type recovering struct {
	cmd   *benchCmd
	s     streams
	log   *slog.Logger
	show  *term.Progress
	quiet sync.RWMutex

	mu  sync.Mutex
	all []*recoveries // in the order of the table
}

// recoveries is what the rounds of one fault have measured.
type recoveries struct {
	fault
	recovery

	worst, kept []time.Duration // of each round; kept is of what was held
	usual       []time.Duration // of each instance
	calm        time.Duration
}

// oneRound is a round to do.
type oneRound struct {
	of    *recoveries
	round int
}

// moments are those of one round.
type moments struct {
	fault time.Time // before it was injected
	from  time.Time // from when on an instance has no reason to wait any more
}

func newRecovering(c *benchCmd, s streams, log *slog.Logger, some []fault) *recovering {
	r := &recovering{cmd: c, s: s, log: log, show: term.NewProgress(s.err, c.Rounds*len(some), "rounds")}
	for _, ft := range some {
		r.all = append(r.all, &recoveries{fault: ft, recovery: recovery{
			Scenario: "recover", Fault: ft.name, Since: ft.since,
			TargetMS: float64(ft.target.Milliseconds()), HeldMS: float64(ft.held.Milliseconds()),
		}})
	}
	return r
}

// on measures faults that need the same servers. The first error ends it.
func (r *recovering) on(ctx context.Context, some []fault) error {
	rounds := make(chan oneRound, len(some)*r.cmd.Rounds)
	for _, m := range r.all {
		for round := range r.cmd.Rounds {
			if slices.ContainsFunc(some, func(f fault) bool { return f.name == m.name }) {
				rounds <- oneRound{m, round}
			}
		}
	}
	close(rounds)
	g, ctx := errgroup.WithContext(ctx)
	for range min(r.cmd.Fleets, len(rounds)) {
		g.Go(func() error { return r.fleet(ctx, some[0], rounds) })
	}
	return g.Wait()
}

// fleet starts a fleet and does rounds with it as long as there are any.
func (r *recovering) fleet(ctx context.Context, kind fault, rounds <-chan oneRound) (err error) {
	f, err := startRecoverFleet(ctx, r.log, demoLog(r.cmd.LogLevel, r.s.err), max(kind.nats, 1), kind.redis)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	c := *r.cmd
	c.NATSURL = settings.URL(f.nats.url())
	b, err := c.open(ctx, r.log)
	if err != nil {
		return err
	}
	defer b.close()
	for one := range rounds {
		cs, at, err := r.round(ctx, f, b, one)
		if err == nil {
			err = r.note(one.of, cs, at)
		}
		if err != nil {
			return fmt.Errorf("recover: %s: %w", one.of.name, err)
		}
	}
	return nil
}

// round injects the fault while instances are started, heals it when the fleet has recovered, and waits for every instance.
func (r *recovering) round(ctx context.Context, f *recoverFleet, b *bench, one oneRound) (_ []*canary, at moments, err error) {
	ft := one.of.fault
	if err := f.whole(ctx, b); err != nil {
		return nil, at, err
	}
	unlock := r.lock(ft.target < recoverAlone)
	defer unlock()
	if err := b.quick(ctx); err != nil {
		return nil, at, err
	}
	cs := startCanaries(ctx, b, cmp.Or(ft.every, canaryEvery))
	defer cs.end()
	if ft.held > 0 {
		cs.long(ctx)
	}
	if err := sleep(ctx, recoverBefore); err != nil {
		return nil, at, err
	}
	at.fault = time.Now()
	if at.from, err = ft.inject(ctx, f, b, one.round); err != nil {
		return nil, at, err
	}
	if err := cs.recovered(ctx, at.from, ft.held == 0); err != nil && ctx.Err() != nil {
		return nil, at, err
	}
	if ft.held > 0 {
		cs.stop()
		unlock()
		if err := cs.recovered(ctx, at.from, true); err != nil && ctx.Err() != nil {
			return nil, at, err
		}
	}
	if err := ft.heal(ctx, f, b); err != nil { // a fleet that does not recover by itself does now, and the time shows it
		return nil, at, err
	}
	return cs.end(), at, nil
}

// lock has a round wait for those that must not be disturbed, or for all others. The function returned ends that, once.
func (r *recovering) lock(alone bool) (unlock func()) {
	if alone {
		r.quiet.Lock()
		return sync.OnceFunc(r.quiet.Unlock)
	}
	r.quiet.RLock()
	return sync.OnceFunc(r.quiet.RUnlock)
}

// note adds what a round has measured, and writes the fault's result if it was the last.
func (r *recovering) note(m *recoveries, cs []*canary, at moments) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, h := waited(cs, at.from, m.HeldMS > 0)
	m.worst, m.kept, m.Rounds, m.Instances = append(m.worst, w), append(m.kept, h), m.Rounds+1, m.Instances+len(cs)
	for _, one := range cs {
		took := one.ended.Sub(one.began) - one.runs
		m.usual = append(m.usual, took)
		if one.ended.Before(at.fault) {
			m.calm = max(m.calm, took)
		}
		if one.err != nil {
			m.Failed++
			if m.Failed == 1 {
				_, _ = fmt.Fprintf(r.s.err, "%s: a call failed: %v\n", m.name, one.err)
			}
		}
	}
	done := 0
	for _, other := range r.all {
		done += other.Rounds
	}
	r.show.Set(done)
	if m.Rounds < r.cmd.Rounds {
		return nil
	}
	m.sum()
	if r.cmd.JSON {
		return writeJSON(r.s.out, m.recovery)
	}
	return nil
}

// sum makes the result of all rounds.
func (m *recoveries) sum() {
	for _, d := range [][]time.Duration{m.worst, m.kept, m.usual} {
		slices.Sort(d)
	}
	m.CalmMS = float64(m.calm.Microseconds()) / 1e3
	m.P50MS, m.MaxMS, m.UsualMS = percentile(m.worst, 0.5), percentile(m.worst, 1), percentile(m.usual, 0.5)
	if m.HeldMS > 0 {
		m.HeldP50MS, m.HeldMaxMS = percentile(m.kept, 0.5), percentile(m.kept, 1)
	}
	m.Reached = m.MaxMS <= m.TargetMS && m.HeldMaxMS <= m.HeldMS && m.Failed == 0
}

// table writes what was measured completely, unless that was written as it was measured.
func (r *recovering) table() error {
	r.show.End()
	if r.cmd.JSON {
		return nil
	}
	var all []recovery
	for _, m := range r.all {
		if m.Rounds == r.cmd.Rounds {
			all = append(all, m.recovery)
		}
	}
	return recoverTable(r.s.out, all)
}

// quick waits until instances are quick, one after the other.
func (b *bench) quick(ctx context.Context) error {
	deadline, row := time.Now().Add(recoverHealthy), 0
	for row < recoverRun && time.Now().Before(deadline) {
		began := time.Now()
		finish, err := b.scenario("hello", 1).begin(ctx, b.id("quick"))
		if err == nil {
			err = finish(ctx)
		}
		if row++; err != nil || time.Since(began) > canaryQuiet {
			row = 0
		}
	}
	if row < recoverRun {
		return fmt.Errorf("the fleet does not answer quickly within %s", recoverHealthy)
	}
	return ctx.Err()
}

// waited returns the longest that an instance waited after from. With apart, what was under way at that moment counts by itself.
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

func recoverTable(w io.Writer, all []recovery) error {
	t := &term.Table{
		Header: []string{"FAULT", "SINCE", "ROUNDS", "P50 MS", "MAX MS", "TARGET", "HELD P50", "HELD MAX", "CALM MAX", "USUAL MS", "FAILED", "REACHED"},
		Right:  []int{2, 3, 4, 5, 6, 7, 8, 9, 10},
	}
	ms := func(v float64) string {
		if v == 0 {
			return ""
		}
		return fmt.Sprintf("%.0f", v)
	}
	for _, r := range all {
		reached := "yes"
		if !r.Reached {
			reached = "no"
		}
		t.Add(r.Fault, r.Since, r.Rounds, ms(r.P50MS), ms(r.MaxMS), ms(r.TargetMS), ms(r.HeldP50MS), ms(r.HeldMaxMS), ms(r.CalmMS), fmt.Sprintf("%.1f", r.UsualMS), r.Failed, reached)
	}
	return t.Write(w)
}
