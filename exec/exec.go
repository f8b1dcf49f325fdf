package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/pawlrun/pawl"
)

// Cmd is an external program with its arguments. It is a value: set its fields before Run. A Cmd without a Stdin may be run again, also
// concurrently.
type Cmd struct {
	Name string   // looked up in PATH unless it has a slash
	Args []string // arguments, without the name
	Dir  string   // working directory; default: that of the worker
	Env  []string // environment as key=value; nil means that of the worker

	// Stdin is the program's standard input; nil means empty input. A *os.File is passed to the program directly. Run copies from any
	// other reader and waits for its last Read, so a reader that may block must end with the context.
	Stdin io.Reader

	// Stderr also receives the standard error while the program runs; if it is nil, only Output contains it. Its Write must not block.
	Stderr io.Writer

	// OutputLimit is the maximum number of bytes that Run keeps of the standard output, and of the standard error; the default is 64 KiB.
	// If there is more, Run keeps the first and the last half.
	OutputLimit int
}

const defaultOutputLimit = 64 << 10

// Command returns a Cmd for a program and its arguments. It does not start the program.
func Command(name string, args ...string) Cmd {
	return Cmd{Name: name, Args: args}
}

// Output is the output of a program.
type Output struct {
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`

	// The number of bytes omitted from the middle, where the text contains a note; 0 if the text is complete.
	StdoutOmitted int64 `json:"stdout_omitted,omitempty"`
	StderrOmitted int64 `json:"stderr_omitted,omitempty"`
}

// Run starts the program and waits until its process group has ended. The error is an *ExitError if the program ended with a code other
// than 0 or by a signal, the context's cause (wrapped) if Run ended the program because ctx was done, and otherwise the reason for which
// it could not be started. The Output is valid even with an error.
func (c Cmd) Run(ctx context.Context) (Output, error) {
	if ctx.Err() != nil {
		return Output{}, fmt.Errorf("exec: run %s: %w", c.Name, context.Cause(ctx))
	}
	p, err := c.start()
	if err != nil {
		return Output{}, fmt.Errorf("exec: run %s: %w", c.Name, err)
	}
	terminated := p.wait(ctx)
	out := p.finish()
	switch {
	case terminated:
		return out, fmt.Errorf("exec: run %s: %w", c.Name, context.Cause(ctx))
	case p.err != nil:
		return out, c.exitError(p, out)
	}
	return out, nil
}

func (c Cmd) exitError(p *process, out Output) error {
	if p.cmd.ProcessState == nil {
		return fmt.Errorf("exec: wait for %s: %w", c.Name, p.err)
	}
	return &ExitError{
		Program: c.Name, ExitCode: p.cmd.ProcessState.ExitCode(), Signal: signalOf(p.cmd.ProcessState),
		Stderr: out.Stderr[max(0, len(out.Stderr)-errorTail):],
	}
}

// ErrExit matches, with errors.Is, the error of a program that ran and failed, in the activity and in its caller.
var ErrExit = pawl.NewError("pawl.command")

// errorTail is the number of bytes of the standard error in an ExitError.
const errorTail = 4 << 10

// ExitError reports that a program ended with a code other than 0 or by a signal. It survives history: the caller of the activity gets it
// with ExitErrorOf, and errors.Is finds ErrExit.
type ExitError struct {
	Program  string `json:"program"`
	ExitCode int    `json:"exit_code"`        // -1 if a signal ended the program
	Signal   string `json:"signal,omitempty"` // name of the signal, such as "killed"
	Stderr   string `json:"stderr,omitempty"` // the last 4 KiB of the standard error
}

// Error returns the program, how it ended, and the last line of its standard error.
func (e *ExitError) Error() string {
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

// Unwrap returns ErrExit with the ExitError as its data.
func (e *ExitError) Unwrap() error { return pawl.WithData(ErrExit, *e) }

// ExitErrorOf returns the ExitError in an error, in the activity or in its caller, or nil if there is none.
func ExitErrorOf(err error) *ExitError {
	var e *ExitError
	if errors.As(err, &e) {
		return e
	}
	var f *pawl.Failure
	if errors.As(err, &f) && errors.Is(f, ErrExit) {
		e = new(ExitError)
		if f.DecodeData(e) == nil {
			return e
		}
	}
	return nil
}
