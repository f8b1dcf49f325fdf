package freeport

import (
	"net"
	"strconv"
	"testing"
)

// Ports are outside the range of the kernel, no port is reserved twice, and a port is free again after its test.
func TestPortBelongsToOneTestUntilItsEnd(t *testing.T) {
	t.Parallel()
	var ports []int
	t.Run("holder", func(t *testing.T) {
		taken := map[int]bool{}
		for range 200 {
			port := Take(t)
			if taken[port] || port < first || port > last {
				t.Fatalf("port %d: taken before: %t", port, taken[port])
			}
			taken[port] = true
			ports = append(ports, port)
			if lock, err := reserve(file(t, port), port); err != nil || lock != nil {
				t.Fatalf("port %d is reserved again while its test runs (%v)", port, err)
			}
		}
	})
	for _, port := range ports[:3] {
		lock, err := reserve(file(t, port), port)
		if err != nil {
			t.Fatal(err)
		}
		if lock == nil {
			continue // a test of another process has reserved it in the meantime
		}
		_ = lock.Close()
	}
}

// A port on which another process listens is not reserved.
func TestPortWithListenerIsNotGiven(t *testing.T) {
	t.Parallel()
	port := Take(t)
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if lock, err := reserve(t.TempDir()+"/lock", port); err != nil || lock != nil {
		t.Fatalf("reserved although it has a listener (%v)", err)
	}
}
