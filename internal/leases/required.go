package leases

import (
	_ "embed"

	"github.com/pawlrun/pawl/internal/redisx"
)

//go:embed required.lua
var requiredLua string

// MaxRequired is the maximum number of leases of one call of Required.
const MaxRequired = 500

// Required reports whether the results of activities are still required, without claiming any. refs are at most MaxRequired leases of one
// partition. The reply has one outcome per lease: Gone, which is final, or OK, which may change at any time.
func (l *Scripts) Required(refs []Ref, done func([]Outcome, error)) {
	keys, args := make([]string, len(refs)), make([]any, len(refs))
	for i, r := range refs {
		keys[i], args[i] = l.key(r), r.Effect
	}
	l.runner.Go(redisx.Call{Script: l.required, Keys: keys, Args: args}, reading(done, outcomes(len(refs))))
}

// outcomes returns a reader of a reply with one outcome for each of n leases.
func outcomes(n int) func(*redisx.Reply) ([]Outcome, error) {
	return func(r *redisx.Reply) ([]Outcome, error) {
		out := make([]Outcome, n)
		for i := range out {
			var err error
			if out[i], err = outcome(r.Str(i)); err != nil {
				return nil, err
			}
		}
		return out, r.Err()
	}
}
