package pawl

import (
	"context"
	"os/exec"
	"runtime"
	"time"
)

const (
	lookAgain  = 5 * time.Millisecond // at a group that was told to end, and does not say when it has
	lastMargin = time.Second          // the most that is kept of the grace for the killing
	killWait   = time.Second          // for what was killed and does not end
)

// process is a program that runs.
type process struct {
	cmd    *exec.Cmd
	pipes  pipes
	stdout *excerpt
	stderr *excerpt
	ended  chan struct{} // closed when the program itself has ended; its group may still have others
	err    error         // of Wait; set before ended is closed
}

// start starts the program. Nothing is left running if that fails.
func (s Subprocess) start() (*process, error) {
	p := &process{
		cmd: exec.Command(s.Name, s.Args...), stdout: newExcerpt(s.Limit), stderr: newExcerpt(s.Limit), ended: make(chan struct{}),
	}
	p.cmd.Dir, p.cmd.Env, p.cmd.SysProcAttr = s.Dir, s.Env, groupOfItsOwn()
	err := p.connect(s)
	if err == nil {
		started := make(chan error, 1)
		go p.keep(started)
		err = <-started
	}
	p.pipes.handedOver()
	if err != nil {
		p.pipes.finish()
		return nil, err
	}
	return p, nil
}

// connect gives the program files only, so that its Wait waits for itself alone.
func (p *process) connect(s Subprocess) error {
	stdout, err := p.pipes.reader(p.stdout)
	if err != nil {
		return err
	}
	p.cmd.Stdout = stdout
	stderr, err := p.pipes.reader(p.stderr)
	if err != nil {
		return err
	}
	p.cmd.Stderr = stderr
	if s.Stdin == nil {
		return nil
	}
	stdin, err := p.pipes.writer(s.Stdin)
	if err != nil {
		return err
	}
	p.cmd.Stdin = stdin
	return nil
}

// keep starts the program and waits for it, on one thread all the time: the kernel takes
// the end of that thread for the death of the parent. Any other thread may end at any
// time, with a goroutine that was locked to it.
func (p *process) keep(started chan<- error) {
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

// await waits until nothing of the program is left, and reports whether it was told to end.
func (p *process) await(ctx context.Context) (told bool) {
	select {
	case <-p.ended:
	case <-ctx.Done():
		select {
		case <-p.ended: // by itself, at the same moment
		default:
			told = true
			p.cleanUp(ctx)
		}
	}
	killGroup(p.cmd.Process)
	<-p.ended
	p.gone(time.After(killWait), nil) // until the kernel has done away with it
	return told
}

// cleanUp tells the group to end and gives it the grace to do so.
func (p *process) cleanUp(ctx context.Context) {
	askGroup(p.cmd.Process)
	grace := DefaultGrace
	if l := leashOf(ctx); l != nil {
		grace = l.Grace()
	}
	limit := time.NewTimer(grace - min(grace/10, lastMargin))
	defer limit.Stop()
	select {
	case <-p.ended:
	case <-limit.C:
		return
	case <-GraceOver(ctx):
		return
	}
	p.gone(limit.C, GraceOver(ctx))
}

// gone waits until there is nobody left of the group, or the limit is reached, or time is over for another reason.
func (p *process) gone(limit <-chan time.Time, over <-chan struct{}) {
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for groupLives(p.cmd.Process) {
		select {
		case <-look.C:
		case <-limit:
			return
		case <-over:
			return
		}
	}
}

// finish gives what the program has written.
func (p *process) finish() CommandOutput {
	p.pipes.finish()
	return CommandOutput{
		Stdout: p.stdout.text(), StdoutCut: p.stdout.cut, Stderr: p.stderr.text(), StderrCut: p.stderr.cut,
	}
}
