package lease

import (
	_ "embed"

	"github.com/pawlrun/pawl/internal/redisx"
)

//go:embed required.lua
var requiredLua string

// MaxRequired is the maximum number of leases of one call of Required.
const MaxRequired = 500

// Required reads leases of one partition, at most MaxRequired, without claiming any: the reply has OK or Gone for each. Gone is
// final; OK holds only for the moment.
func (l *Leases) Required(refs []Ref, done func([]Outcome, error)) {
	keys, args := make([]string, len(refs)), make([]any, len(refs))
	for i, r := range refs {
		keys[i], args[i] = l.key(r), r.Effect
	}
	l.runner.Go(redisx.Call{Script: l.required, Keys: keys, Args: args}, func(reply any, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(outcomes(reply, len(refs)))
	})
}

// outcomes parses one word for each of n leases.
func outcomes(reply any, n int) ([]Outcome, error) {
	r := redisx.NewReply(reply)
	out := make([]Outcome, n)
	for i := range out {
		var err error
		if out[i], err = outcome(r.Str(i)); err != nil {
			return nil, err
		}
	}
	return out, r.Err()
}
