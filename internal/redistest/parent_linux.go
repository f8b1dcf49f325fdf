package redistest

import "syscall"

// dieWithParent makes the kernel end a server whose test process was killed and could not clean up.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
