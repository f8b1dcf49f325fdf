package worker

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pawlrun/pawl/pkg/lease"
)

const (
	maxReports   = 20_000                 // that wait to be written; more are dropped
	reportWave   = 16                     // scripts under way at a time, of claims and acks there may be hundreds
	reportFinish = 500 * time.Millisecond // for what is left when the worker stops
)

// reporter writes down how cancelled activities ended, for the audit. Nobody waits for it
// and it stands in nobody's way: what is at hand of one execution travels as one script,
// a few of them at a time, and what can not be written is dropped.
type reporter struct {
	leases *lease.Leases
	log    *slog.Logger
	wake   chan struct{}
	quit   chan struct{}
	drop   chan struct{} // closed when what is left is not written any more
	done   chan struct{}
	places chan struct{} // taken by scripts under way

	mu      sync.Mutex
	waiting map[lease.Ref][]lease.Reported // by execution: without activity and effect
	n       int
}

func newReporter(leases *lease.Leases, log *slog.Logger) *reporter {
	r := &reporter{
		leases: leases, log: log, wake: make(chan struct{}, 1), quit: make(chan struct{}), drop: make(chan struct{}),
		done: make(chan struct{}), places: make(chan struct{}, reportWave), waiting: make(map[lease.Ref][]lease.Reported),
	}
	go r.run()
	return r
}

// report notes how the task's activity ended. It returns at once.
func (t *task) report(how lease.Ending, after time.Duration) { t.w.reportOn(t.ref, how, after) }

func (w *Worker) reportOn(ref lease.Ref, how lease.Ending, after time.Duration) {
	w.reports.add(ref, lease.Report{Ending: how, AfterMS: after.Milliseconds(), Worker: w.cfg.Name, At: time.Now().UnixMilli()})
}

func (r *reporter) add(ref lease.Ref, rep lease.Report) {
	reported := lease.Reported{Activity: ref.Activity, Report: rep}
	ref.Activity, ref.Effect = 0, ""
	r.mu.Lock()
	room := r.n < maxReports
	if room {
		r.n++
		r.waiting[ref] = append(r.waiting[ref], reported)
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

// stop writes what is waiting, as far as that is quick.
func (r *reporter) stop() {
	close(r.quit)
	limit := time.NewTimer(reportFinish)
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

// write sends what is waiting.
func (r *reporter) write() {
	r.mu.Lock()
	now := r.waiting
	r.waiting, r.n = make(map[lease.Ref][]lease.Reported), 0
	r.mu.Unlock()
	for ref, all := range now {
		for some := range slices.Chunk(all, lease.MaxReports) {
			select {
			case r.places <- struct{}{}:
			case <-r.drop:
				return
			}
			r.leases.Report(ref, some, func(err error) {
				if err != nil {
					r.log.Debug("how activities ended was not noted", "of", ref.Instance, "activities", len(some), "error", err)
				}
				<-r.places
			})
		}
	}
}
