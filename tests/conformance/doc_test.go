// Package conformance runs the scripts of Pawl next to their model (package memstore): both receive the same random calls, and the
// replies are compared, and after each call every key of the partition. The stores are miniredis, a redis-server and a one-node
// Redis Cluster.
//
// The calls are those that owners and workers may send, and some that they must not: old tokens, stale heads, ids that are not at the
// head of the inbox, and duplicates that arrive immediately or much later. Between calls the store may be rolled back to an earlier
// copy, and time may advance or step back: the stored times are shifted, in Redis and in the model, because a test should not wait, and
// the clock of Redis cannot be set.
//
// The scripts of a limit run next to package memlimit in the same way: see limit_test.go.
package conformance

import (
	"flag"
	"maps"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/internal/memstore"
	"github.com/pawlrun/pawl/internal/redistest"
)

// TestMain sets the number of checks; the flags of rapid take precedence.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.checks": "45", "rapid.steps": "60", "rapid.nofailfile": "true", "rapid.shrinktime": "10s"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	redistest.Main(m)
}

func TestScriptsMatchModelOnMiniredis(t *testing.T) {
	_, rdb := redistest.MiniClient(t)
	conform(t, rdb)
}

func TestScriptsMatchModelOnRedis(t *testing.T) {
	conform(t, redistest.Start(t).Client(t))
}

func TestScriptsMatchModelOnCluster(t *testing.T) {
	conform(t, redistest.Cluster(t).Client(t))
}

func conform(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		r := newHarness(rt, rdb, n)
		defer r.close()
		rt.Repeat((&machine{harness: r}).actions())
	})
}

// The suite must be able to fail: it detects every mistake that is planted into the model.
func TestModelMistakesAreDetected(t *testing.T) {
	_, rdb := redistest.MiniClient(t)
	n := 0
	first := map[memstore.Mistake]int{ // seeds that reveal rare mistakes early
		memstore.AckOfNothing: 42, memstore.RequeueUnseen: 311, memstore.DeferStarted: 65, memstore.PurgeLeavesStart: 184, memstore.FullStart: 171, memstore.PopByCount: 5,
		memstore.NoPreviousPosition: 5, memstore.BlindRescore: 7, memstore.CancelBeforeCreate: 4, memstore.AckAfterExpiry: 15, memstore.NoApplied: 9,
		memstore.EffectIgnored: 37, memstore.AckWithoutWakeup: 15, memstore.FrontTwice: 29, memstore.NoPrune: 98, memstore.IncarnationKeepsEnd: 31, memstore.SentBlind: 45,
		memstore.PurgeBlind: 25, memstore.PurgeDropsRest: 10, memstore.PurgeLeavesPast: 11, memstore.PurgeLeavesReports: 67, memstore.PurgeDropsIDs: 10,
		memstore.PurgeUnseen: 10, memstore.DueUnseen: 65, memstore.AppliedUnseen: 18, memstore.RewindUnread: 113, memstore.RewindForgetful: 71, memstore.RewindKeepsLeases: 20,
		memstore.RewindKeepsEnd: 11, memstore.ClaimHeld: 10, memstore.NoRepeats: 5,
	}
	for _, wrong := range memstore.Mistakes() {
		t.Run(string(wrong), func(t *testing.T) {
			hunt := rapid.Custom(func(rt *rapid.T) string {
				n++
				r := newHarness(rt, rdb, n)
				defer r.close()
				r.hunt, r.model.Rules.Wrong = true, wrong
				actions := (&machine{harness: r}).actions()
				if !ofRepairs(wrong) { // the seeds above are for the other mistakes
					delete(actions, "rewind")
					delete(actions, "owner reconciles a paused instance")
				}
				names := slices.Sorted(maps.Keys(actions))
				for i := 0; i < 80 && r.found == ""; i++ {
					actions[rapid.SampledFrom(names).Draw(rt, "action")](rt)
				}
				return r.found
			})
			for run := range 300 {
				if found := hunt.Example(first[wrong] + run); found != "" {
					t.Logf("after %d runs: %s", run, found)
					return
				}
			}
			t.Fatal("the mistake was not detected")
		})
	}
}
