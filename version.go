package pawl

import (
	"cmp"

	"github.com/pawlrun/pawl/internal/author"
)

// Version is an option that names a version of an orchestration: for Do the version that is bound, for Call, Start and StartDetached
// the version of the child, and for ContinueAsNew the version of the next execution.
//
// The version that an instance was started with is recorded and governs the execution to its end, whatever is bound later. Versions
// are compared component by component, runs of digits as numbers: 10 is newer than 9, 1.10 than 1.9, 2026-11-20 than 2026-02-01; a
// version is newer than its own prefix, so 1.0-rc1 is newer than 1.0. No version is the oldest. Valid versions are those of
// ValidateName.
type Version string

// Latest requests the newest version of the orchestrator that starts or continues the instance. It is the default of starts, and not
// of ContinueAsNew.
const Latest Version = ""

func (v Version) applyBinding(b *author.Orchestration) {
	b.Version = string(v)
	b.Err = cmp.Or(b.Err, ofHandle("orchestration", b.Name, v.validate()))
}

func (v Version) applyChild(s *childSettings) {
	s.call.Child.Version = string(v)
	s.err = cmp.Or(s.err, v.validate())
}

func (v Version) applyDetached(s *childSettings) { v.applyChild(s) }

func (v Version) applyContinue(s *continueSettings) {
	s.version = string(v)
	s.err = cmp.Or(s.err, v.validate())
}

func (v Version) validate() error {
	if v == Latest {
		return nil
	}
	return ValidateName(string(v))
}

// Patched reports whether the code takes the new branch of a change that was made in place, while instances were running:
//
//	if pawl.Patched(ctx, "check-fraud-first") {
//		if err := checkFraud(ctx, order); err != nil {
//			return Receipt{}, err
//		}
//	}
//
// It returns true for an instance that reaches the call for the first time, which is then recorded, and on every replay of it; false
// for one that had passed it before the code was changed. The first result for a name holds for the whole execution, so that a loop
// does not change its branch; the next execution, after ContinueAsNew, decides again.
//
// Once no instance is left that took the old branch, the call and the branch may be removed: instances that took the new one
// continue. Use a Version for a change that is more than a branch. On an invalid context Patched panics with a *Misuse.
func Patched(ctx *Context, name string) bool { return ctx.x.Patched(name) }
