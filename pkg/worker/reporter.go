package worker

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/leases"
	"github.com/pawlrun/pawl/pkg/lease"
)

const (
	maxReports    = 20_000                 // pending at a time; further ones are dropped
	reportScripts = 16                     // outstanding at a time, few compared to the claims and acks, of which there may be hundreds
	reportTimeout = 500 * time.Millisecond // for writing pending reports when the worker stops
)

// reporter records how cancelled activities ended, for readers of the history. Nothing waits for it, and its load is bounded: the pending
// reports of one execution are written by one script, at most reportScripts are outstanding at a time, and reports that cannot be written
// are dropped.
type reporter struct {
	leases *leases.Scripts
	log    *slog.Logger
	wake   chan struct{}
	quit   chan struct{}
	drop   chan struct{} // closed to drop the pending reports
	done   chan struct{}
	slots  chan struct{} // semaphore of the outstanding scripts

	mu      sync.Mutex
	pending map[leases.Ref][]leases.Reported // by execution: Activity and Effect are zero
	n       int                              // number of pending reports
}

func newReporter(scripts *leases.Scripts, log *slog.Logger) *reporter {
	r := &reporter{
		leases: scripts, log: log, wake: make(chan struct{}, 1), quit: make(chan struct{}), drop: make(chan struct{}),
		done: make(chan struct{}), slots: make(chan struct{}, reportScripts), pending: make(map[leases.Ref][]leases.Reported),
	}
	go r.run()
	return r
}

// report records how the task's activity ended. It does not block.
func (t *task) report(ending lease.Ending, after time.Duration) { t.w.reportOn(t.ref, ending, after) }

func (w *Worker) reportOn(ref leases.Ref, ending lease.Ending, after time.Duration) {
	w.reports.add(ref, lease.Report{Ending: ending, After: after, Worker: w.cfg.Name, At: time.Now()})
}

func (r *reporter) add(ref leases.Ref, rep lease.Report) {
	reported := leases.Reported{Activity: ref.Activity, Report: rep}
	ref.Activity, ref.Effect = 0, ""
	r.mu.Lock()
	room := r.n < maxReports
	if room {
		r.n++
		r.pending[ref] = append(r.pending[ref], reported)
	}
	r.mu.Unlock()
	if !room {
		return
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// stop writes pending reports for at most reportTimeout, and drops the rest.
func (r *reporter) stop() {
	close(r.quit)
	limit := time.NewTimer(reportTimeout)
	defer limit.Stop()
	select {
	case <-r.done:
	case <-limit.C:
	}
	close(r.drop)
	<-r.done
}

func (r *reporter) run() {
	defer close(r.done)
	for {
		select {
		case <-r.quit:
			r.write()
			return
		case <-r.wake:
			r.write()
		}
	}
}

// write sends the pending reports.
func (r *reporter) write() {
	r.mu.Lock()
	now := r.pending
	r.pending, r.n = make(map[leases.Ref][]leases.Reported), 0
	r.mu.Unlock()
	for ref, all := range now {
		for some := range slices.Chunk(all, leases.MaxReports) {
			select {
			case r.slots <- struct{}{}:
			case <-r.drop:
				return
			}
			r.leases.Report(ref, some, func(err error) {
				if err != nil {
					r.log.Debug("reports of ended activities not recorded", "of", ref.Instance, "activities", len(some), "error", err)
				}
				<-r.slots
			})
		}
	}
}
