package embedded

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

func lockFile(f *os.File) error {
	// The locked byte is after the content, so that other processes can read the content.
	at := &windows.Overlapped{OffsetHigh: 1}
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at)
}

// childAttr prevents a Ctrl-C at the console from reaching the child.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

func terminate(p *os.Process) error { return p.Kill() }

// extraFiles returns nil, because a child cannot share a lock on Windows.
func extraFiles(*os.File) []*os.File { return nil }
