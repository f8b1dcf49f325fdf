package embedded

import "syscall"

// childAttr puts the child into its own process group, so that a Ctrl-C at the terminal reaches it only through Stop, and makes the
// kernel kill it when the thread that started it ends. Redis writes its AOF to the kernel before it replies, so the kill loses no
// acknowledged write.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
