//go:build unix

package pawl

import (
	"errors"
	"os"
	"syscall"
)

// The group has the number of the program that began it. The kernel gives that number to
// nobody else while the group has a member; and within the moment between the end of the
// last one and the signal all numbers would have to be used up once.

func askGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }

func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

// groupLives reports whether the group of a program that has ended still has members.
func groupLives(p *os.Process) bool {
	// Where this process is the init of a container, orphans are its own to bury.
	for {
		pid, err := syscall.Wait4(-p.Pid, nil, syscall.WNOHANG, nil)
		if pid > 0 || errors.Is(err, syscall.EINTR) {
			continue
		}
		break
	}
	return !errors.Is(syscall.Kill(-p.Pid, 0), syscall.ESRCH) && anyAlive(p.Pid)
}

func signalOf(s *os.ProcessState) string {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return w.Signal().String()
	}
	return ""
}
