package exec

import (
	"os"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return nil }

// terminateGroup kills the program: one without a console cannot be signalled.
func terminateGroup(p *os.Process) { _ = p.Kill() }

func killGroup(p *os.Process) { _ = p.Kill() }

func groupAlive(*os.Process) bool { return false }

func signalOf(*os.ProcessState) string { return "" }
