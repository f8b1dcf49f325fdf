// Package stack starts nats-server and the fleets' binaries, for tests, as processes of
// their own that can be killed, paused and started again; for Redis there is package
// redistest. Everything listens on loopback at a port that was free,
// keeps its data and its log in the test's own directory, is ended when the test
// ends, and shows its log if the test has failed.
package stack

import (
	"net"
	"strconv"
	"testing"
)

// freePort gives a port of loopback that nobody listened at a moment ago.
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
