package pawltest

import "slices"

// crashes lists the turns after which the process dies. The zero value is the default: see the package comment.
type crashes struct {
	turns []int
	given bool
}

// CrashAfter makes the process, with all instances, die after exactly these turns (see Turns). The effects of such a turn are then sent
// by the process that takes over. Without arguments, the process never dies.
func (e *Env) CrashAfter(turns ...int) { e.world.setup.crashes = crashes{turns: turns, given: true} }

// at reports whether CrashAfter has named the turn.
func (c *crashes) at(turn int) bool { return c.given && slices.Contains(c.turns, turn) }

// due reports whether, by default, the code of an execution is restored after its latest turn.
func (c *crashes) due(x *execution) bool {
	const everyTurn, part = 100, 10
	if x.turns > everyTurn && len(x.events)-x.crashed <= x.crashed/part {
		return false
	}
	x.crashed = len(x.events)
	return true
}

// crash makes the owner die with the code of all instances, and another owner take over. The new owner sends what the old one had not
// sent.
func (e *world) crash() {
	for _, in := range e.live {
		if x := in.now(); x.state.End == nil {
			in.restore()
		}
	}
	e.part.acquire()
}
