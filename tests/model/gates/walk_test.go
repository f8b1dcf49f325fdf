package gates

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/internal/memlimit"
	"github.com/pawlrun/pawl/tests/model/explore"
)

// walk takes random steps in the world of a setup, and returns what broke.
func walk(rt *rapid.T, setup *Setup, steps int) (string, []string) {
	return explore.Walk(NewWorld(setup), rapid.IntRange(1, steps).Draw(rt, "steps"), func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "step") })
}

// Faults of the stores come in walks of their own: while there are none, more is promised.
func TestRandomWalksWithEveryFaultBreakNoPromise(t *testing.T) {
	calm := Faults{Crashes: 2, Pauses: 1, Losses: 3, Lates: 2, Echoes: 2, Slow: 2, Unheard: 2, Otherwise: 1, Sweeps: 8, Asks: 6, Unlists: 2, Clears: 1, Ticks: 4, Fails: 2}
	stores := calm
	stores.Rollbacks, stores.Forgets = 2, 2
	for name, ps := range map[string][]Program{
		"one": {one(), one(), one()}, "two": {two(), one(), two()}, "chain": {chain(), one(), chain()}, "cross": {cross(), chain(), cross()},
		"kept": {kept(), one(), kept()}, "start": {start(), one(), start()}, "behind": {behind(), other(), behind()},
	} {
		for kind, faults := range map[string]Faults{"stores that keep": calm, "stores that forget": stores} {
			t.Run(name+", "+kind, func(t *testing.T) {
				rapid.Check(t, func(rt *rapid.T) {
					s := setup(memlimit.None, faults, []int{1}, ps...)
					s.Policy.Concurrency = rapid.IntRange(1, 2).Draw(rt, "concurrency")
					s.Policy.QueueLimit = rapid.IntRange(0, 2).Draw(rt, "queue limit")
					s.Policy.QueueTimeout = rapid.SampledFrom([]int64{-1, -1, 2 * tick}).Draw(rt, "queue timeout")
					if rapid.IntRange(1, 4).Draw(rt, "a rate") == 1 {
						s.Policy.Rate, s.Policy.RateWindow = 1, 2*tick
					}
					if broken, trace := walk(rt, s, 150); broken != "" {
						rt.Fatalf("%s:\n  %s", broken, strings.Join(trace, "\n  "))
					}
				})
			})
		}
	}
}
