package redistest

import "syscall"

// DieWithParent makes the kernel kill a server whose test process was killed before it could clean up.
func DieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
