//go:build unix && !linux

package embedded

import "syscall"

// childAttr puts the child into its own process group, so that a Ctrl-C at the terminal
// reaches it only through Stop.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
