//go:build unix

package embedded

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func lockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }

// extraFiles passes the locked file to the child, and with it the lock.
func extraFiles(f *os.File) []*os.File { return []*os.File{f} }
