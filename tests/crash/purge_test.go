package crash

import (
	"errors"
	"fmt"
	"testing"

	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/tests/crash/work"
)

// The orchestrator dies after it has purged and before it has replied, and then Redis loses the purges, which are still in
// the stream. No purged instance returns, and each id can be used again.
func TestPurgedInstancesStayPurgedAfterCrashAndRollback(t *testing.T) {
	t.Parallel()
	f := newFamily(t, startDurableServers(t), "PAWL_RECONCILE_INTERVAL=500ms", "FLEET_OWNER_TTL=600ms")
	f.restartsDead = true
	f.process("orchestrator", "orchestrator", "PAWL_FAILPOINT=orchestrator.purged:2")
	f.worker("worker")
	f.join()
	const n = 5
	id := func(i int) string { return fmt.Sprintf("echo-%d", i) }
	run := func() {
		for i := range n {
			_, err := client.Start(f.ctx, f.Client, work.Echo, id(i), i)
			f.must(err)
		}
		for i := range n {
			f.untilEnded(id(i))
		}
	}
	purged := func() bool {
		all, err := f.instances()
		return err == nil && len(all) == 0
	}
	run()
	f.settled()
	kept := f.keep(f.redis)
	answers := make(chan error, n)
	for i := range n {
		go func() { answers <- f.Client.Purge(f.ctx, id(i)) }()
	}
	f.until("all are purged, and the clients have a reply", func() bool { return len(answers) == n && purged() })
	for range n {
		if err := <-answers; err != nil && !errors.Is(err, client.ErrNotFound) { // the instance had been purged before an owner could reply
			t.Error(err)
		}
	}
	f.restore(f.redis, kept)
	f.until("all are purged again", purged)
	if f.deaths == 0 {
		t.Error("no process has died")
	}
	run()
	f.check()
	f.show(id(0))
}
