package pawl

import (
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/cancel"
)

// Future is a result that may not be available yet: of Start, After, Event.Next, Update.Next or Go. It belongs to the execution that made it.
type Future[T any] struct {
	core    *replay.Future
	form    form
	sibling *returned[T] // nil: neither of a sibling nor of an update
}

// returned is what a sibling's function returned. It is not recorded, and so not encoded. Of an update it is made by fetch, once.
type returned[T any] struct {
	value T
	err   error
	fetch func() (T, error) // nil: of a sibling, or fetched
}

func (r *returned[T]) get() (T, error) {
	if fetch := r.fetch; fetch != nil {
		r.fetch = nil
		r.value, r.err = fetch()
	}
	return r.value, r.err
}

// Get waits for the result. It may be called again and returns the same. The error is a *Failure, or a *Cancelled: of the future, or
// of the wait if the instance was cancelled or the scope of ctx has ended. For a sibling they are what its function returned.
func (f *Future[T]) Get(ctx *Context) (T, error) {
	var zero T
	if err := ctx.x.Wait(f.core, ctx.scope); err != nil {
		return zero, err
	}
	p, err := f.core.Value()
	if err != nil {
		return zero, authorError(err)
	}
	if f.sibling != nil {
		return f.sibling.get()
	}
	return decode[T](f.form, p)
}

// Ready reports whether Get would return without waiting. It is a poll: before it returns false, all inputs that had arrived are
// applied, and siblings run. In the condition of an Await it reports the current state.
func (f *Future[T]) Ready() bool { return f.core.Ready() }

// Cancel cancels what the future stands for. An activity or a child is cancelled on whatever worker or orchestrator runs it, with the
// reason cancel.Requested and the text; a timer is removed; a wait for an event is withdrawn, and an event that arrived for it and
// was not read stays available. Of a sibling it cancels the context: its operations return a *Cancelled, and the future is
// ready when its function has returned. All other futures are ready at once, with a *Cancelled. It has no effect on a future that is
// cancelled or ready.
func (f *Future[T]) Cancel(text string) { f.core.Withdraw(cancel.Requested, text) }

func (f *Future[T]) future() *replay.Future { return f.core }

// Selectable is any *Future.
type Selectable interface {
	future() *replay.Future
}
