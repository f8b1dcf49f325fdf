//go:build failpoint

// Package failpoint marks the points at which tests kill or stop a process.
//
// PAWL_FAILPOINT=name[:n[:what]] selects one. When the process passes it for the n-th time (default 1), it
// sends itself a signal: SIGKILL if what is kill (default), without deferred calls or flushes, or SIGSTOP if what is stop,
// until another signal continues it. PAWL_FAILPOINT_FILE, if set, is created before. If the file
// exists, nothing happens, so that a restarted process is not killed again.
package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

type point struct {
	name string
	at   int64
	sig  syscall.Signal
	file string
	hits atomic.Int64
}

var chosen = parse(os.Getenv("PAWL_FAILPOINT"), os.Getenv("PAWL_FAILPOINT_FILE"))

func parse(spec, file string) *point {
	if spec == "" {
		return nil
	}
	parts := strings.Split(spec, ":")
	p := &point{name: parts[0], at: 1, sig: syscall.SIGKILL, file: file}
	if len(parts) > 1 {
		if n, err := strconv.ParseInt(parts[1], 10, 64); err == nil {
			p.at = n
		}
	}
	if len(parts) > 2 && parts[2] == "stop" {
		p.sig = syscall.SIGSTOP
	}
	return p
}

// Here kills or stops the process if this is the selected crash point.
func Here(name string) {
	p := chosen
	if p == nil || p.name != name || p.hits.Add(1) != p.at {
		return
	}
	if p.file != "" {
		f, err := os.OpenFile(p.file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return
		}
		_ = f.Close()
	}
	_ = syscall.Kill(os.Getpid(), p.sig)
	if p.sig == syscall.SIGKILL {
		select {} // until the signal is delivered
	}
}

// Illegal panics, because a state machine has made an illegal transition.
func Illegal(err error) { panic(err) }
