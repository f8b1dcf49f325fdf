package outage

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/internal/timers"
)

// Dependency is a server on which a process depends, by its name in log lines.
type Dependency string

// The dependencies.
const (
	NATS  Dependency = "nats"
	Redis Dependency = "redis"
)

const (
	tick          = time.Second
	summary       = time.Minute     // interval of the lines about a lasting outage, and of the summaries of repeated lines
	calm          = 3 * time.Second // time without a failure after which an outage is over
	maxCalm       = time.Minute
	maxOperations = 5 // operations listed in a line; the others are added up
)

// phase is the state of a dependency. See the package documentation.
type phase int32

const (
	unknown phase = iota
	waiting
	available
	unavailable
)

// Reporter logs the states of the dependencies of a process. It is safe for concurrent use. A nil Reporter reports nothing.
type Reporter struct {
	log   *slog.Logger // without a limit on repeated lines
	lines *lines
	nats  dependency
	redis dependency
}

// dependency holds the state of a dependency. phase is written under the mutex; Succeeded reads it without the mutex.
type dependency struct {
	name  Dependency
	phase atomic.Int32

	mu       sync.Mutex
	since    time.Time // first failure of this outage
	failed   time.Time // latest failure
	back     time.Time // first success after the latest failure; zero: none
	ended    time.Time // end of the previous outage
	reported time.Time // latest line
	calm     time.Duration
	count    map[string]int // failures of this outage, by operation
	fresh    bool           // there were failures since the latest line
	err      error          // of the latest failure
}

// New returns a Reporter that logs to log, which may be nil.
func New(log *slog.Logger) *Reporter {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &Reporter{log: log, lines: newLines()}
	r.nats.name, r.redis.name = NATS, Redis
	return r
}

func (r *Reporter) of(d Dependency) *dependency {
	if d == NATS {
		return &r.nats
	}
	return &r.redis
}

// Succeeded records that the dependency has answered. It costs one atomic read while the dependency is available.
func (r *Reporter) Succeeded(d Dependency) {
	if r == nil {
		return
	}
	dep := r.of(d)
	if phase(dep.phase.Load()) != available {
		dep.succeeded(r.log, time.Now())
	}
}

// Failed records that an operation was not answered, or was answered with a transient error.
func (r *Reporter) Failed(d Dependency, operation string, err error) {
	if r != nil {
		r.of(d).fail(r.log, time.Now(), operation, err)
	}
}

// Waiting returns an error with the latest failure if a dependency has never been reached, otherwise nil.
func (r *Reporter) Waiting() error {
	if r == nil {
		return nil
	}
	for _, dep := range []*dependency{&r.redis, &r.nats} {
		dep.mu.Lock()
		waits, err := phase(dep.phase.Load()) == waiting, dep.err
		dep.mu.Unlock()
		if waits {
			return fmt.Errorf("waiting for %s: %w", dep.name, err)
		}
	}
	return nil
}

// Run writes due lines every second until ctx ends; then it writes the remaining summaries of repeated lines.
func (r *Reporter) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			r.lines.flush(time.Time{})
			return
		case now := <-time.After(timers.Until(tick)):
			r.nats.report(r.log, now)
			r.redis.report(r.log, now)
			r.lines.flush(now)
		}
	}
}

func (d *dependency) fail(log *slog.Logger, now time.Time, operation string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed, d.back, d.err, d.fresh = now, time.Time{}, err, true
	switch phase(d.phase.Load()) {
	case unknown:
		d.begin(now, waiting)
		log.Warn("waiting for "+string(d.name), "operation", operation, "error", err)
	case available:
		d.begin(now, unavailable)
		log.Warn(string(d.name)+" unavailable", "operation", operation, "error", err)
	case waiting, unavailable:
	}
	d.count[operation]++
}

// begin begins an outage. If it follows the previous outage within summary, a longer time without failures is required to end it.
func (d *dependency) begin(now time.Time, p phase) {
	if !d.ended.IsZero() && now.Sub(d.ended) < summary {
		d.calm = min(2*d.calm, maxCalm)
	} else {
		d.calm = calm
	}
	d.since, d.reported, d.count, d.fresh = now, now, make(map[string]int), false
	d.phase.Store(int32(p))
}

func (d *dependency) succeeded(log *slog.Logger, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch phase(d.phase.Load()) {
	case unknown:
		d.phase.Store(int32(available))
	case waiting:
		log.Info("connected to "+string(d.name), "waited", now.Sub(d.since).Round(time.Millisecond), "failed", d.failures())
		d.phase.Store(int32(available))
	case unavailable:
		if d.back.IsZero() {
			d.back = now
		}
	case available:
	}
}

// report ends an outage that is over, and summarizes one that lasts.
func (d *dependency) report(log *slog.Logger, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	state := phase(d.phase.Load())
	switch {
	case state == unavailable && !d.back.IsZero() && now.Sub(d.failed) >= d.calm:
		log.Info(string(d.name)+" available again", "outage", d.back.Sub(d.since).Round(time.Millisecond), "failed", d.failures(), "operations", d.operations())
		d.ended = now
		d.phase.Store(int32(available))
	case state != waiting && state != unavailable, now.Sub(d.reported) < summary, !d.fresh:
	default:
		msg := string(d.name) + " still unavailable"
		if state == waiting {
			msg = "still waiting for " + string(d.name)
		}
		log.Warn(msg, "outage", now.Sub(d.since).Round(time.Second), "failed", d.failures(), "operations", d.operations(), "error", d.err)
		d.reported, d.fresh = now, false
	}
}

func (d *dependency) failures() int {
	n := 0
	for _, c := range d.count {
		n += c
	}
	return n
}

// operations lists the operations that have failed most often.
func (d *dependency) operations() string {
	names := slices.SortedFunc(maps.Keys(d.count), func(a, b string) int {
		return cmp.Or(cmp.Compare(d.count[b], d.count[a]), cmp.Compare(a, b))
	})
	var b strings.Builder
	others := 0
	for i, name := range names {
		switch {
		case i >= maxOperations:
			others += d.count[name]
		case i > 0:
			b.WriteString(", ")
			fallthrough
		default:
			fmt.Fprintf(&b, "%s %d", name, d.count[name])
		}
	}
	if others > 0 {
		fmt.Fprintf(&b, ", others %d", others)
	}
	return b.String()
}
