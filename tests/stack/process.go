package stack

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/redistest"
)

// Process is a child process. The output of all its runs is written to one file.
type Process struct {
	t    testing.TB
	name string
	path string
	args []string
	env  []string
	log  string

	mu   sync.Mutex
	from int64 // length of the log at the last Start
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error
}

// stopWithin is the maximum time in which a process ends after SIGTERM, which includes its drain.
const stopWithin = 60 * time.Second

// NewProcess prepares a process, which is started by Start and killed at the end of the test.
func NewProcess(t testing.TB, name, path string, args, env []string) *Process {
	t.Helper()
	p := &Process{t: t, name: name, path: path, args: args, env: env, log: filepath.Join(t.TempDir(), name+".log")}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, tail(p.Log()))
		}
	})
	return p
}

// Setenv adds an environment variable for the next Start.
func (p *Process) Setenv(variable string) { p.env = append(p.env, variable) }

// SetProgram changes the program for the next Start.
func (p *Process) SetProgram(path string) { p.path = path }

// Start starts the process, or restarts it after it has ended.
func (p *Process) Start() {
	p.t.Helper()
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	written, err := out.Stat()
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command(p.path, p.args...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = redistest.DieWithParent()
	if err := cmd.Start(); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd, p.done, p.err, p.from = cmd, make(chan struct{}), nil, written.Size()
	go func(done chan struct{}) {
		err := cmd.Wait()
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		close(done)
	}(p.done)
}

// Ended returns a channel that is closed when the process has ended; nil before the first Start.
func (p *Process) Ended() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// Kill sends SIGKILL and waits for the end of the process. It does nothing if the process is not running.
func (p *Process) Kill() {
	if p.Ended() == nil {
		return
	}
	p.Signal(syscall.SIGKILL)
	<-p.Ended()
}

// Stop sends SIGTERM, and fails the test unless the process exits successfully.
func (p *Process) Stop() {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	p.Stopped()
}

// Stopped waits for the end of a process that has received SIGTERM, with the checks of Stop.
func (p *Process) Stopped() {
	p.t.Helper()
	timeout := time.NewTimer(stopWithin)
	defer timeout.Stop()
	select {
	case <-p.Ended():
	case <-timeout.C:
		p.t.Fatalf("%s has not ended %v after SIGTERM", p.name, stopWithin)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		p.t.Fatalf("%s ended after SIGTERM with %v", p.name, p.err)
	}
}

// Signal sends a signal, such as SIGSTOP to pause the process and SIGCONT to resume it.
func (p *Process) Signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("%s: %v: %v", p.name, s, err)
	}
}

// Name returns the name of the process.
func (p *Process) Name() string { return p.name }

// Pid returns the process id.
func (p *Process) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Pid
}

// Paused reports whether the process is stopped by a signal.
func (p *Process) Paused() bool {
	state := p.stat()[0]
	return state == "T" || state == "t"
}

// clockTick is the unit of times in /proc, which is the same on all architectures on which Linux runs Go.
const clockTick = 10 * time.Millisecond

// CPU returns the CPU time that the process has used.
func (p *Process) CPU() time.Duration {
	p.t.Helper()
	var sum time.Duration
	for _, field := range p.stat()[11:13] { // user mode and kernel mode
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			p.t.Fatalf("%s: processor time: %v", p.name, err)
		}
		sum += time.Duration(n) * clockTick
	}
	return sum
}

// stat returns the fields of /proc/<pid>/stat, beginning with the state. All are empty if the process has ended.
func (p *Process) stat() []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid()))
	_, rest, ok := bytes.Cut(b, []byte(") "))
	if err != nil || !ok {
		return make([]string, 50)
	}
	return strings.Fields(string(rest))
}

// Log returns the output of the process.
func (p *Process) Log() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Started reports whether the process has logged since its last Start that it has started. Before that, SIGTERM may end it
// with the default action.
func (p *Process) Started() bool {
	p.mu.Lock()
	from := p.from
	p.mu.Unlock()
	log := p.Log()
	if int64(len(log)) <= from {
		return false
	}
	log = log[from:]
	return strings.Contains(log, "msg=started") || strings.Contains(log, "INFO started\n") // with a text handler, and with the default one of members
}

func tail(s string) string {
	const maxTail = 8000
	if len(s) > maxTail {
		return "…" + s[len(s)-maxTail:]
	}
	return s
}
