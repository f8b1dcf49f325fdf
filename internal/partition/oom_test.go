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
	a := f.member("a", stallTTL)
	f.until("a owns all", f.sharedBy("a"))
	before := f.tenures()
	s.OutOfMemory(t)
	until := f.expiries()
	f.until("all are renewed", func() bool {
		for p, now := range f.expiries() {
			if now == until[p] {
				return false
			}
		}
		return true
	})
	for p, now := range f.tenures() {
		if now != before[p] {
			t.Errorf("partition %d was lost", p)
		}
	}
	f.member("b", stallTTL)
	f.until("a and b share", f.sharedBy("a", "b"))
	if err := a.Stop(f.ctx()); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, time.Minute, "b owns all", f.sharedBy("b"))
}

// expiries returns the times at which the partitions are free unless they are renewed.
func (f *fleet) expiries() (all [parts]string) {
	f.t.Helper()
	for p := range all {
		var err error
		if all[p], err = f.rdb.HGet(f.ctx(), f.ns.Part(p).Owner(), "until").Result(); err != nil {
			f.t.Fatal(err)
		}
	}
	return all
}
