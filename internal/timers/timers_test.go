package timers

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestIntervalsEndTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(123456789) // of the bubble: to a moment between two multiples
		for _, d := range []time.Duration{time.Second, time.Second / 2, 3 * time.Second} {
			left := Until(d)
			if end := time.Now().Add(left); left <= 0 || left > d || end.UnixNano()%int64(d) != 0 {
				t.Errorf("an interval of %v ends after %v, at %v", d, left, end)
			}
		}
		<-time.After(Until(time.Second))
		if left := Until(time.Second); left != time.Second {
			t.Errorf("at a multiple the next one is %v away", left)
		}
	})
}

// A Ticker never ticks unless it is required, and ticks again if it is required while a tick is handled.
func TestTickerTicksOnlyWhileItIsRequired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = time.Second
		ticks := NewTicker(interval)
		defer ticks.Stop()
		rests := func(when string) {
			t.Helper()
			select {
			case <-ticks.C:
				t.Errorf("it ticks %s", when)
			case <-time.After(10 * interval):
			}
		}
		rests("before it is required")
		begun := time.Now()
		ticks.Require()
		ticks.Require()
		<-ticks.C
		if took := time.Since(begun); took != interval {
			t.Errorf("it ticks after %v", took)
		}
		ticks.Received()
		ticks.Require() // by the goroutine that handles the tick, or by work that begins in the meantime
		<-ticks.C
		ticks.Received()
		rests("behind what it was required for")
	})
}
