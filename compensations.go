package pawl

import (
	"errors"
	"slices"
)

// Compensations undoes the steps of an orchestration that has failed, the last step first: a saga. The zero value is usable. It belongs
// to one execution.
//
//	var undo pawl.Compensations
//	defer undo.Run(ctx, &err)
//	hold, err := Reserve.Call(ctx, o)
//	if err != nil {
//		return Receipt{}, err
//	}
//	undo.Add(func(ctx *pawl.Context) error {
//		_, err := Release.Call(ctx, hold, pawl.Retry{})
//		return err
//	})
type Compensations struct{ steps []func(*Context) error }

// Add adds the compensation of a step that was done. It is run with a detached context (see Detach), also after a cancellation.
func (c *Compensations) Add(undo func(*Context) error) { c.steps = append(c.steps, undo) }

// Run runs all compensations if *err is not nil, in reverse order, each also if one before it has failed, and joins their errors to *err.
// Otherwise it does nothing. Defer it where err is the named result. All compensations together have the time of Detach: five minutes from
// the cancellation of the instance or the end of the scope of ctx.
func (c *Compensations) Run(ctx *Context, err *error) {
	if *err == nil {
		return
	}
	detached := Detach(ctx)
	for _, undo := range slices.Backward(c.steps) {
		*err = errors.Join(*err, undo(detached))
	}
}
