//go:build !linux

package redistest

import "syscall"

// DieWithParent is known to Linux only; elsewhere a killed test leaves its servers behind.
func DieWithParent() *syscall.SysProcAttr { return nil }
