package pawl

import (
	"cmp"

	"github.com/pawlrun/pawl/internal/author"
)

// Version is an option that names a version of an orchestration. For Do it is the version that is bound; for Call, Start and
// StartDetached, the version of the child; for ContinueAsNew, the version of the next execution.
//
// The version that an instance was started with is recorded and applies to the execution until its end, whatever is bound later. Versions
// are compared component by component, with runs of digits compared as numbers: 10 is newer than 9, 1.10 than 1.9, 2026-11-20 than
// 2026-02-01. A version is newer than its own prefix, so 1.0-rc1 is newer than 1.0. No version is the oldest. Valid versions are those
// that ValidateName accepts.
type Version string

// Latest requests the newest version that is bound in the orchestrator that starts or continues the instance. It is the default for
// starts, but not for ContinueAsNew.
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
// It returns true for an instance that reaches the call for the first time, and records that, so that every replay also returns true. It
// returns false for an instance that had passed this point before the code was changed. The first result for a name holds for the whole
// execution, so a loop does not change its branch halfway; the next execution, after ContinueAsNew, decides again.
//
// Once no instance that took the old branch is left, the call and the old branch can be removed: instances that took the new one
// continue. Use a Version for a change that is more than a branch. If ctx is not valid, Patched panics with a *Misuse.
func Patched(ctx *Context, name string) bool { return ctx.x.Patched(name) }
