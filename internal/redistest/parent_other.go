//go:build !linux

package redistest

import "syscall"

// DieWithParent is supported on Linux only. On other systems the servers of a killed test keep running.
func DieWithParent() *syscall.SysProcAttr { return nil }
