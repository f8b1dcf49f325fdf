// Package stack starts nats-server and the fleets' binaries, for tests, as processes of
// their own that can be killed, paused and started again; for Redis there is package
// redistest. Everything listens on loopback at a port that was free,
// keeps its data and its log in the test's own directory, is ended when the test
// ends, and shows its log if the test has failed.
package stack

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"
)

// pollEvery is how often Until asks.
const pollEvery = 5 * time.Millisecond

// Until asks until the answer is yes, and fails the test if it is not in time.
func Until(t testing.TB, limit time.Duration, what string, yes func() bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), limit)
	defer stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !yes() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("after %v still not: %s", limit, what)
		}
	}
}

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
