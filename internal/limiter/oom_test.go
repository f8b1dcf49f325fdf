package limiter_test

import (
	"testing"

	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
)

func TestOutOfMemoryLimitKeepsOrderAndSlots(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	run := redisx.NewRunner(rdb)
	defer run.Close()
	b := newHarness(t, rdb, run)
	defer b.check()
	b.policy(concurrency(1))
	b.want("the entries", formatVerdicts(b.enter("a", "b")), "admitted, 1")
	s.OutOfMemory(t)
	b.want("the entries", formatVerdicts(b.enter("c")), "2")
	b.want("the admitted", memberNames(b.leave("a").Granted), "b")
	b.sweep(&b.force)
	b.want("the waiters", b.waiters(), "c")
}
