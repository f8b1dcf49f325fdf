package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"
)

const (
	sequentialInstances = 200 // instances that run one at a time, for the latency
	workerConcurrency   = 256
)

// loadResult reports on one scenario of instances.
type loadResult struct {
	Scenario       string             `json:"scenario"`
	Instances      int                `json:"instances"`
	Activities     int                `json:"activities"`
	Seconds        float64            `json:"seconds"`
	InstancesPerS  float64            `json:"instances_per_s"`
	ActivitiesPerS float64            `json:"activities_per_s"`
	FloorRatio     float64            `json:"floor_ratio,omitempty"` // rate of activities (event: of instances), to that of the floor
	P50MS          float64            `json:"p50_ms"`                // of one instance at a time, with nothing else running
	P99MS          float64            `json:"p99_ms"`
	CPU            map[string]float64 `json:"cpu_s_per_1000,omitempty"` // seconds per 1,000 activities (event: instances), by process
}

// load measures one or all scenarios of instances.
func (r *run) load(ctx context.Context) (err error) {
	floor := 0.0
	if r.opts.Scenario == "all" && !r.opts.given {
		if floor, err = r.floor(ctx); err != nil {
			return fmt.Errorf("floor: %w", err)
		}
	}
	return r.onFleet(ctx, r.loadLayout(), func(f *fleet, d *driver) error { return r.loadAll(ctx, f, d, floor) })
}

// loadLayout returns a fleet of one orchestrator and one worker, with --single in one process.
func (r *run) loadLayout() layout {
	l := layout{orchestrators: 1, workers: 1, single: r.opts.Single}
	if l.single { // a slot is already reserved while the commit that schedules its activity is outstanding
		l.concurrency = 2 * r.opts.InFlight
	}
	return l
}

func (r *run) loadAll(ctx context.Context, f *fleet, d *driver, floor float64) error {
	scenarios := []string{r.opts.Scenario}
	if r.opts.Scenario == "all" {
		scenarios = []string{"hello", "chain", "fanout", "event"}
	}
	for _, name := range scenarios {
		m, err := r.measure(ctx, d.scenario(name, r.opts.N), r.opts.Instances, d, f)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if floor > 0 {
			m.FloorRatio = max(m.ActivitiesPerS, m.InstancesPerS) / floor
		}
		if err := r.report.add(m); err != nil {
			return err
		}
	}
	return nil
}

// measure runs n instances of a scenario (0: the default number): a tenth to warm up, then all concurrently, then some one at a time.
func (r *run) measure(ctx context.Context, sc scenario, n int, d *driver, f *fleet) (loadResult, error) {
	n = cmp.Or(n, sc.instances)
	m := loadResult{Scenario: sc.name, Instances: n, Activities: n * sc.activities}
	if _, err := d.load(ctx, sc, max(n/10, 1), r.opts.InFlight, io.Discard); err != nil {
		return m, err
	}
	before := f.cpu()
	took, err := d.load(ctx, sc, n, r.opts.InFlight, r.errw)
	if err != nil {
		return m, err
	}
	m.CPU = perThousand(before, f.cpu(), max(m.Activities, n))
	m.Seconds = took.Seconds()
	m.InstancesPerS = float64(n) / m.Seconds
	m.ActivitiesPerS = float64(m.Activities) / m.Seconds
	m.P50MS, m.P99MS, err = d.sequential(ctx, sc, min(sequentialInstances, n))
	return m, err
}

// perThousand returns the processor time per 1,000 of n, in seconds.
func perThousand(before, after map[string]time.Duration, n int) map[string]float64 {
	per := make(map[string]float64, len(after))
	for name, t := range after {
		per[name] = (t - before[name]).Seconds() / float64(n) * 1000
	}
	return per
}
