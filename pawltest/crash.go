package pawltest

import "slices"

// crashes says after which turns the process dies. The zero value is the default: see
// the package's comment.
type crashes struct {
	turns []int
	given bool
}

// CrashAfter makes the process, with all instances, die after these turns only: see Turns.
// Without any it never dies.
func (e *Env) CrashAfter(turns ...int) { e.crashes = crashes{turns: turns, given: true} }

// at reports whether the process dies after a turn that CrashAfter has named.
func (c *crashes) at(turn int) bool { return c.given && slices.Contains(c.turns, turn) }

// due reports whether an execution is brought back after its latest turn by default.
func (c *crashes) due(x *execution) bool {
	const everyTurn, part = 100, 10
	if x.turns > everyTurn && len(x.events)-x.crashed <= x.crashed/part {
		return false
	}
	x.crashed = len(x.events)
	return true
}

func (e *Env) crashAll() {
	e.tb.Helper()
	for _, in := range e.live {
		in.crash()
	}
}
