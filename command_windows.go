package pawl

import (
	"os"
	"syscall"
)

func groupOfItsOwn() *syscall.SysProcAttr { return nil }

// askGroup kills: a program without a console of its own can not be asked to end.
func askGroup(p *os.Process) { _ = p.Kill() }

func killGroup(p *os.Process) { _ = p.Kill() }

func groupLives(*os.Process) bool { return false }

func signalOf(*os.ProcessState) string { return "" }
