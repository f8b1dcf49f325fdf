package pawl

import (
	"github.com/pawlrun/pawl/pkg/replay"
)

// Future is a result that may not be there yet: of a Start, an After, an Event's Next.
// It belongs to the execution that made it.
type Future[T any] struct {
	core *replay.Future
	form form
}

// Get waits for the result. It may be called again and gives the same. The error is a
// *Failure, or a *Cancelled: of the future itself, or, if the instance was asked to
// end, of the wait.
func (f *Future[T]) Get(ctx *Context) (T, error) {
	var zero T
	if err := ctx.x.Wait(f.core, ctx.detached); err != nil {
		return zero, err
	}
	p, err := f.core.Value()
	if err != nil {
		return zero, arrived(err)
	}
	return decode[T](f.form, p)
}

// Ready reports whether Get would not wait.
func (f *Future[T]) Ready() bool { return f.core.Ready() }

func (f *Future[T]) future() *replay.Future { return f.core }

// Selectable is any *Future.
type Selectable interface {
	future() *replay.Future
}
