package pawl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrCommand is in the error of a program that ran and did not succeed; see CommandErrorOf.
var ErrCommand = NewError("pawl.command")

// Subprocess is an external program that an activity runs; Command makes one. It is a
// value: its fields may be set before Run, and one without a Stdin may be run again, also
// by several goroutines at once.
//
//	cmd := pawl.Command("ffmpeg", "-i", in, out)
//	cmd.Dir = dir
//	res, err := cmd.Run(ctx)
//
// # Ends
//
//	runs ──by itself──▶ 0: CommandOutput                         ─┐
//	  │                 else: *CommandError                       │ then what is left of
//	context done                                                  ├ its group is killed
//	  └──SIGTERM to the group──▶ all of it has ended, or          │
//	     the grace is nearly over──▶ the context's cause         ─┘
//
// The program and all that it starts are one process group, and Run returns when none of
// them is left, with these exceptions:
//
//   - who leaves the group on purpose (setsid, a daemon) is not pursued. Run does not wait
//     for it either, also if it holds the output open;
//   - a process in a system call that can not be interrupted (a dead NFS server) ends later:
//     Run waits for it for a second;
//   - on Windows, which has neither groups nor SIGTERM, the program is killed at once, and it alone.
//
// The grace is the activity's (Info), less a tenth of it and at most a second, so that
// Run has returned before the activity would be abandoned; without an activity it is
// DefaultGrace. If the worker stops in a greater hurry, its word (GraceOver) counts.
//
// # If the worker dies
//
// A worker that is killed (kill -9, out of memory) can clean nothing up. On Linux the
// kernel kills the program then, by its parent-death signal. That signal comes when the
// thread ends that has started the program, not the process: so Run starts the program
// on a thread that it keeps until the program has ended. Not covered are what the
// program has started itself (the signal is not inherited: it should end when its own
// parent does), a program that is setuid or has file capabilities (the kernel drops the
// signal), and other systems than Linux. A supervisor that kills the whole cgroup, as
// systemd and containers do, covers all of them.
type Subprocess struct {
	Name string   // looked up in PATH unless it has a slash
	Args []string // without the name
	Dir  string   // that it runs in; empty: the worker's own
	Env  []string // as key=value; nil: the worker's own

	// Stdin is what it reads; nil: nothing. A *os.File is handed over as it is. Any
	// other reader is read by Run, which waits for its last Read: one that may block
	// must end with the context.
	Stdin io.Reader

	// Limit is how many bytes are kept of the standard output, and of the standard
	// error; 0 or less: 64 KiB. Of more, the first and the last half are kept.
	Limit int
}

const outputLimit = 64 << 10

// Command names a program and its arguments. Nothing is started before Run.
func Command(name string, args ...string) Subprocess {
	return Subprocess{Name: name, Args: args}
}

// CommandOutput is what a program has written.
type CommandOutput struct {
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`

	// How many bytes were left out of the middle, where the text says so; 0: it is complete.
	StdoutCut int64 `json:"stdout_cut,omitempty"`
	StderrCut int64 `json:"stderr_cut,omitempty"`
}

// Run starts the program and waits until nothing of it is left. The error is a
// *CommandError if it ended with another code than 0 or by a signal, the context's cause
// (wrapped) if it was ended with the context, and otherwise says why it could not be
// started. What the program had written is given also with an error.
func (s Subprocess) Run(ctx context.Context) (CommandOutput, error) {
	if ctx.Err() != nil {
		return CommandOutput{}, fmt.Errorf("run %s: %w", s.Name, context.Cause(ctx))
	}
	p, err := s.start()
	if err != nil {
		return CommandOutput{}, fmt.Errorf("run %s: %w", s.Name, err)
	}
	told := p.await(ctx)
	out := p.finish()
	switch {
	case told:
		return out, fmt.Errorf("run %s: %w", s.Name, context.Cause(ctx))
	case p.err != nil:
		return out, s.failed(p, out)
	}
	return out, nil
}

func (s Subprocess) failed(p *process, out CommandOutput) error {
	if p.cmd.ProcessState == nil {
		return fmt.Errorf("wait for %s: %w", s.Name, p.err)
	}
	return &CommandError{
		Program: s.Name, ExitCode: p.cmd.ProcessState.ExitCode(), Signal: signalOf(p.cmd.ProcessState),
		Stderr: out.Stderr[max(0, len(out.Stderr)-errorTail):],
	}
}

// errorTail is how much of the standard error is in a CommandError, in bytes.
const errorTail = 4 << 10

// CommandError is a program that ended otherwise than with 0. It survives history: the
// caller of the activity gets it from its error by CommandErrorOf, and errors.Is finds ErrCommand.
type CommandError struct {
	Program  string `json:"program"`
	ExitCode int    `json:"exit_code"`        // -1: it was ended by a signal
	Signal   string `json:"signal,omitempty"` // by which, such as "killed"
	Stderr   string `json:"stderr,omitempty"` // the last 4 KiB of what it wrote there
}

// Error gives the program, how it ended, and the last line of its standard error.
func (e *CommandError) Error() string {
	how := fmt.Sprintf("exit code %d", e.ExitCode)
	if e.Signal != "" {
		how = "ended by signal: " + e.Signal
	}
	text := strings.TrimSpace(e.Stderr)
	if text == "" {
		return e.Program + ": " + how
	}
	return e.Program + ": " + how + ": " + text[strings.LastIndexByte(text, '\n')+1:]
}

// Unwrap gives ErrCommand, with the CommandError as data for where the error arrives.
func (e *CommandError) Unwrap() error { return WithData(ErrCommand, *e) }

// CommandErrorOf finds the CommandError in an error, on either side of history; nil if there is none.
func CommandErrorOf(err error) *CommandError {
	var e *CommandError
	if errors.As(err, &e) {
		return e
	}
	var f *Failure
	if errors.As(err, &f) && errors.Is(f, ErrCommand) {
		e = new(CommandError)
		if f.DecodeData(e) == nil {
			return e
		}
	}
	return nil
}
