//go:build failpoint

// Package failpoint marks the places where tests stop the world.
//
// PAWL_FAILPOINT=name[:n[:what]] chooses one: at the n-th pass (default 1) the process
// does `what`: kill (default; SIGKILL to itself: no deferred call, no flush) or stop (SIGSTOP, until
// a signal continues it). PAWL_FAILPOINT_FILE, if set, is created just before, and where it
// exists already nothing happens: a restarted process does not die again.
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

// Here stops the world if this is the chosen crash point.
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
		select {} // the signal is in transit
	}
}

// Illegal stops the process: its state machine has made a transition that it must not make.
func Illegal(err error) { panic(err) }
