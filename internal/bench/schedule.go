package bench

import (
	"context"
	"errors"
	"fmt"
	"iter"
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
	firingsPerSecond  = 350 // at most, unless each schedule would have less than one a minute
	createdPerSecond  = 1000
	schedulesInFlight = 500
	takeoverWindow    = 15 * time.Second // of a run in which an orchestrator is killed
)

// tick is what a schedule starts: it ends in its first turn, so its latest commit is that of its start.
var tick = pawl.NewOrchestration[pawl.None, pawl.None]("bench-tick")

func scheduleOrchestrations() []pawl.OrchestrationBinding {
	return []pawl.OrchestrationBinding{tick.Do(func(*pawl.Context, pawl.None) (pawl.None, error) { return pawl.None{}, nil })}
}

// scheduleResult is how late the instances of schedules start.
type scheduleResult struct {
	Scenario  string             `json:"scenario"`
	Schedules int                `json:"schedules"`
	Firings   int                `json:"firings"` // times of all schedules
	Seconds   float64            `json:"seconds"` // in which they are
	Killed    bool               `json:"killed"`  // an orchestrator, with signal 9
	P50MS     float64            `json:"p50_ms"`  // from the time, with its jitter, to the commit of the start
	P99MS     float64            `json:"p99_ms"`
	MaxMS     float64            `json:"max_ms"`
	Missed    int                `json:"missed"`  // times without an instance
	Doubled   int                `json:"doubled"` // further starts of a time, and starts without a time
	CPU       map[string]float64 `json:"cpu_s_per_1000,omitempty"`
}

// scheduleBench is one run of schedules:
//
//	create all ──▶ from ──▶ every schedule starts an instance each period; one orchestrator is killed ──▶ until ──▶ all have ended ──▶ read
//	                        the instances, and the histories of the schedules
//
// The schedules are spread over the seconds of the period, and by their jitter over each second: the lag of a burst would be the
// throughput. From and until are part of each schedule, which ends by itself; what it has to start follows from it alone.
type scheduleBench struct {
	*driver
	from, until time.Time
	begun       time.Time                  // when all schedules had begun: earlier times do not count for the lag
	at          map[string]time.Time       // by instance: its time with jitter
	schedules   map[string]client.Schedule // by id
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
	if !r.opts.Kill { // the time of a process that has ended is not known
		m.CPU = perThousand(before, f.cpu(), m.Firings)
	}
	if err := b.read(ctx, &m); err != nil {
		return err
	}
	return r.report.add(m)
}

// plan makes n schedules and their times.
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
	b.at, b.schedules = make(map[string]time.Time, n), make(map[string]client.Schedule, n)
	for i := range n {
		s := client.Schedule{
			Times: client.Times{
				Cron: []string{fmt.Sprintf("%d-59/%d * * * * *", i%period, period)}, Jitter: text.Duration(time.Second), From: b.from, Until: b.until,
			},
			Start: &client.ScheduleStart{Orchestration: tick.Name()}, Overlap: client.OverlapAllowAll,
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
	ids := make([]string, 0, len(b.schedules))
	for id := range b.schedules {
		ids = append(ids, id)
	}
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
		err = errors.New("the schedules took longer to create than they were to run")
	}
	return err
}

// awaitEnds waits until every schedule has ended, and what they have started, for as long as the number grows.
func (b *scheduleBench) awaitEnds(ctx context.Context, p *term.Progress) error {
	err := until(ctx, func() bool { return b.count(ctx, builtin.Schedules.Name(), client.Completed) >= len(b.schedules) })
	if err != nil {
		return fmt.Errorf("schedules have not ended: %w", err)
	}
	seen := -1
	for seen < len(b.at) {
		before := seen
		_ = until(ctx, func() bool { // what is missing is a result
			seen = b.count(ctx, tick.Name(), client.Completed)
			p.Set(seen)
			return seen > before
		})
		if seen <= before {
			return ctx.Err()
		}
	}
	return nil
}

// read reads what was started, and by whom.
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

// tally compares what was started with what was due.
type tally struct {
	at     map[string]time.Time
	begun  time.Time
	lags   []time.Duration
	starts map[string]int // by instance: events of schedules that start it
	found  int            // instances that were due
	others int            // that were not
}

// instances takes the list of instances.
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

// schedule takes the history of a schedule.
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

// sum computes the result. A time is missed if its schedule or its instance lacks it.
func (t *tally) sum(m *scheduleResult) {
	m.Missed, m.Doubled = len(t.at)-t.found, t.others
	for _, n := range t.starts {
		m.Doubled += n - 1
	}
	slices.Sort(t.lags)
	m.P50MS, m.P99MS, m.MaxMS = percentile(t.lags, 0.5), percentile(t.lags, 0.99), percentile(t.lags, 1)
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
