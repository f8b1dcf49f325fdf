package pawltest

import (
	"slices"

	"github.com/pawlrun/pawl/pkg/replay"
)

// crashes says after which turns the process dies. The zero value is the default: see
// the package's comment.
type crashes struct {
	turns []int
	given bool
	last  int // events at the last crash
}

// CrashAfter makes the process die after these turns only, counted from 1, the start;
// without any it never dies. A turn is one input and what the code does about it.
func (e *Env) CrashAfter(turns ...int) { e.crashes = crashes{turns: turns, given: true} }

func (c *crashes) now(turn, events int) bool {
	if c.given {
		return slices.Contains(c.turns, turn)
	}
	const everyTurn, part = 100, 10
	if turn > everyTurn && events-c.last <= c.last/part {
		return false
	}
	c.last = events
	return true
}

func (e *Env) fresh() *replay.Execution { return replay.New(e.id, e.program, strict()) }

func strict() replay.Options { return replay.Options{Strict: true} }

// crash forgets the running code and brings the instance back from its history.
func (e *Env) crash() {
	e.tb.Helper()
	if e.x == nil || e.x.Ended() {
		return
	}
	if err := e.x.Evict(); err != nil {
		e.failf("after turn %d: %v", e.turns, err)
	}
	e.x = e.fresh()
	if err := e.x.Replay(e.events); err != nil {
		e.failf("after turn %d: %v", e.turns, err)
	}
}
