package main

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
	"time"
)

const processPatience = 15 * time.Second // between asking a child to end and killing it

// process is this program run as a child with a hidden command. The child ends when its
// standard input does: when it is asked to, and also when the parent is killed.
type process struct {
	name   string
	cmd    *exec.Cmd
	leash  io.WriteCloser
	exited chan struct{}
}

// spawn starts a child. What it says goes to log. Settings come from args alone, not from
// the parent's PAWL_* variables.
func spawn(name string, log io.Writer, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	p := &process{name: name, cmd: exec.Command(self, args...), exited: make(chan struct{})} //nolint:noctx // it ends by its leash
	p.cmd.Stdout, p.cmd.Stderr = log, log
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PAWL_") {
			p.cmd.Env = append(p.cmd.Env, v)
		}
	}
	if os.Getenv("GOMAXPROCS") == "" {
		p.cmd.Env = append(p.cmd.Env, "GOMAXPROCS="+strconv.Itoa(share()))
	}
	if p.leash, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // whoever needs to know why asks the process state
	}()
	return p, nil
}

// share is a process' part of the cores where several share the machine. Were each to have
// threads for all of them, they would spend a quarter of the time waking each other's.
func share() int { return max(1, runtime.NumCPU()/4) }

func (p *process) pid() int { return p.cmd.Process.Pid }

// gone reports whether the child has ended.
func (p *process) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// kill ends the child without notice, and waits for it.
func (p *process) kill() error {
	err := p.cmd.Process.Kill()
	<-p.exited
	return err
}

// stop lets the child end in order, and kills it if it takes too long.
func (p *process) stop() error {
	_ = p.leash.Close() // it may have ended
	patience := time.NewTimer(processPatience)
	defer patience.Stop()
	select {
	case <-p.exited:
		return nil
	case <-patience.C:
		return errors.Join(fmt.Errorf("%s did not end within %s and was killed", p.name, processPatience), p.kill())
	}
}

// stopAll ends children side by side.
func stopAll(ps []*process) error {
	errs := make(chan error, len(ps))
	for _, p := range ps {
		go func() { errs <- p.stop() }()
	}
	var all []error
	for range ps {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// untilLeashed gives a context that ends with standard input too.
func untilLeashed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() { // ends with the process: a read can not be taken back
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx, cancel
}
