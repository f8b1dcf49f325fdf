package queue

import (
	"context"
	"testing"
)

// The server answers for a member whose connection has ended. Without an answer of the server the state of a member is unknown.
func TestMemberIsGoneWhenTheServerReportsNoListener(t *testing.T) {
	s := newStand(t)
	c := s.open(Options{})
	const member = "host.name-1 *>" // any name has an address
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
	other.nc.Close() // like the kernel after a process is killed
	eventually(t, "the server has seen the end of its connection", func() bool { return c.MemberGone(t.Context(), member) })
	s.stop()
	if c.MemberGone(t.Context(), member) {
		t.Error("the server has not answered")
	}
}
