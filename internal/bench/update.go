package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/client"
)

const (
	updateLife      = 50   // updates per execution
	updatesHalf     = 5000 // maximum number of updates at half load
	updateInstances = 64   // instances that are measured without faults
	closeUpdates    = -1   // input that ends an instance
)

var (
	tallied   = pawl.NewOrchestration[int, int]("bench-update")
	increment = pawl.NewUpdate[int, int]("increment")
)

func updateOrchestrations() []pawl.OrchestrationBinding {
	return []pawl.OrchestrationBinding{tallied.Do(countUpdates)}
}

// countUpdates numbers the updates that it executes, across continue-as-new, and answers with the number. It rejects one in ten inputs, with
// the number as the text.
func countUpdates(ctx *pawl.Context, executed int) (int, error) {
	for range updateLife {
		u, err := increment.Next(ctx).Get(ctx)
		if err != nil {
			return executed, err
		}
		if u.Input == closeUpdates {
			return executed, u.Answer(ctx, executed)
		}
		executed++
		if u.Input%10 == 0 {
			err = u.Reject(ctx, errors.New(strconv.Itoa(executed)))
		} else {
			err = u.Answer(ctx, executed)
		}
		if err != nil {
			return executed, err
		}
	}
	return tallied.ContinueAsNew(ctx, executed)
}

// updateResult reports the latencies of updates.
type updateResult struct {
	Scenario  string             `json:"scenario"`
	Updates   int                `json:"updates"`
	Seconds   float64            `json:"seconds"`
	PerS      float64            `json:"updates_per_s"`
	P50MS     float64            `json:"p50_ms"` // of one update at a time, with nothing else running
	P99MS     float64            `json:"p99_ms"`
	HalfPerS  float64            `json:"half_updates_per_s"` // half of the rate with 200 in flight
	HalfP50MS float64            `json:"half_p50_ms"`
	HalfP99MS float64            `json:"half_p99_ms"`
	CPU       map[string]float64 `json:"cpu_s_per_1000,omitempty"` // seconds per 1,000 updates of the concurrent run, by process
	HalfCPU   map[string]float64 `json:"half_cpu_s_per_1000,omitempty"`
}

// validateUpdate rejects flags of other scenarios.
func (c *Command) validateUpdate() error {
	switch {
	case c.Kill && c.Scenario != "schedule" && c.Scenario != "batch" && c.Scenario != "update":
		return errors.New("--kill applies to the scenarios schedule, batch and update only")
	case c.Rollback && (c.Scenario != "update" || !c.Kill):
		return errors.New("--rollback applies to the scenario update with --kill only")
	case c.Elsewhere && c.Scenario != "hello" && (c.Scenario != "update" || !c.Kill) || c.Elsewhere && c.Single:
		return errors.New("--elsewhere applies to the scenario hello, without --single, and to update with --kill only")
	}
	return nil
}

// update measures updates.
func (r *run) update(ctx context.Context, f *fleet, d *driver) error {
	sc, err := d.updates(ctx)
	if err != nil {
		return err
	}
	load, err := r.measure(ctx, sc, r.opts.Instances, d, f)
	if err != nil {
		return err
	}
	m := updateResult{
		Scenario: "update", Updates: load.Instances, Seconds: load.Seconds, PerS: load.InstancesPerS, P50MS: load.P50MS, P99MS: load.P99MS, CPU: load.CPU,
	}
	if m.HalfPerS, err = d.halfLoad(ctx, sc, min(calibrateOver, m.Updates), r.errw); err != nil {
		return err
	}
	n, before := min(updatesHalf, m.Updates), f.cpu()
	took, err := d.atRate(ctx, sc, m.HalfPerS, n)
	if err != nil {
		return err
	}
	m.HalfCPU = perThousand(before, f.cpu(), n)
	m.HalfP50MS, m.HalfP99MS, _ = quantiles(took)
	return r.report.add(m)
}

// updates starts instances, and returns a scenario of updates that are distributed over them.
func (d *driver) updates(ctx context.Context) (scenario, error) {
	var ids []string
	for range updateInstances {
		id := d.id("update")
		if _, err := client.Start(ctx, d.c, tallied, id, 0); err != nil {
			return scenario{}, err
		}
		ids = append(ids, id)
	}
	var next atomic.Uint64
	return timed("update", 0, 20_000, func(ctx context.Context, _ string) error {
		_, err := client.Update(ctx, d.c, increment, ids[next.Add(1)%updateInstances], 1)
		return err
	}), nil
}

// atRate runs n instances of a scenario at a rate, whether or not the previous ones have ended, and returns the time of each.
func (d *driver) atRate(ctx context.Context, sc scenario, perSecond float64, n int) (all []time.Duration, err error) {
	g, running := errgroup.WithContext(ctx)
	starting, enough := context.WithCancel(running)
	defer enough()
	var mu sync.Mutex
	started := 0
	one := scenario{name: sc.name, begin: func(_ context.Context, id string) (func(context.Context) error, error) {
		finish, err := sc.begin(running, id)
		if started++; started >= n {
			enough()
		}
		return func(context.Context) error {
			began := time.Now()
			err := finish(running)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, time.Since(began))
			return err
		}, err
	}}
	g.Go(func() error { return d.pace(starting, g, one, perSecond) })
	return all, g.Wait()
}

// increment sends an update, and repeats it until it is answered. The answer, a result or a rejection, is the number of the update.
func (d *driver) increment(ctx context.Context, instance, id string, n int) (number, repeats int, err error) {
	for {
		number, err = client.Update(ctx, d.c, increment, instance, n, client.UpdateID(id))
		f, rejected := errors.AsType[*pawl.Failure](err)
		switch {
		case rejected:
			number, err = strconv.Atoi(f.Message)
			if err != nil {
				err = fmt.Errorf("update %s of %s: %w", id, instance, f)
			}
			return number, repeats, err
		case err == nil || ctx.Err() != nil:
			return number, repeats, err
		}
		repeats++
		_ = waitUntil(ctx, time.Now().Add(canaryInterval)) // the next request returns the error of ctx
	}
}
