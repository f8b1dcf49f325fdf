package redistest

import "syscall"

// DieWithParent makes the kernel end a server whose test process was killed and could not clean up.
func DieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
