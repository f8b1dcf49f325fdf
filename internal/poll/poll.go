// Package poll is how tests wait for what can only be seen from outside. Where there is a
// signal, a test waits for that.
package poll

import (
	"testing"
	"time"
)

const every = 5 * time.Millisecond

// Until asks until the answer is yes, and fails the test if it is not within the limit.
// what names the condition.
func Until(tb testing.TB, limit time.Duration, what string, yes func() bool) {
	tb.Helper()
	deadline, tick := time.NewTimer(limit), time.NewTicker(every)
	defer deadline.Stop()
	defer tick.Stop()
	for !yes() {
		select {
		case <-tick.C:
		case <-deadline.C:
			tb.Fatalf("not within %v: %s", limit, what)
		}
	}
}
