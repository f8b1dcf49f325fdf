package store_test

import (
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/store"
)

// The due reads of all partitions of a process, every second, and the reconciliations of many instances take few commands of Redis.
func TestDueReadsAndReconciliationsAreJoinedAsArrays(t *testing.T) {
	const partitions = 16
	rdb := redistest.Start(t).Client(t)
	space := redisx.NewSpace(redistest.Namespace())
	for p := range partitions {
		until := time.Now().Add(time.Hour).UnixMilli()
		if err := rdb.HSet(t.Context(), space.Part(p).Owner(), "owner", "t", "until", until, "span", time.Hour.Milliseconds()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	run := redisx.NewRunner(rdb)
	defer run.Close()
	st := store.New(run, space)
	answers := make(chan error, 3*partitions)
	due := func(p int) {
		st.Due(store.Tenure{Part: p, Token: "t"}, 8, func(_ record.DueSet, err error) { answers <- err })
	}
	held := redistest.Hold(rdb)
	for p := range 2 { // the number of outstanding calls
		due(p)
		<-held.Began()
	}
	for p := range partitions {
		due(p)
		st.Reconcile(store.Tenure{Part: p, Token: "t"}, &record.Reconciliation{Instance: "i", Execution: 1}, func(_ record.Reconciled, err error) { answers <- err })
	}
	held.Release()
	for range 2 + 2*partitions {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	if n := held.Commands(); n >= partitions { // includes loading scripts, and repeating the call that found one missing
		t.Errorf("%d commands for %d calls", n, 2*partitions)
	}
}
