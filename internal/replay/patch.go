package replay

import "github.com/pawlrun/pawl/pkg/history"

// Patched reports whether the code takes the new branch of a change that was made to it while instances were running:
//
//	live          it records PatchMarked and returns true
//	on replay     it returns true if the history has the marker there, otherwise false: the decisions
//	              there were made by code without the change
//
// There is: behind the last decision that was met, with only cancellations and other markers between. The first result for
// a name applies to the whole execution, so that a loop does not change its branch in the middle.
//
// Markers are not met like decisions. The search for the next event of the history skips those that it finds, and records
// for each, if its name has no result yet, that it is true. So a call may be removed once no instance with false is left:
// the marker stays in the histories that have it and is ignored. Random numbers and derived ids are the same with the call
// and without it.
//
// A call that is moved to an earlier place, or removed while instances with false are left, makes the code do what the
// history does not have, and is detected as a *Divergence.
func (x *Code) Patched(name string) bool {
	x.mustEnter()
	x.collectCancels()
	answer, known := x.patches[name]
	if known {
		return answer
	}
	switch {
	case x.past.active && x.isExcess(x.peek()):
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

// answer records the first result for the name.
func (x *record) answer(name string, yes bool) {
	if _, known := x.patches[name]; known {
		return
	}
	if x.patches == nil {
		x.patches = make(map[string]bool)
	}
	x.patches[name] = yes
}
