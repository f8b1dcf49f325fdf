// Package freeport reserves ports for the servers of tests.
//
// If a test lets the kernel pick a port for a listener and closes the listener before its server binds the port, the port may be taken in
// the meantime: by an outgoing connection, by a server of another test process, or by the next such call. The test then talks to the
// wrong server. The ports of this package are below the range from which the kernel picks, and are reserved for one test until it ends,
// so that a server can also be killed and restarted on its port.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// The ports from first to last are below the ephemeral ports of Linux (32768) and macOS (49152), and above those of well-known servers.
const (
	first = 20000
	last  = 32000
)

// Take returns a port of 127.0.0.1 on which no process listens, reserved until the end of tb. It is safe for concurrent use, also by
// several processes.
func Take(tb testing.TB) int {
	tb.Helper()
	n := last - first + 1
	start := rand.IntN(n)
	for i := range n {
		port := first + (start+i)%n
		lock, err := reserve(file(tb, port), port)
		if err != nil {
			tb.Fatalf("reserve port %d: %v", port, err)
		}
		if lock != nil {
			tb.Cleanup(func() { _ = lock.Close() })
			return port
		}
	}
	tb.Fatalf("every port from %d to %d is in use", first, last)
	return 0
}

// file returns the path of the lock file of a port, which is the same for all processes of this user.
func file(tb testing.TB, port int) string {
	tb.Helper()
	dir := filepath.Join(os.TempDir(), "pawl-ports-"+strconv.Itoa(os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		tb.Fatal(err)
	}
	return filepath.Join(dir, strconv.Itoa(port))
}

// reserve returns the locked file of a port, or nil if another test has reserved the port or a process listens on it. The lock ends with
// the process at the latest.
func reserve(path string, port int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, nil //nolint:nilnil // a reserved port is not an error
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))) //nolint:noctx // closed at once
	if err != nil {
		_ = f.Close()
		return nil, nil //nolint:nilnil,nilerr // another process listens
	}
	_ = l.Close()
	return f, nil
}
