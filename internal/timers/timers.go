// Package timers lets an idle process sleep: a wakeup of a process usually costs more than the work for which it wakes up.
//
//   - Periodic work runs at multiples of its interval (Until), so that all periodic work shares one wakeup.
//   - Work that must be watched only while it is outstanding is watched with a Ticker, which rests otherwise.
package timers

import (
	"sync/atomic"
	"time"
)

// Until returns how long it is until the next multiple of d, by the clock of the machine. It is in (0, d].
func Until(d time.Duration) time.Duration { return d - time.Duration(time.Now().UnixNano())%d }

// Ticker ticks at an interval while it is required, and rests otherwise:
//
//	        Require                   the interval is over
//	resting ───────▶ required ──────────────────────────────▶ C ──Received──▶ resting
//
// One goroutine receives the ticks. It calls Received before it checks the work that it watches, and Require if there is work left, so that
// work that begins in the meantime is not missed.
type Ticker struct {
	C <-chan time.Time

	interval time.Duration
	timer    *time.Timer
	required atomic.Bool
}

// NewTicker returns a Ticker that rests.
func NewTicker(interval time.Duration) *Ticker {
	t := time.NewTimer(interval)
	t.Stop()
	return &Ticker{C: t.C, interval: interval, timer: t}
}

// Require causes a tick within the interval. It costs one atomic read while a tick is due, and may be called by any goroutine.
func (t *Ticker) Require() {
	if !t.required.Load() && t.required.CompareAndSwap(false, true) {
		t.timer.Reset(t.interval)
	}
}

// Received makes the Ticker rest until Require is called. It must be called once per tick.
func (t *Ticker) Received() { t.required.Store(false) }

// Stop releases the timer. Require must not be called afterwards.
func (t *Ticker) Stop() { t.timer.Stop() }
