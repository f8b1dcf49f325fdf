package queue

import (
	"context"
	"testing"
)

// The server answers for a member whose connection has ended. Of one that it cannot be asked about nothing is known.
func TestMemberIsGoneWhenTheServerReportsNoListener(t *testing.T) {
	s := newStand(t)
	c := s.open(Options{})
	const member = "host.name-1 *>" // any name is an address
	if !c.MemberGone(t.Context(), member) {
		t.Error("nothing listens yet")
	}
	other := s.open(Options{})
	var received int
	sub, err := other.ServeTurns(AddressOf(member), func(string, []byte) error { received++; return nil })
	ok(t, err)
	ok(t, other.nc.Flush())
	if c.MemberGone(t.Context(), member) {
		t.Error("it listens")
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	if c.MemberGone(ctx, "another") {
		t.Error("there was no time for an answer")
	}
	sub.Stop()
	if received > 0 {
		t.Errorf("%d questions are taken for turns", received)
	}
	ok(t, other.nc.Flush())
	if !c.MemberGone(t.Context(), member) {
		t.Error("it has left")
	}
	sub, err = other.ServeTurns(AddressOf(member), func(string, []byte) error { return nil })
	stop(t, sub, err)
	ok(t, other.nc.Flush())
	other.nc.Close() // as the kernel does for a process that was killed
	eventually(t, "the server has seen the end of its connection", func() bool { return c.MemberGone(t.Context(), member) })
	s.stop()
	if c.MemberGone(t.Context(), member) {
		t.Error("the server has not answered")
	}
}
