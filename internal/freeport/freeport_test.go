package freeport

import (
	"net"
	"strconv"
	"testing"
)

// What the kernel gives to others is no port of ours, no port is given twice, and one is free again after its test.
func TestPortBelongsToOneTestUntilItsEnd(t *testing.T) {
	t.Parallel()
	var ports []int
	t.Run("holder", func(t *testing.T) {
		given := map[int]bool{}
		for range 200 {
			port := Take(t)
			if given[port] || port < first || port > last {
				t.Fatalf("port %d: given before: %t", port, given[port])
			}
			given[port] = true
			ports = append(ports, port)
			if lock, err := reserve(file(t, port), port); err != nil || lock != nil {
				t.Fatalf("port %d is given again while its test runs (%v)", port, err)
			}
		}
	})
	for _, port := range ports[:3] {
		lock, err := reserve(file(t, port), port)
		if err != nil {
			t.Fatal(err)
		}
		if lock == nil {
			continue // a test of another process has taken it meanwhile
		}
		_ = lock.Close()
	}
}

// A port on which a foreign process listens is not given.
func TestPortWithListenerIsNotGiven(t *testing.T) {
	t.Parallel()
	port := Take(t)
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if lock, err := reserve(t.TempDir()+"/lock", port); err != nil || lock != nil {
		t.Fatalf("given although it has a listener (%v)", err)
	}
}
