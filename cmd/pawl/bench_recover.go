package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/term"
)

const (
	recoverBefore  = time.Second      // of instances before the fault
	recoverSettle  = 3 * time.Second  // of a healed fleet: members join, and partitions move
	recoverHealthy = 40 * time.Second // in which a fleet must answer quickly before a round begins
	recoverRun     = 50               // so many instances in a row that are quick
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
	UsualMS   float64 `json:"usual_ms"` // median of all instances of all rounds: what bystanders see
	Failed    int     `json:"failed_calls"`
	Reached   bool    `json:"reached"`
}

// benchRecover starts a fleet for each kind of servers that the faults need, and measures.
func (c *benchCmd) benchRecover(ctx context.Context, s streams, log *slog.Logger) error {
	if c.given {
		return misuse{errors.New("recover measures a fleet that it starts itself, and kills: leave --nats out")}
	}
	some, err := faultsNamed(c.Fault)
	if err != nil {
		return misuse{err}
	}
	var all []recovery
	for len(some) > 0 {
		first := some[0]
		same := func(f fault) bool { return f.nats == first.nats && f.redis == first.redis }
		var here []fault
		for _, f := range some {
			if same(f) {
				here = append(here, f)
			}
		}
		some = slices.DeleteFunc(some, same)
		rs, err := c.recoverOn(ctx, s, log, here)
		all = append(all, rs...)
		if err != nil {
			return errors.Join(err, c.writeRecoveries(s, all))
		}
	}
	return c.writeRecoveries(s, all)
}

func (c *benchCmd) writeRecoveries(s streams, all []recovery) error {
	if c.JSON { // each was written when it was measured
		return nil
	}
	return recoverTable(s.out, all)
}

func (c *benchCmd) recoverOn(ctx context.Context, s streams, log *slog.Logger, some []fault) (all []recovery, err error) {
	f, err := startRecoverFleet(ctx, log, demoLog(c.LogLevel, s.err), max(some[0].nats, 1), some[0].redis)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	c.NATSURL = f.nats.url()
	b, err := c.open(ctx, log)
	if err != nil {
		return nil, err
	}
	defer b.close()
	for _, ft := range some {
		r, err := c.recoverFrom(ctx, s.err, f, b, ft)
		if err != nil {
			return all, fmt.Errorf("recover: %s: %w", ft.name, err)
		}
		all = append(all, r)
		if c.JSON {
			if err := writeJSON(s.out, r); err != nil {
				return all, err
			}
		}
	}
	return all, nil
}

func (c *benchCmd) recoverFrom(ctx context.Context, show io.Writer, f *recoverFleet, b *bench, ft fault) (recovery, error) {
	r := recovery{
		Scenario: "recover", Fault: ft.name, Since: ft.since, Rounds: c.Rounds,
		TargetMS: float64(ft.target.Milliseconds()), HeldMS: float64(ft.held.Milliseconds()),
	}
	p := term.NewProgress(show, c.Rounds, "rounds of "+ft.name)
	defer p.End()
	var worst, held, usual []time.Duration
	for round := range c.Rounds {
		if err := b.quick(ctx); err != nil {
			return r, err
		}
		cs, from, err := c.round(ctx, f, b, ft, round)
		if err != nil {
			return r, err
		}
		r.Instances += len(cs)
		w, h := waited(cs, from, ft.held > 0)
		worst, held = append(worst, w), append(held, h)
		for _, one := range cs {
			usual = append(usual, one.ended.Sub(one.began)-one.runs)
			if one.err != nil {
				r.Failed++
				if r.Failed == 1 {
					_, _ = fmt.Fprintf(show, "%s: a call failed: %v\n", ft.name, one.err)
				}
			}
		}
		if err := sleep(ctx, recoverSettle); err != nil {
			return r, err
		}
		p.Set(round + 1)
	}
	for _, d := range [][]time.Duration{worst, held, usual} {
		slices.Sort(d)
	}
	r.P50MS, r.MaxMS, r.UsualMS = percentile(worst, 0.5), percentile(worst, 1), percentile(usual, 0.5)
	if ft.held > 0 {
		r.HeldP50MS, r.HeldMaxMS = percentile(held, 0.5), percentile(held, 1)
	}
	r.Reached = r.MaxMS <= r.TargetMS && r.HeldMaxMS <= r.HeldMS && r.Failed == 0
	return r, nil
}

// round injects the fault while instances are started, heals it when the fleet has recovered, and waits for every instance.
func (c *benchCmd) round(ctx context.Context, f *recoverFleet, b *bench, ft fault, round int) (_ []*canary, from time.Time, err error) {
	cs := startCanaries(ctx, b)
	defer cs.end()
	if ft.held > 0 {
		cs.long(ctx)
	}
	if err := sleep(ctx, recoverBefore); err != nil {
		return nil, from, err
	}
	if from, err = ft.inject(ctx, f, b, round); err != nil {
		return nil, from, err
	}
	if err := cs.recovered(ctx, from); err != nil && ctx.Err() != nil {
		return nil, from, err
	}
	if err := ft.heal(ctx, f, b); err != nil { // a fleet that does not recover by itself does now, and the time shows it
		return nil, from, err
	}
	return cs.end(), from, nil
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
		Header: []string{"FAULT", "SINCE", "ROUNDS", "P50 MS", "MAX MS", "TARGET", "HELD P50", "HELD MAX", "USUAL MS", "FAILED", "REACHED"},
		Right:  []int{2, 3, 4, 5, 6, 7, 8, 9},
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
		t.Add(r.Fault, r.Since, r.Rounds, ms(r.P50MS), ms(r.MaxMS), ms(r.TargetMS), ms(r.HeldP50MS), ms(r.HeldMaxMS), fmt.Sprintf("%.1f", r.UsualMS), r.Failed, reached)
	}
	return t.Write(w)
}
