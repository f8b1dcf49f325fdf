package pawl

import (
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/cancel"
)

// Future is a result that may not be available yet. Start, After, Event.Next, Update.Next and Go return futures. A Future belongs to the
// execution that created it.
type Future[T any] struct {
	core  *replay.Future
	form  form
	local *localResult[T] // set for siblings and updates, whose results are not decoded from a payload
}

// localResult is the result of a sibling's function, which is neither recorded nor encoded, or of an update, which fetch produces once.
type localResult[T any] struct {
	value T
	err   error
	fetch func() (T, error) // nil for a sibling, and after the first call
}

func (r *localResult[T]) get() (T, error) {
	if fetch := r.fetch; fetch != nil {
		r.fetch = nil
		r.value, r.err = fetch()
	}
	return r.value, r.err
}

// Get waits for the result. Later calls return the same result. The error is a *Failure or a *Cancelled: that of the future, or that of
// the wait if the instance was cancelled or the scope of ctx has ended. For a sibling, Get returns what its function returned.
func (f *Future[T]) Get(ctx *Context) (T, error) {
	var zero T
	if err := ctx.x.Wait(f.core, ctx.scope); err != nil {
		return zero, err
	}
	p, err := f.core.Value()
	if err != nil {
		return zero, authorError(err)
	}
	if f.local != nil {
		return f.local.get()
	}
	return decode[T](f.form, p)
}

// Ready reports whether Get would return without waiting. It is a poll: before it returns false, all inputs that had arrived are applied,
// and siblings run. In the condition of an Await it reports the current state.
func (f *Future[T]) Ready() bool { return f.core.Ready() }

// Cancel cancels the work behind the future. An activity or a child is cancelled on whatever worker or orchestrator runs it, with the
// reason cancel.Requested and the given text. A timer is removed. A wait for an event is withdrawn, and an event that had arrived for it
// but was not read stays available. For a sibling, Cancel cancels the context: its operations return a *Cancelled, and the future is
// ready when its function has returned. Every other future is ready at once, with a *Cancelled. Cancel has no effect on a future that is
// already cancelled or ready.
func (f *Future[T]) Cancel(text string) { f.core.Withdraw(cancel.Requested, text) }

func (f *Future[T]) future() *replay.Future { return f.core }

// Selectable is a *Future of any type.
type Selectable interface {
	future() *replay.Future
}
