package embedded

import "syscall"

// childAttr puts the child into its own process group, so that a Ctrl-C at the terminal
// reaches it only through Stop, and has the kernel kill it when the thread that started
// it ends. Redis hands its AOF to the kernel before it answers: the kill loses nothing
// that was acknowledged.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
