package crash

import (
	"testing"

	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/tests/crash/work"
)

// The parents' Redis loses the turns that started the children, and the activity that determines the children returns
// another value when it runs again. The children are therefore orphans, running or ended. Their ids must go to the children
// that their parents have now.
func TestOrphansOfLostTurnsReleaseTheirIDs(t *testing.T) {
	for _, c := range []struct {
		name  string
		ended bool // the orphans have ended, and their parents have received the results
	}{{"the orphans run", false}, {"the orphans have ended", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFamily(t, twoMasters(t), "PAWL_RECONCILE_INTERVAL=500ms")
			f.fleets()
			f.join()
			const n = 4
			child := func(i int) string { return f.at(children, "echo", i) }
			parent := func(i int) string { return f.at(parents, "random", i) }
			for i := range n {
				_, err := client.Start(f.ctx, f.Client, work.RandomParent, parent(i), child(i))
				f.must(err)
			}
			for i := range n {
				f.until(parent(i)+" waits", func() bool { return f.Record(parent(i)) != nil })
			}
			kept := f.keep(f.redis)
			for i := range n {
				f.must(client.Send(f.ctx, f.Client, work.Go, parent(i), i, client.MessageID("go")))
			}
			orphans := map[string]history.Position{}
			for i := range n {
				f.until(child(i)+" runs", func() bool {
					rec := f.Record(child(i))
					if rec != nil {
						orphans[child(i)] = rec.Origin
					}
					return rec != nil
				})
				if c.ended {
					f.untilEnded(parent(i))
				}
			}
			f.restore(f.redis, kept)
			for i := range n {
				f.untilEnded(parent(i))
			}
			all := f.settled()
			for i := range n {
				if e := all[child(i)]; e.rec.Execution != 2 || e.rec.Origin == orphans[child(i)] {
					t.Errorf("%s is the orphan: execution %d, origin %+v", child(i), e.rec.Execution, e.rec.Origin)
				}
				f.show(child(i))
			}
			f.check()
			f.describesNothingPending(all)
		})
	}
}
