package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/examples/audit"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/process"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

const (
	watchEvery  = 50 * time.Millisecond
	watchEvents = 2_000 // events of the history per request
	killAfter   = 30    // percent of the packages
	namesShown  = 4
)

// watch is the state of the audit, as far as its history has been read.
type watch struct {
	err       io.Writer
	input     audit.Request
	events    uint64
	scheduled map[uint64]*history.ActivityScheduled // outstanding
	inspected int
	ended     bool

	activities int      // activities that ended
	retried    int      // activities that were claimed or attempted more than once
	failed     int      // activities that failed
	lost       []string // packages that the killed worker was inspecting
	taken      int      // lost packages that other workers have inspected
}

func newWatch(w io.Writer) *watch {
	return &watch{err: w, scheduled: make(map[uint64]*history.ActivityScheduled)}
}

// follow reads the history as it grows, shows the progress, and kills a worker after 30 % of the packages.
func (d *demo) follow(ctx context.Context, id string, total int) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for !d.ended {
		more, err := d.read(ctx, id)
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		d.progress.Set(d.inspected)
		if d.killed == "" && d.inspected*100 >= total*killAfter && d.inspected < total {
			if err := d.lose(ctx, id); err != nil {
				return err
			}
		}
		if more {
			continue
		}
		if !slices.ContainsFunc(d.workers, func(w *process.Process) bool { return !w.Exited() }) {
			return errors.New("all workers have ended; --log-level warn shows their logs")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// read reads the next events. An error may be temporary: the partition may have no owner.
func (d *demo) read(ctx context.Context, id string) (more bool, err error) {
	n := 0
	for e, err := range d.client.HistoryAfter(ctx, id, 0, d.events, watchEvents) {
		if errors.Is(err, client.ErrNotFound) { // the audit has not begun
			return false, nil
		}
		if err != nil {
			return false, err
		}
		d.events = e.ID
		d.take(e.Event)
		if n++; n == watchEvents {
			return true, nil
		}
	}
	return false, nil
}

func (d *demo) take(e history.Event) {
	switch e := e.(type) {
	case *history.Started:
		d.input, _ = author.Input(audit.Audit).Decode(e.Payload) // an input that does not decode belongs to another audit
	case *history.ActivityScheduled:
		d.scheduled[e.ID] = e
	case *history.ActivityCompleted:
		d.settle(e.Scheduled, e.Worker, e.Claims)
	case *history.ActivityFailed:
		d.failed++
		d.settle(e.Scheduled, e.Worker, e.Claims)
	case *history.Completed, *history.Failed, *history.Cancelled:
		d.ended = true
	default: // nothing to show
	}
}

func (d *demo) settle(id uint64, worker string, claims uint32) {
	s := d.scheduled[id]
	if s == nil {
		return
	}
	delete(d.scheduled, id)
	d.activities++
	if claims > 1 || s.Attempt > 1 {
		d.retried++
	}
	if s.Name != audit.InspectPackage.Name() {
		return
	}
	d.inspected++
	if pkg := packageOf(s); claims > 1 && slices.Contains(d.lost, pkg) { // otherwise the first claim was by an earlier demonstration
		d.taken++
		d.progress.Printf("  %s took over %s from %s", worker, pkg, d.killed)
	}
}

func packageOf(s *history.ActivityScheduled) string {
	in, err := author.Input(audit.InspectPackage).Decode(s.Payload)
	if err != nil {
		return s.Name
	}
	return in.Package
}

// lose kills the worker that inspects the most packages, if any does, and reports these packages.
func (d *demo) lose(ctx context.Context, id string) error {
	held, err := d.held(ctx, id)
	if err != nil {
		return nil //nolint:nilerr // follow tries again
	}
	var victim *process.Process
	for _, w := range d.workers {
		if len(held[w.Name]) > 0 && (victim == nil || len(held[w.Name]) > len(held[victim.Name])) {
			victim = w
		}
	}
	if victim == nil {
		return nil
	}
	d.killed = victim.Name
	if err := victim.Kill(); err != nil {
		return fmt.Errorf("kill %s: %w", victim.Name, err)
	}
	for more := true; more; { // the names of the packages are in events that were not read yet
		if more, err = d.read(ctx, id); err != nil {
			more = false
		}
	}
	if at, err := d.held(ctx, id); err == nil { // otherwise the packages from shortly before the kill are used
		held = at
	}
	d.lost = held[victim.Name]
	d.progress.Printf("Killed %s (process %d) after %d packages. It was inspecting %s", victim.Name, victim.PID(), d.inspected, names(d.lost))
	return nil
}

// held returns the packages that are being inspected, by worker.
func (d *demo) held(ctx context.Context, id string) (map[string][]string, error) {
	desc, err := d.client.Describe(ctx, id)
	if err != nil {
		return nil, err
	}
	held := make(map[string][]string)
	for _, o := range desc.Activities {
		if o.Worker == "" {
			continue
		}
		name := o.Name
		if s := d.scheduled[o.Event]; s != nil {
			name = packageOf(s)
		}
		held[o.Worker] = append(held[o.Worker], name)
	}
	return held, nil
}

// names lists the first few names.
func names(all []string) string {
	slices.Sort(all)
	switch n := len(all); {
	case n == 0:
		return "none"
	case n <= namesShown:
		return strings.Join(all, ", ")
	default:
		return fmt.Sprintf("%s and %d more", strings.Join(all[:namesShown], ", "), n-namesShown)
	}
}
