package partition

import (
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
)

// The renewals of all partitions of a process are sent to Redis in few commands.
func TestRenewalsAreSentAsArrays(t *testing.T) {
	const partitions = 16
	rdb := redistest.Start(t).Client(t)
	run := redisx.NewRunner(rdb)
	defer run.Close()
	s := newScripts(run, redisx.NewSpace(redistest.Namespace()))
	var tenures []*Tenure
	for p := range partitions {
		got, _, err := s.tryAcquire(t.Context(), acquisition{part: p, of: partitions, token: "token", member: "member", ttl: time.Minute})
		if err != nil || got == nil {
			t.Fatal(got, err)
		}
		tenures = append(tenures, got)
	}
	answers := make(chan error, 2+partitions)
	renew := func(of *Tenure) { s.renewTenure(of, time.Minute, func(err error) { answers <- err }) }
	held := redistest.Hold(rdb)
	for range 2 { // the number of commands that are outstanding at a time
		renew(tenures[0])
		<-held.Began()
	}
	for _, of := range tenures {
		renew(of)
	}
	held.Release()
	for range 2 + partitions {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	if n := held.Commands(); n >= partitions { // some of them load scripts, and repeat calls whose script was missing
		t.Errorf("%d commands for %d calls", n, partitions)
	}
}
