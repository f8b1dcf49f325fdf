package pawltest

import (
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
)

// StartOption is an option of a start, like those of client.Start: for the instance under test with StartWith, for others with Start.
type StartOption struct{ apply func(*message.OutInput) }

// After delays a start. Until then the instance is pending, and a cancellation ends it without running its code.
func After(d time.Duration) StartOption {
	return StartOption{func(in *message.OutInput) { in.StartAt = d.String() }}
}

// RunTimeout makes an instance fail with pawl.ErrRunTimeout if it has not ended d after its start, or after the end of its delay.
func RunTimeout(d time.Duration) StartOption {
	return StartOption{func(in *message.OutInput) { in.Timeout = d }}
}

// AfterFailure lets a start replace the instance with its id if that has failed or was cancelled. Otherwise the start has no effect.
func AfterFailure() StartOption {
	return StartOption{func(in *message.OutInput) { in.Reuse = history.ReuseAfterFailure }}
}

// TerminateExisting lets a start replace the instance with its id, which is terminated first if it has not ended.
func TerminateExisting() StartOption {
	return StartOption{func(in *message.OutInput) { in.Reuse = history.ReuseTerminate }}
}

// StartWith adds options to the start of the instance under test.
func (e *Env) StartWith(options ...StartOption) {
	e.world.setup.options = append(e.world.setup.options, options...)
}

// Start starts another instance, the one named by To, at the moment and with the newest version. If it already exists, the start has no
// effect, unless an option changes that.
func Start[In, Out any](m Moment, o pawl.Orchestration[In, Out], in In, options ...StartOption) {
	m.e.tb.Helper()
	start := &message.OutInput{Kind: message.KindStart, Name: o.Name(), Payload: encode(m.e, "start", o, author.Input(o), in), By: "test"}
	for _, option := range options {
		option.apply(start)
	}
	m.input(start)
}

// delay returns the time of a delayed start in Unix ms, or 0 if it is not delayed. Virtual time advances to it.
func (p *partition) delay(out *message.OutInput) int64 {
	d, err := time.ParseDuration(out.StartAt)
	if err != nil || d <= 0 {
		return 0
	}
	at := p.Now + d.Milliseconds()
	p.delays = append(p.delays, at)
	return at
}
