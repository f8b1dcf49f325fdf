package replay

import "github.com/pawlrun/pawl/pkg/history"

// Patched reports whether the code takes the new branch of a change that was made to it while instances were running:
//
//	live          it records PatchMarked and returns true
//	on replay     it returns true if the history has the marker here, otherwise false: the decisions
//	              that follow were made by code without the change
//
// "Here" means after the last decision that was matched, with only cancellations and other markers in between. The first result for a
// name applies to the whole execution, so that a loop does not change its branch in the middle.
//
// Markers are not matched like decisions. The search for the next event of the history skips the markers that it finds, and sets the
// result of each name that has none yet to true. A call may therefore be removed once no instance with the result false is left: the
// marker stays in the histories that have it and is ignored. Random numbers and derived ids are the same with the call and without it.
//
// If a call is moved to an earlier point, or removed while instances with the result false are left, the code no longer matches the
// history, which is detected as a *Divergence.
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
