// Package stack starts nats-server and the binaries of fleets, for tests, as processes that can be killed, paused and started
// again; package redistest does so for Redis. Everything listens on loopback at a port that was free, keeps its data and its log in
// the test's directory, is stopped at the end of the test, and shows its log if the test has failed.
package stack

import (
	"net"
	"strconv"
	"testing"
)

// freePort returns a port of loopback that was free a moment ago.
func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // of a TCP listener
}

func local(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }
