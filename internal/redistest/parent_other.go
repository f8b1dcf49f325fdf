//go:build !linux

package redistest

import "syscall"

// dieWithParent is known to Linux only; elsewhere a killed test leaves its servers behind.
func dieWithParent() *syscall.SysProcAttr { return nil }
