package bench

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/builtin"
	"github.com/pawlrun/pawl/internal/schedule"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

const (
	firingsPerSecond  = 350 // maximum, unless each schedule would start less than one instance per minute
	createdPerSecond  = 1000
	schedulesInFlight = 500
	takeoverWindow    = 15 * time.Second // minimum duration of a run in which an orchestrator is killed
)

// tick is the orchestration that schedules start. It ends in its first turn, so its last commit is that of its start.
var tick = pawl.NewOrchestration[pawl.None, pawl.None]("bench-tick")

func scheduleOrchestrations() []pawl.OrchestrationBinding {
	return []pawl.OrchestrationBinding{tick.Do(func(*pawl.Context, pawl.None) (pawl.None, error) { return pawl.None{}, nil })}
}

// scheduleResult reports how late the instances of schedules start.
type scheduleResult struct {
	Scenario  string             `json:"scenario"`
	Schedules int                `json:"schedules"`
	Firings   int                `json:"firings"` // times of all schedules
	Seconds   float64            `json:"seconds"` // duration of the run
	Killed    bool               `json:"killed"`  // an orchestrator received SIGKILL
	P50MS     float64            `json:"p50_ms"`  // from the time, with its jitter, to the commit of the start
	P99MS     float64            `json:"p99_ms"`
	MaxMS     float64            `json:"max_ms"`
	Missed    int                `json:"missed"`  // times without an instance
	Doubled   int                `json:"doubled"` // starts beyond the first of a time, and starts without a time
	CPU       map[string]float64 `json:"cpu_s_per_1000,omitempty"`
}

// scheduleBench is one run of schedules:
//
//	create all ──▶ from ──▶ every schedule starts an instance per period ──▶ until ──▶ all have ended ──▶ read instances and histories
//	                        one orchestrator is killed
//
// The times of the schedules are spread over the seconds of the period, and by jitter over each second: with all times in one burst, the
// lag would measure throughput. A schedule contains from and until, so it ends by itself, and its expected starts are known beforehand.
type scheduleBench struct {
	*driver
	from, until time.Time
	begun       time.Time                   // when all schedules had begun; earlier times do not count for the lag
	at          map[string]time.Time        // by instance: its time with jitter
	schedules   map[string]builtin.Schedule // by id
}

// schedule measures schedules.
func (r *run) schedule(ctx context.Context, f *fleet, d *driver) error {
	b := &scheduleBench{driver: d}
	window, err := b.plan(r.opts.Schedules, r.opts.Kill)
	if err != nil {
		return err
	}
	p := term.NewProgress(r.errw, len(b.at), "times")
	defer p.End()
	if err := b.create(ctx); err != nil {
		return err
	}
	before := f.cpu()
	if r.opts.Kill {
		if err := waitUntil(ctx, b.from.Add(window/3)); err != nil {
			return err
		}
		if err := f.orchestrators[0].Kill(); err != nil {
			return err
		}
	}
	if err := waitUntil(ctx, b.until); err != nil {
		return err
	}
	if err := b.awaitEnds(ctx, p); err != nil {
		return err
	}
	m := scheduleResult{Scenario: "schedule", Schedules: r.opts.Schedules, Firings: len(b.at), Seconds: window.Seconds(), Killed: r.opts.Kill}
	if !r.opts.Kill { // the processor time of a killed process is lost
		m.CPU = perThousand(before, f.cpu(), m.Firings)
	}
	if err := b.read(ctx, &m); err != nil {
		return err
	}
	return r.report.add(m)
}

// plan computes n schedules and their times.
func (b *scheduleBench) plan(n int, kill bool) (window time.Duration, err error) {
	period := 5
	for _, longer := range []int{10, 15, 20, 30, 60} {
		if n > period*firingsPerSecond {
			period = longer
		}
	}
	window = time.Duration(period) * time.Second
	if kill {
		window = max(window, takeoverWindow)
	}
	b.from = time.Now().UTC().Truncate(time.Second).Add(3*time.Second + time.Duration(n/createdPerSecond)*time.Second)
	b.until = b.from.Add(window - time.Second)
	b.at, b.schedules = make(map[string]time.Time, n), make(map[string]builtin.Schedule, n)
	for i := range n {
		s := builtin.Schedule{
			Times: schedule.Times{
				Cron: []string{fmt.Sprintf("%d-59/%d * * * * *", i%period, period)}, Jitter: text.Duration(time.Second), From: b.from, Until: b.until,
			},
			Start: &builtin.Start{Orchestration: tick.Name()}, Overlap: builtin.AllowAll,
		}
		id := b.id("schedule")
		b.schedules[id] = s
		times, err := schedule.Read(s.Times)
		if err != nil {
			return 0, err
		}
		for t, ok := times.Next(b.from.Add(-1)); ok; t, ok = times.Next(t) {
			b.at[id+"@"+t.Format(time.RFC3339)] = t.Add(times.Delay(id, t))
		}
	}
	return window, nil
}

// create starts the schedules, and returns when all have begun.
func (b *scheduleBench) create(ctx context.Context) error {
	ids := slices.Collect(maps.Keys(b.schedules))
	err := each(ctx, len(ids), schedulesInFlight, func(ctx context.Context, i int) error {
		_, err := client.Start(ctx, b.c, builtin.Schedules, ids[i], builtin.State{Schedule: b.schedules[ids[i]], Since: b.from.Add(-1)})
		return err
	})
	if err != nil {
		return err
	}
	err = until(ctx, func() bool { return b.count(ctx, builtin.Schedules.Name(), "") >= len(ids) })
	b.begun = time.Now()
	if err == nil && b.begun.After(b.until) {
		err = errors.New("creating the schedules took longer than their run")
	}
	return err
}

// awaitEnds waits until every schedule has ended, and then until all instances that they started have ended, as long as the number of
// these grows.
func (b *scheduleBench) awaitEnds(ctx context.Context, p *term.Progress) error {
	err := until(ctx, func() bool { return b.count(ctx, builtin.Schedules.Name(), client.Completed) >= len(b.schedules) })
	if err != nil {
		return fmt.Errorf("schedules have not ended: %w", err)
	}
	_, err = untilAll(ctx, len(b.at), func() int { // the result reports missing instances
		n := b.count(ctx, tick.Name(), client.Completed)
		p.Set(n)
		return n
	})
	return err
}

// read reads the started instances, and the histories of the schedules.
func (b *scheduleBench) read(ctx context.Context, m *scheduleResult) error {
	t := tally{at: b.at, begun: b.begun, starts: make(map[string]int, len(b.at))}
	if err := t.instances(b.c.List(ctx, client.ListOptions{Where: fmt.Sprintf("orchestration = %q", tick.Name())})); err != nil {
		return err
	}
	for id := range b.schedules {
		if err := t.schedule(b.c.History(ctx, id, 0)); err != nil {
			return fmt.Errorf("history of %s: %w", id, err)
		}
	}
	t.sum(m)
	return nil
}

// tally compares the started instances with those that were due.
type tally struct {
	at     map[string]time.Time
	begun  time.Time
	lags   []time.Duration
	starts map[string]int // by instance: events of schedules that start it
	found  int            // instances that were due
	others int            // instances that were not due
}

// instances adds the list of instances.
func (t *tally) instances(all iter.Seq2[client.Summary, error]) error {
	for s, err := range all {
		if err != nil {
			return err
		}
		due, ok := t.at[s.Instance]
		if !ok || s.Execution != 1 {
			t.others++
			continue
		}
		t.found++
		if !due.Before(t.begun) {
			t.lags = append(t.lags, s.Updated.Sub(due))
		}
	}
	return nil
}

// schedule adds the history of a schedule.
func (t *tally) schedule(all iter.Seq2[client.Entry, error]) error {
	for e, err := range all {
		if err != nil {
			return err
		}
		if c, ok := e.Event.(*history.ChildScheduled); ok {
			t.starts[c.Instance]++
		}
	}
	return nil
}

// sum computes the result. A time without an instance is missed.
func (t *tally) sum(m *scheduleResult) {
	m.Missed, m.Doubled = len(t.at)-t.found, t.others
	for _, n := range t.starts {
		m.Doubled += n - 1
	}
	m.P50MS, m.P99MS, m.MaxMS = quantiles(t.lags)
}

// waitUntil waits until a time.
func waitUntil(ctx context.Context, t time.Time) error {
	select {
	case <-time.After(time.Until(t)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
