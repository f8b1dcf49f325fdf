package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl"
)

// Fleets that change while they work: a rolling restart, and workers that follow the demand. Activities record in a file when they begin and
// end, so that one that runs twice, or is interrupted, shows.

const (
	rollingFleet   = 2 // orchestrators, and workers
	beforeRolling  = time.Second
	demandFor      = 2_000 // instances
	demandSlots    = 4     // of a worker
	demandLongest  = 1000  // milliseconds of an activity, less than the drain of a worker
	demandInterval = 250 * time.Millisecond
	demandSurplus  = 4 // readings in sequence after which a worker is surplus
)

// recordedInput is what an activity does, and where it records that.
type recordedInput struct {
	File         string `json:"file"`
	Milliseconds int    `json:"ms"`
}

var (
	recordedCall = pawl.NewActivity[recordedInput, pawl.None]("bench-recorded")
	recorded     = pawl.NewOrchestration[recordedInput, pawl.None]("bench-recorded-call")
)

func changeOrchestrations() []pawl.OrchestrationBinding {
	return []pawl.OrchestrationBinding{recorded.Do(func(ctx *pawl.Context, in recordedInput) (pawl.None, error) { return recordedCall.Call(ctx, in) })}
}

func changeActivities() []pawl.ActivityBinding {
	return []pawl.ActivityBinding{recordedCall.Do(runRecorded)}
}

func runRecorded(ctx context.Context, in recordedInput) (none pawl.None, err error) {
	f, err := os.OpenFile(in.File, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return none, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	key := pawl.Info(ctx).Key
	if _, err := f.WriteString("begun " + key + "\n"); err != nil {
		return none, err
	}
	over := time.NewTimer(time.Duration(in.Milliseconds) * time.Millisecond)
	defer over.Stop()
	select {
	case <-over.C:
		_, err = f.WriteString("ended " + key + "\n")
		return none, err
	case <-ctx.Done():
		_, err = f.WriteString("interrupted " + key + "\n")
		return none, errors.Join(context.Cause(ctx), err)
	}
}

// runs counts what the activities of a run have recorded.
type runs struct {
	Twice       int `json:"run_twice"` // calls that began more than once
	Interrupted int `json:"interrupted"`
}

func readRuns(file string) (r runs, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return r, err
	}
	begun := make(map[string]int)
	for line := range strings.Lines(string(b)) {
		what, key, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch what {
		case "begun":
			if begun[key]++; begun[key] == 2 {
				r.Twice++
			}
		case "interrupted":
			r.Interrupted++
		}
	}
	return r, nil
}

// rollingResult is what becomes of instances while each member is restarted.
type rollingResult struct {
	Scenario  string  `json:"scenario"`
	Instances int     `json:"instances"` // of one activity
	PerS      float64 `json:"instances_per_s"`
	Restarts  int     `json:"restarts"`
	Seconds   float64 `json:"seconds"`
	P50MS     float64 `json:"p50_ms"`
	P99MS     float64 `json:"p99_ms"`
	MaxMS     float64 `json:"max_ms"`
	Failed    int     `json:"failed"`
	runs
}

// rolling restarts the orchestrators and the workers, one after the other, --rounds times, while instances are started at a fixed rate.
func (r *run) rolling(ctx context.Context, f *fleet, d *driver) error {
	file := filepath.Join(f.dir, "runs")
	began := time.Now()
	cs := startCanaries(ctx, d, plain(d, "recorded", 1, 1, recorded, recordedInput{File: file}), time.Second/time.Duration(r.opts.Rate))
	m := rollingResult{Scenario: "rolling"}
	err := waitUntil(ctx, time.Now().Add(beforeRolling))
	for range r.opts.Rounds {
		for _, one := range f.members() {
			if err == nil {
				err = errors.Join(one.Stop(), one.start())
			}
			if err == nil {
				m.Restarts++
				err = f.awaitComplete(ctx, d)
			}
		}
	}
	m.Seconds = time.Since(began).Seconds()
	all := cs.end()
	if err != nil {
		return err
	}
	var took []time.Duration
	for _, c := range all {
		if c.err != nil {
			_, _ = fmt.Fprintln(r.errw, c.err)
			m.Failed++
		}
		took = append(took, c.ended.Sub(c.began))
	}
	slices.Sort(took)
	m.Instances, m.PerS = len(all), float64(len(all))/m.Seconds
	m.P50MS, m.P99MS, m.MaxMS = percentile(took, 0.5), percentile(took, 0.99), percentile(took, 1)
	if m.runs, err = readRuns(file); err != nil {
		return err
	}
	return r.report.add(m)
}

// demandResult is what becomes of activities while workers follow the demand.
type demandResult struct {
	Scenario   string  `json:"scenario"`
	Instances  int     `json:"instances"` // of one activity of up to a second
	MaxWorkers int     `json:"max_workers"`
	Started    int     `json:"workers_started"`
	Stopped    int     `json:"workers_stopped"` // while they were surplus
	Seconds    float64 `json:"seconds"`         // until there are no instances and no workers
	Failed     int     `json:"failed"`
	runs
}

// demand starts workers as the demand of a queue grows, and stops those that are surplus, as an autoscaler does: any of them, also busy ones.
func (r *run) demand(ctx context.Context, f *fleet, d *driver) error {
	m := demandResult{Scenario: "demand", Instances: cmp.Or(r.opts.Instances, demandFor)}
	file, began := filepath.Join(f.dir, "runs"), time.Now()
	var failed atomic.Int64
	var starts error
	done := make(chan struct{})
	go func() {
		defer close(done)
		starts = each(ctx, m.Instances, m.Instances, func(ctx context.Context, i int) error {
			in := recordedInput{File: file, Milliseconds: 50 + i*i%(demandLongest-50)}
			finish, err := plain(d, "recorded", 1, 1, recorded, in).begin(ctx, d.id("demand"))
			if err == nil {
				err = finish(ctx)
			}
			if err != nil {
				failed.Add(1)
			}
			return ctx.Err()
		})
	}()
	err := r.follow(ctx, f, d, &m, done)
	<-done
	if err = errors.Join(err, starts); err != nil {
		return err
	}
	m.Seconds, m.Failed = time.Since(began).Seconds(), int(failed.Load())
	if m.runs, err = readRuns(file); err != nil {
		return err
	}
	return r.report.add(m)
}

// follow has as many workers as the demand requires, until the instances have ended and no worker is left.
func (r *run) follow(ctx context.Context, f *fleet, d *driver, m *demandResult, done <-chan struct{}) error {
	var stopping sync.WaitGroup
	defer stopping.Wait()
	surplus, ended := 0, false
	for !ended || len(f.workers) > 0 {
		if err := waitUntil(ctx, time.Now().Add(demandInterval)); err != nil {
			return err
		}
		select {
		case <-done:
			ended = true
		default:
		}
		now, err := d.c.Demand(ctx, recordedCall.Queue())
		if err != nil {
			continue // as an autoscaler, which keeps what there is
		}
		want := min(r.opts.Workers, int((now.Total()+demandSlots-1)/demandSlots)) //nolint:gosec // far from the bound
		for len(f.workers) < want {
			w, err := f.member("worker", m.Started, "--concurrency", strconv.Itoa(demandSlots), "--name", "worker-"+strconv.Itoa(m.Started+1))
			if err != nil {
				return err
			}
			f.workers = append(f.workers, w)
			m.Started++
			m.MaxWorkers = max(m.MaxWorkers, len(f.workers))
		}
		if surplus++; want >= len(f.workers) {
			surplus = 0
		}
		if surplus >= demandSurplus {
			for _, w := range f.workers[want:] {
				stopping.Go(func() { _ = w.close() }) // the runs show whether it had time
				m.Stopped++
			}
			f.workers = f.workers[:want:want]
		}
	}
	return nil
}
