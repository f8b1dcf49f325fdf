package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl"
)

// The scenarios rolling and demand change the fleet while it works: by a rolling restart, and by workers that follow the demand. Activities
// record in a file when they begin and end, which reveals activities that ran twice or were interrupted.

const (
	rollingFleet    = 2 // number of orchestrators, and of workers
	beforeRolling   = time.Second
	demandInstances = 2_000
	demandSlots     = 4    // concurrency of a worker
	demandLongest   = 1000 // milliseconds; the longest activity, shorter than the drain of a worker
	demandInterval  = 250 * time.Millisecond
	demandSurplus   = 4 // consecutive readings after which surplus workers are stopped
)

// recordedInput is the input of an activity that records its run.
type recordedInput struct {
	File         string `json:"file"` // to which it appends
	Milliseconds int    `json:"ms"`   // duration of the activity
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
	if interrupted := waitUntil(ctx, time.Now().Add(time.Duration(in.Milliseconds)*time.Millisecond)); interrupted != nil {
		_, err = f.WriteString("interrupted " + key + "\n")
		return none, errors.Join(context.Cause(ctx), err)
	}
	_, err = f.WriteString("ended " + key + "\n")
	return none, err
}

// runs counts anomalies in the file of recorded activities.
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

// rollingResult reports on the instances that are started during a rolling restart.
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

// rolling restarts every orchestrator and worker in turn, --rounds times, while instances are started at a fixed rate.
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
	m.Instances, m.PerS = len(all), float64(len(all))/m.Seconds
	m.P50MS, m.P99MS, m.MaxMS = quantiles(took)
	if m.runs, err = readRuns(file); err != nil {
		return err
	}
	return r.report.add(m)
}

// demandResult reports on the activities that run while the number of workers follows the demand.
type demandResult struct {
	Scenario   string  `json:"scenario"`
	Instances  int     `json:"instances"` // of one activity of up to a second
	MaxWorkers int     `json:"max_workers"`
	Started    int     `json:"workers_started"`
	Stopped    int     `json:"workers_stopped"` // surplus workers that were stopped
	Seconds    float64 `json:"seconds"`         // until the last instance has ended and the last worker has stopped
	Failed     int     `json:"failed"`
	runs
}

// demand starts workers as the demand of a queue grows, and stops surplus ones, busy or not, as an autoscaler does.
func (r *run) demand(ctx context.Context, f *fleet, d *driver) error {
	m := demandResult{Scenario: "demand", Instances: cmp.Or(r.opts.Instances, demandInstances)}
	file, began := filepath.Join(f.dir, "runs"), time.Now()
	var failed atomic.Int64
	var starts error
	done := make(chan struct{})
	go func() {
		defer close(done)
		starts = each(ctx, m.Instances, m.Instances, func(ctx context.Context, i int) error {
			in := recordedInput{File: file, Milliseconds: 50 + i*i%(demandLongest-50)}
			if err := runOne(ctx, d, recorded, d.id("demand"), in); err != nil {
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

// follow keeps as many workers as the demand requires, until the instances have ended and no worker is left.
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
			continue // an autoscaler keeps the current number, too
		}
		want := min(r.opts.Workers, int((now.Total()+demandSlots-1)/demandSlots)) //nolint:gosec // far from the bound
		for len(f.workers) < want {
			if err := f.add(&f.workers, "worker", m.Started, demandSlots); err != nil {
				return err
			}
			m.Started++
			m.MaxWorkers = max(m.MaxWorkers, len(f.workers))
		}
		if surplus++; want >= len(f.workers) {
			surplus = 0
		}
		if surplus >= demandSurplus {
			for _, w := range f.workers[want:] {
				stopping.Go(func() { _ = w.close() }) // the file reveals interrupted activities
				m.Stopped++
			}
			f.workers = f.workers[:want:want]
		}
	}
	return nil
}
