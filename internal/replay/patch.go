package replay

import "github.com/pawlrun/pawl/pkg/history"

// Patched says whether the code is to take the new branch of a change that was made to it
// while instances were under way:
//
//	live          it records PatchMarked and is true
//	on replay     it is true if history has the marker there, and else false: what was
//	              decided there was decided by code that did not know the change
//
// There is: behind the last decision that was met, with nothing but cancellations and
// other markers between. The first answer for a name is the answer for the whole
// execution, so that a loop does not change its branch in the middle.
//
// Markers are not met like decisions. Whoever looks for the next event of history passes
// over those that stand there, and keeps for each, if its name has no answer yet, that
// it is true. So a call may be removed once no instance is left that answered false:
// the marker stays in the histories that have it, and is nobody's business. Random
// numbers and derived ids are the same with the call and without it.
//
// A call that is moved to an earlier place, or removed while instances with false are
// left, makes the code do what history does not have, and is found as a *Divergence.
func (x *Code) Patched(name string) bool {
	x.mustEnter()
	x.collectOwed()
	answer, known := x.patches[name]
	if known {
		return answer
	}
	switch {
	case x.past.active && isExcess(x.peek()):
		x.exceed()
	case x.past.active:
		x.answer(name, false)
	case x.overdrawn():
		x.exceed()
	default:
		x.append(&history.PatchMarked{Name: name})
		x.answer(name, true)
	}
	x.exit()
	return x.patches[name]
}

// answer keeps the first answer for the name.
func (x *record) answer(name string, yes bool) {
	if _, known := x.patches[name]; known {
		return
	}
	if x.patches == nil {
		x.patches = make(map[string]bool)
	}
	x.patches[name] = yes
}
