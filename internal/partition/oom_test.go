package partition_test

import (
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redistest"
)

func TestOutOfMemoryPartitionsAreRenewedAndHandedOver(t *testing.T) {
	s := redistest.Start(t)
	f := newFleet(t, s.Client(t))
	a := f.member("a", time.Second)
	f.until("a owns all", f.sharedBy("a"))
	before := f.tenures()
	s.OutOfMemory(t)
	twice := time.NewTimer(2 * time.Second) // twice the TTL of a tenure
	<-twice.C
	for p, now := range f.tenures() {
		if now != before[p] {
			t.Errorf("partition %d was lost", p)
		}
	}
	f.member("b", time.Second)
	f.until("a and b share", f.sharedBy("a", "b"))
	if err := a.Stop(f.ctx()); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, time.Minute, "b owns all", f.sharedBy("b"))
}
