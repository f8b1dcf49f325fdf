package pawltest

import (
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
)

// StartOption is an option of a start, as those of client.Start: of the instance under test by StartWith, of another by Start.
type StartOption func(*message.OutInput)

// After delays a start: until then the instance is pending, and a cancellation ends it without its code.
func After(d time.Duration) StartOption {
	return func(in *message.OutInput) { in.StartAt = d.String() }
}

// RunTimeout fails an instance with pawl.ErrRunTimeout that has not ended so long after its start, or the end of its delay.
func RunTimeout(d time.Duration) StartOption {
	return func(in *message.OutInput) { in.Timeout = d }
}

// AfterFailure has a start replace the instance that has its id, if that was failed or cancelled. Without it the start has no effect.
func AfterFailure() StartOption {
	return func(in *message.OutInput) { in.Reuse = history.ReuseAfterFailure }
}

// TerminateExisting has a start replace the instance that has its id, and terminate it before if it has not ended.
func TerminateExisting() StartOption {
	return func(in *message.OutInput) { in.Reuse = history.ReuseTerminate }
}

// StartWith starts the instance under test with options.
func (e *Env) StartWith(options ...StartOption) {
	e.world.setup.options = append(e.world.setup.options, options...)
}

// Start starts another instance at the moment, of the newest version: the one that To
// names. If it is there already, nothing happens, unless an option has it otherwise.
func Start[In, Out any](m Moment, o pawl.Orchestration[In, Out], in In, options ...StartOption) {
	m.e.tb.Helper()
	start := &message.OutInput{Kind: message.KindStart, Name: o.Name(), Payload: encode(m.e, "start", o, author.Input(o), in), By: "test"}
	for _, option := range options {
		option(start)
	}
	m.input(start)
}

// delay returns the time of a delayed start, Unix ms; 0: it is not delayed. Time moves to it.
func (p *partition) delay(out *message.OutInput) int64 {
	d, err := time.ParseDuration(out.StartAt)
	if err != nil || d <= 0 {
		return 0
	}
	at := p.Now + d.Milliseconds()
	p.delays = append(p.delays, at)
	return at
}
