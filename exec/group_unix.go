//go:build unix

package exec

import (
	"errors"
	"os"
	"syscall"
)

// The id of a group is the process id of its first process. The kernel does not reuse that id while the group has a member; between the
// end of the last member and the signal, all ids would have to be used once.

func terminateGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }

func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

// groupAlive reports whether the group still has members after its first process has ended.
func groupAlive(p *os.Process) bool {
	// If this process is the init process of a container, it must reap the orphans.
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
