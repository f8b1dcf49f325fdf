package embedded

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

func lockFile(f *os.File) error {
	// The locked byte lies behind the content, which others may then still read.
	at := &windows.Overlapped{OffsetHigh: 1}
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at)
}

// childAttr keeps a Ctrl-C at the console away from the child.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

func terminate(p *os.Process) error { return p.Kill() }

// inherited is nothing: a child cannot share a lock here.
func inherited(*os.File) []*os.File { return nil }
