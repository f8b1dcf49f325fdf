package transport

import (
	"context"
	"testing"
)

// The server answers for a member whose connection has ended. Without an answer of the server the state of a member is unknown.
func TestMemberIsGoneWhenTheServerReportsNoListener(t *testing.T) {
	s := newHarness(t)
	c := s.open(Options{})
	const member = "host.name-1 *>"                                  // any name has an address
	gone := func() bool { return c.MemberGone(t.Context(), member) } // false if the server takes more than a second
	eventually(t, "it is gone before it listens", gone)
	other := s.open(Options{})
	var received int
	sub, err := other.ServeTurns(AddressOf(member), func(string, []byte) error { received++; return nil })
	ok(t, err)
	ok(t, other.nc.Flush())
	if c.MemberGone(t.Context(), member) {
		t.Error("gone although it listens")
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	if c.MemberGone(ctx, "another") {
		t.Error("gone without a reply of the server")
	}
	sub.Stop()
	if received > 0 {
		t.Errorf("%d probes were delivered as turns", received)
	}
	ok(t, other.nc.Flush())
	eventually(t, "it is gone after it has stopped", gone)
	sub, err = other.ServeTurns(AddressOf(member), func(string, []byte) error { return nil })
	stop(t, sub, err)
	ok(t, other.nc.Flush())
	other.nc.Close() // like the kernel after a process is killed
	eventually(t, "the server detects the end of its connection", gone)
	s.stop()
	if c.MemberGone(t.Context(), member) {
		t.Error("gone although the server is down")
	}
}
