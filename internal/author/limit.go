package author

import "github.com/pawlrun/pawl/pkg/history"

// Limit is embedded in pawl.LimitOption.
type Limit struct {
	set   func(*history.Policy)
	check func(*history.Policy) error
	err   error
}

// NewLimit returns an option that sets part of a policy. check validates the complete policy.
func NewLimit(set func(*history.Policy), check func(*history.Policy) error) Limit {
	return Limit{set: set, check: check}
}

// BadLimit returns an invalid option, which is rejected with err where it is used.
func BadLimit(err error) Limit { return Limit{err: err} }

func (l Limit) limit() Limit { return l }

// ApplyLimit applies the option to the policy.
func ApplyLimit(option interface{ limit() Limit }, p *history.Policy) error {
	l := option.limit()
	if l.err == nil && l.set != nil {
		l.set(p)
	}
	return l.err
}

// Policy returns the policy described by options. The error matches pawl.ErrBadLimit.
func Policy[L interface{ limit() Limit }](options ...L) (history.Policy, error) {
	var p history.Policy
	for _, o := range options {
		if err := ApplyLimit(o, &p); err != nil {
			return history.Policy{}, err
		}
	}
	for _, o := range options {
		if check := o.limit().check; check != nil {
			if err := check(&p); err != nil {
				return history.Policy{}, err
			}
		}
	}
	return p, nil
}
