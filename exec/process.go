package exec

import (
	"context"
	"io"
	"os/exec"
	"runtime"
	"time"

	"github.com/pawlrun/pawl"
)

const (
	groupPoll  = 5 * time.Millisecond // interval at which a terminating group is checked; there is no notification
	killMargin = time.Second          // maximum part of the grace period that is reserved for SIGKILL
	killWait   = time.Second          // maximum wait for processes that do not end after SIGKILL
)

// process is a running program.
type process struct {
	cmd    *exec.Cmd
	pipes  pipes
	stdout *excerpt
	stderr *excerpt
	ended  chan struct{} // closed when the program has ended; its group may still have members
	err    error         // error of Wait; set before ended is closed
}

// start starts the program. On error nothing is left running.
func (c Cmd) start() (*process, error) {
	p := &process{
		cmd: exec.Command(c.Name, c.Args...), stdout: newExcerpt(c.OutputLimit), stderr: newExcerpt(c.OutputLimit),
		ended: make(chan struct{}),
	}
	p.cmd.Dir, p.cmd.Env, p.cmd.SysProcAttr = c.Dir, c.Env, ownGroup()
	err := p.connect(c)
	if err == nil {
		started := make(chan error, 1)
		go p.run(started)
		err = <-started
	}
	p.pipes.closeRemote()
	if err != nil {
		p.pipes.finish()
		return nil, err
	}
	return p, nil
}

// connect passes only files to the program, so that Wait does not wait for copying.
func (p *process) connect(c Cmd) error {
	stdout, err := p.pipes.reader(p.stdout)
	if err != nil {
		return err
	}
	p.cmd.Stdout = stdout
	errs := io.Writer(p.stderr)
	if c.Stderr != nil {
		errs = io.MultiWriter(p.stderr, c.Stderr)
	}
	stderr, err := p.pipes.reader(errs)
	if err != nil {
		return err
	}
	p.cmd.Stderr = stderr
	if c.Stdin == nil {
		return nil
	}
	stdin, err := p.pipes.writer(c.Stdin)
	if err != nil {
		return err
	}
	p.cmd.Stdin = stdin
	return nil
}

// run starts the program and waits for it on one locked thread: the kernel sends the parent-death signal when that thread ends,
// and any other thread may end at any time, with a goroutine that was locked to it.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
	close(p.ended)
}

// wait waits until the process group has ended, and reports whether it was terminated because ctx was done.
func (p *process) wait(ctx context.Context) (terminated bool) {
	select {
	case <-p.ended:
	case <-ctx.Done():
		select {
		case <-p.ended: // the program ended by itself at the same moment
		default:
			terminated = true
			p.terminate(ctx)
		}
	}
	killGroup(p.cmd.Process)
	<-p.ended
	p.waitGroup(time.After(killWait), nil) // until the kernel has removed the group
	return terminated
}

// terminate sends SIGTERM to the group and waits for its end within the grace period.
func (p *process) terminate(ctx context.Context) {
	terminateGroup(p.cmd.Process)
	grace, expired := pawl.DefaultGrace, pawl.GraceExpired(ctx)
	if expired != nil {
		grace = pawl.Info(ctx).Grace
	}
	limit := time.NewTimer(grace - min(grace/10, killMargin))
	defer limit.Stop()
	select {
	case <-p.ended:
	case <-limit.C:
		return
	case <-expired:
		return
	}
	p.waitGroup(limit.C, expired)
}

// waitGroup waits until the group has no members, the limit is reached, or the grace period has expired.
func (p *process) waitGroup(limit <-chan time.Time, expired <-chan struct{}) {
	poll := time.NewTicker(groupPoll)
	defer poll.Stop()
	for groupAlive(p.cmd.Process) {
		select {
		case <-poll.C:
		case <-limit:
			return
		case <-expired:
			return
		}
	}
}

// finish returns the output of the program.
func (p *process) finish() Output {
	p.pipes.finish()
	return Output{
		Stdout: p.stdout.text(), StdoutOmitted: p.stdout.omitted, Stderr: p.stderr.text(), StderrOmitted: p.stderr.omitted,
	}
}
