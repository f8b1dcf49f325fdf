// Package poll lets tests wait for conditions that can only be observed from outside. If there is a signal, a test waits for
// the signal instead.
package poll

import (
	"testing"
	"time"
)

// The interval between two checks grows with the wait, because a check may cost a request to a fleet, and many tests wait at the same time.
const (
	minInterval = 5 * time.Millisecond
	maxInterval = 40 * time.Millisecond
)

// Until checks a condition until it holds, and fails the test if it does not hold within the limit. what names the condition.
func Until(tb testing.TB, limit time.Duration, what string, holds func() bool) {
	tb.Helper()
	begun := time.Now()
	next := time.NewTimer(0)
	defer next.Stop()
	for checked := begun; !holds(); checked = time.Now() {
		waited := time.Since(begun)
		if waited > limit {
			tb.Fatalf("not within %v: %s", limit, what)
		}
		cost := time.Since(checked) // an expensive check waits three times as long as it takes
		next.Reset(min(max(waited/10, 3*cost, minInterval), maxInterval, limit-waited+time.Millisecond))
		<-next.C
	}
}
