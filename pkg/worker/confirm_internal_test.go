package worker

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/leases"
)

func acked(n, size int) leases.Completion {
	return leases.Completion{Claim: leases.Claim{Token: fmt.Sprint("t", n)}, Body: make([]byte, size)}
}

func TestAcksAreBoundedByNumberBytesAndAge(t *testing.T) {
	var a acks
	for n := range maxAcks + 10 {
		a.add(acked(n, 1), time.Hour)
	}
	got := a.byToken()
	if _, first := got["t9"]; len(got) != maxAcks || first || a.bytes != maxAcks {
		t.Errorf("%d completions of %d bytes are kept, including the tenth: %v", len(got), a.bytes, first)
	}
	if _, last := got[fmt.Sprint("t", maxAcks+9)]; !last {
		t.Error("the latest completion is not kept")
	}
	a = acks{}
	for n := range 20 {
		a.add(acked(n, 1<<20), time.Hour)
	}
	if a.bytes > maxAckBytes || len(a.byToken()) != maxAckBytes>>20 {
		t.Errorf("%d bytes are kept, in %d", a.bytes, len(a.byToken()))
	}
	a.add(acked(20, 2*maxAckBytes), time.Hour) // a single completion is kept, whatever its size
	if len(a.byToken()) != 1 {
		t.Errorf("%d are kept", len(a.byToken()))
	}
	a = acks{}
	a.add(acked(0, 1), -time.Second)
	a.add(acked(1, 1), time.Hour)
	if _, old := a.byToken()["t0"]; old {
		t.Error("an expired completion is kept")
	}
}
