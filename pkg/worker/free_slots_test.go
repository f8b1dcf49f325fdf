package worker

import (
	"testing"

	"pgregory.net/rapid"
)

// In every sequence of events, the slots of a queue are neither lost nor multiplied, and tasks of either kind can use all of them.
func TestEveryFreeSlotIsRequestedOrKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "slots")
		var s freeSlots
		requested, busy := s.divide(n, rapid.Bool().Draw(t, "local")), 0
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 2).Draw(t, "step"); {
			case step == 0 && requested > 0:
				requested += s.delivered() - 1
				busy++
			case step == 1 && s.reserve():
				busy++
			case step == 2 && busy > 0:
				requested += s.freed()
				busy--
			}
			if requested != s.requested || requested+s.kept+busy != n || s.kept < 0 || requested < 0 {
				t.Fatalf("%d slots: %d requested (%d), %d kept, %d busy", n, requested, s.requested, s.kept, busy)
			}
			if free := n - busy; free > 0 && requested == 0 {
				t.Fatalf("%d of %d slots are free, and none is requested from NATS", free, n)
			}
		}
	})
}
