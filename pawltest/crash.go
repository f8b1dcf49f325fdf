package pawltest

import "slices"

// crashes lists the turns after which the process dies. The zero value is the default: see
// the package's comment.
type crashes struct {
	turns []int
	given bool
}

// CrashAfter makes the process, with all instances, die after these turns only: see Turns. What a turn sends is then sent by the
// process that takes over. Without any it never dies.
func (e *Env) CrashAfter(turns ...int) { e.world.setup.crashes = crashes{turns: turns, given: true} }

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

// crash has the owner die with the code of all instances, and another take over: what it has not sent is sent by that one.
func (e *world) crash() {
	for _, in := range e.live {
		if x := in.now(); x.state.End == nil {
			in.restore()
		}
	}
	e.part.acquire()
}
