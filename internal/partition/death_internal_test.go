package partition

import (
	"errors"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
)

func TestOwnershipOfDeadMemberEndsIfItWasNotRenewed(t *testing.T) {
	const ttl = time.Hour
	rdb := redistest.Start(t).Client(t)
	run := redisx.NewRunner(rdb)
	defer run.Close()
	s := newScripts(run, redisx.NewSpace(redistest.Namespace()))
	of, _, err := s.tryAcquire(t.Context(), acquisition{of: 1, token: "first", member: "a", ttl: ttl})
	if err != nil || of == nil {
		t.Fatal(of, err)
	}
	for _, a := range []acquisition{
		{member: "b"},
		{member: "b", dead: "c"},
		{member: "b", dead: "a", silent: time.Minute}, // it was renewed within the last minute
		{member: "a", silent: time.Minute},
	} {
		a.of, a.token, a.ttl = 1, "second", ttl
		if got, by, err := s.tryAcquire(t.Context(), a); err != nil || got != nil || by.member != "a" || by.remaining <= 0 || by.remaining > ttl {
			t.Errorf("%+v: %v, held by %+v, %v", a, got, by, err)
		}
	}
	next, by, err := s.tryAcquire(t.Context(), acquisition{of: 1, token: "second", member: "b", ttl: ttl, dead: "a"})
	if err != nil || next == nil || next.Clean || next.Epoch != of.Epoch+1 {
		t.Fatal(next, by, err)
	}
	renewed := make(chan error, 1)
	s.renewTenure(of, ttl, func(err error) { renewed <- err })
	if err := <-renewed; !errors.Is(err, ErrLost) {
		t.Errorf("the dead member renewed: %v", err)
	}
}

// While the number of partitions is changed, the owner of a partition is not a member.
func TestOwnershipWithoutAMemberIsNotAcquired(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	run := redisx.NewRunner(rdb)
	defer run.Close()
	s := newScripts(run, redisx.NewSpace(redistest.Namespace()))
	if of, _, err := s.tryAcquire(t.Context(), acquisition{of: 1, token: "first", ttl: time.Hour}); err != nil || of == nil {
		t.Fatal(of, err)
	}
	if of, _, err := s.tryAcquire(t.Context(), acquisition{of: 1, token: "second", member: "b", ttl: time.Hour}); err != nil || of != nil {
		t.Error(of, err)
	}
}
