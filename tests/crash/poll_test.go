package crash

import (
	"context"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/tests/crash/work"
)

// A poll over a backlog of many turns stays pending across their commits, and no history shows it. The owner dies between
// two of these turns.
func TestPollSeesWholeBacklogWhenOwnerDiesBetweenTurns(t *testing.T) {
	s := startServers(t)
	for _, point := range []string{"orchestrator.turned:3", "orchestrator.committed:4"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			a := newHarness(t, s)
			first := a.orchestrator("first")
			a.join()
			const n = 1100 // a turn takes at most 255
			var sending errgroup.Group
			sending.SetLimit(50)
			for i := range n {
				sending.Go(func() error { return client.Send(a.ctx, a.Client, work.Go, "drain", i) })
			}
			a.must(sending.Wait())
			first.Kill()
			victim := a.orchestrator("victim", "PAWL_FAILPOINT="+point, "PAWL_FAILPOINT_FILE="+filepath.Join(t.TempDir(), "passed"))
			run, err := client.Start(a.ctx, a.Client, work.Drain, "drain", pawl.None{})
			if err != nil {
				t.Fatal(err)
			}
			died(t, victim)
			victim.Start()
			ctx, stop := context.WithTimeout(a.ctx, within)
			defer stop()
			if got, err := run.Result(ctx); err != nil || got != n {
				t.Errorf("%d of %d events received, %v", got, n, err)
			}
			a.check()
		})
	}
}
