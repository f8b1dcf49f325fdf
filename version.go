package pawl

import (
	"cmp"
	"strings"
)

// Version is an option that names a version of an orchestration. Of Do it is the version
// that is bound; of Call, Start and StartDetached the one that the child is started with;
// of ContinueAsNew the one that goes on.
//
// The version that an instance was started with is recorded and governs the execution to
// its end, whatever is bound beside it later. Versions are compared piece by piece, runs
// of digits as numbers: 10 is newer than 9, 1.10 than 1.9, 2026-11-20 than 2026-02-01;
// whatever goes on is newer than where it stops, so 1.0-rc1 is newer than 1.0. No version
// at all is the oldest. The alphabet is that of ValidateName.
type Version string

// Latest asks for the newest version that the orchestrator has which starts the instance,
// or goes on with it. It is the default of starts, and not of ContinueAsNew.
const Latest Version = ""

func (v Version) applyBinding(b *OrchestrationBinding) {
	b.version = string(v)
	b.err = cmp.Or(b.err, ofHandle("orchestration", b.name, v.validate()))
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

// compareVersions orders versions from the oldest to the newest. Only equal texts are equal.
func compareVersions(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		p, q := piece(x), piece(y)
		x, y = x[len(p):], y[len(q):]
		if isDigit(p[0]) && isDigit(q[0]) {
			n, m := strings.TrimLeft(p, "0"), strings.TrimLeft(q, "0")
			if c := cmp.Or(cmp.Compare(len(n), len(m)), cmp.Compare(n, m)); c != 0 {
				return c
			}
		} else if p != q {
			return cmp.Compare(p, q)
		}
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

// piece is the run of digits that the text begins with, or else its first byte.
func piece(s string) string {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return s[:max(n, 1)]
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// Patched says whether the code is to take the new branch of a change that was made in
// place, while instances of it were under way:
//
//	if pawl.Patched(ctx, "check-fraud-first") {
//		if err := checkFraud(ctx, order); err != nil {
//			return Receipt{}, err
//		}
//	}
//
// It is true for an instance that comes to this place for the first time, which is then
// recorded, and on every replay of it; false for one that had passed it before the code
// was changed. The first answer for a name is the answer for the whole execution, so that
// a loop does not change its branch in the middle; the next execution, after ContinueAsNew,
// asks anew.
//
// Once no instance is left that took the old branch, the call and the branch may be
// removed: instances that took the new one go on. A change that is more than a branch is
// better a version of its own: see Version. On a context that may not be used Patched
// panics with a *Misuse.
func Patched(ctx *Context, name string) bool { return ctx.x.Patched(name) }
