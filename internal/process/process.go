// Package process runs this program in child processes with other arguments, for the demo and the benchmarks.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

const stopTimeout = 15 * time.Second // between the request to stop and the kill

// Process is a child process that runs this program.
// The child stops when its standard input is closed, by Stop or by the death of the parent.
type Process struct {
	Name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	exited chan struct{}
}

// Start starts a child that writes its output to log.
// The child is configured by args alone: it does not inherit PAWL_* variables.
func Start(name string, log io.Writer, args ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	p := &Process{Name: name, cmd: exec.Command(self, args...), exited: make(chan struct{})} //nolint:noctx // it ends with its standard input
	p.cmd.Stdout, p.cmd.Stderr = log, log
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PAWL_") {
			p.cmd.Env = append(p.cmd.Env, v)
		}
	}
	if os.Getenv("GOMAXPROCS") == "" {
		p.cmd.Env = append(p.cmd.Env, "GOMAXPROCS="+strconv.Itoa(CPUShare()))
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // State returns the result
	}()
	return p, nil
}

// CPUShare returns the GOMAXPROCS for a process that shares the machine with several others.
// If each process had threads for all cores, waking up threads would take a quarter of the time.
func CPUShare() int { return max(1, runtime.NumCPU()/4) }

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// State describes how the process ended; nil while it runs.
func (p *Process) State() *os.ProcessState {
	if !p.Exited() {
		return nil
	}
	return p.cmd.ProcessState
}

// Exited reports whether the process has ended.
func (p *Process) Exited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// Kill kills the process and waits for its end.
func (p *Process) Kill() error {
	err := p.cmd.Process.Kill()
	<-p.exited
	return err
}

// Stop requests the process to stop, and kills it after 15 s.
func (p *Process) Stop() error {
	_ = p.stdin.Close() // the process may have ended
	timeout := time.NewTimer(stopTimeout)
	defer timeout.Stop()
	select {
	case <-p.exited:
		return nil
	case <-timeout.C:
		return errors.Join(fmt.Errorf("%s did not stop within %s and was killed", p.Name, stopTimeout), p.Kill())
	}
}

// StopAll stops processes concurrently.
func StopAll(ps []*Process) error {
	errs := make([]error, len(ps))
	var wg sync.WaitGroup
	for i, p := range ps {
		wg.Go(func() { errs[i] = p.Stop() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// OnStdinClosed calls do when standard input ends.
// Its goroutine lives until then, because a read cannot be interrupted.
func OnStdinClosed(do func()) {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		do()
	}()
}

// UntilStdinClosed returns a context that ends with ctx or with standard input.
func UntilStdinClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	OnStdinClosed(cancel)
	return ctx, cancel
}
