package pawl

import (
	"errors"
	"slices"
)

// Compensations undoes the steps of a failed orchestration in reverse order (a saga). The zero value is ready to use. It belongs to one
// execution.
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

// Add adds the compensation of a completed step. It is called with a detached context (see Detach), so it also works after a
// cancellation.
func (c *Compensations) Add(undo func(*Context) error) { c.steps = append(c.steps, undo) }

// Run runs all compensations in reverse order if *err is not nil, and does nothing otherwise. A compensation that fails does not stop the
// others; its error is joined to *err. Defer Run in a function whose named result is err. All compensations together have the time limit
// of Detach: five minutes from the cancellation of the instance or the end of the scope of ctx.
func (c *Compensations) Run(ctx *Context, err *error) {
	if *err == nil {
		return
	}
	detached := Detach(ctx)
	for _, undo := range slices.Backward(c.steps) {
		*err = errors.Join(*err, undo(detached))
	}
}
