package pawl

import (
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/cancel"
)

// Future is a result that may not be there yet: of a Start, an After, an Event's Next,
// a Go. It belongs to the execution that made it.
type Future[T any] struct {
	core *replay.Future
	form form
	own  *returned[T] // of a sibling
}

// returned is what a sibling's function returned. It is in no history, and so need not
// go through its encoded form.
type returned[T any] struct {
	value T
	err   error
}

// Get waits for the result. It may be called again and gives the same. The error is a
// *Failure, or a *Cancelled: of the future itself, or, if the instance was asked to end
// or the scope of ctx is over, of the wait. Of a sibling they are what its function
// returned.
func (f *Future[T]) Get(ctx *Context) (T, error) {
	var zero T
	if err := ctx.x.Wait(f.core, ctx.scope); err != nil {
		return zero, err
	}
	p, err := f.core.Value()
	if err != nil {
		return zero, arrived(err)
	}
	if f.own != nil {
		return f.own.value, f.own.err
	}
	return decode[T](f.form, p)
}

// Ready reports whether Get would not wait. It is a poll: before it reports that Get would wait, every input that
// had arrived is applied, while siblings go on. In the condition of an Await it reports what is so far.
func (f *Future[T]) Ready() bool { return f.core.Ready() }

// Cancel says by hand that nobody wants the result any more, and why. An activity or a
// child is cancelled wherever it runs, with the reason cancel.Requested and the text; a timer is
// dropped; a wait for an event gives its place back, and with it an event that arrived
// but was not read; a sibling's context is cancelled, so that its words return a
// *Cancelled, and the future is ready when its function has returned. All others are
// ready at once, with a *Cancelled. Cancelling twice, or what is ready, does nothing.
func (f *Future[T]) Cancel(text string) { f.core.Withdraw(cancel.Requested, text) }

func (f *Future[T]) future() *replay.Future { return f.core }

// Selectable is any *Future.
type Selectable interface {
	future() *replay.Future
}
