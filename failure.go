package pawl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// Cancelled is the error of work that nobody wants any more: who asked, why, and
// when. errors.Is(err, context.Canceled) holds for it, also after it has been
// through a history.
type Cancelled = cancel.Cancelled

// Error is a sentinel that survives history: an activity returns it, perhaps wrapped,
// on one machine, and errors.Is finds it in the error of the call on another. Two
// sentinels of the same code are the same error. Declare it beside the handles.
type Error struct {
	code string
}

// NewError declares a sentinel. Its code is recorded in histories, so it must not
// change; codes that begin with "pawl." are Pawl's own.
func NewError(code string) *Error { return &Error{code: code} }

// Error gives the code.
func (e *Error) Error() string { return e.code }

// Code is what histories record.
func (e *Error) Code() string { return e.code }

// Is makes sentinels of the same code match.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.code == e.code
}

// Sentinels of the failures that Pawl itself makes, for errors.Is and Retry.Unless.
var (
	ErrBlocked      = NewError(history.CodeBlocked)      // orchestration code waited for something that is no future, three times
	ErrDiverged     = NewError(history.CodeDiverged)     // the code does not do what the history has, and was not to wait for other code
	ErrIDTaken      = NewError(history.CodeIDTaken)      // the child's id is that of an instance which somebody else has started
	ErrInboxFull    = NewError(history.CodeInboxFull)    // inputs came faster than the orchestration read them
	ErrPanic        = NewError(history.CodePanic)        // the code panicked; Failure.Stack tells where
	ErrPoison       = NewError(history.CodePoison)       // claimed too often without an end
	ErrTimeout      = NewError(history.CodeTimeout)      // an attempt, or the whole call, took too long
	ErrUndecodable  = NewError(history.CodeUndecodable)  // a payload is not what it should be
	ErrUnencodable  = NewError(history.CodeUnencodable)  // a type or a value that cannot be a payload; see docs/guide/payloads.md
	ErrTooLarge     = NewError(history.CodeTooLarge)     // a payload or a history is over its limit
	ErrTurnTooLarge = NewError(history.CodeTurnTooLarge) // a turn has no room for the call; it is ErrTooLarge too. See docs/guide/activities.md
	ErrTooDeep      = NewError(history.CodeTooDeep)      // the child would have more ancestors than allowed: children of children without end
	ErrTooMany      = NewError(history.CodeTooMany)      // too many activities and children are outstanding
)

// Sentinels of calls and starts that the limits of the action have refused: see LimitOption. Retry does not try again after them, unless
// Retry.Limited asks for it.
var (
	ErrQueueFull    = NewError(history.CodeQueueFull)    // as many wait as may: QueueLimit
	ErrQueueTimeout = NewError(history.CodeQueueTimeout) // it has waited for as long as it may: QueueTimeout
	ErrQueueCleared = NewError(history.CodeQueueCleared) // somebody has cleared the queue in which it waited
	ErrLimited      = NewError(history.CodeLimited)      // there was no room, and nobody waits: Reject
)

// Failure is an error that has been through a history. errors.Is finds in it every
// sentinel that the original error wrapped, context.Canceled and *Cancelled if it was
// a cancellation, and context.DeadlineExceeded if it was a timeout. A plain error
// arrives as a Failure that has its text and no code.
type Failure struct {
	history.Failure
}

// Error gives the text of the original error.
func (f *Failure) Error() string { return f.Message }

// Is answers errors.Is for sentinels, by code.
func (f *Failure) Is(target error) bool {
	if t, ok := target.(*Error); ok {
		return f.has(t.code)
	}
	switch target {
	case context.Canceled:
		return f.has(history.CodeCancelled)
	case context.DeadlineExceeded:
		return f.has(history.CodeTimeout)
	default:
		return false
	}
}

// As answers errors.As for **Cancelled.
func (f *Failure) As(target any) bool {
	to, ok := target.(**Cancelled)
	if !ok || !f.has(history.CodeCancelled) {
		return false
	}
	c := &Cancelled{}
	if f.Data.Type != replay.TypeCancelled || json.Unmarshal(f.Data.Data, c) != nil {
		c = &Cancelled{Reason: cancel.Requested, Text: f.Message}
	}
	*to = c
	return true
}

// DecodeData reads what WithData attached into v, a pointer. Without data it is
// ErrUndecodable.
func (f *Failure) DecodeData(v any) error {
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() != reflect.Pointer || reflect.ValueOf(v).IsNil() {
		return undecodable("data of a failure decodes into a pointer, not into %T", v)
	}
	return formOfType(t.Elem()).decode(f.Data, v)
}

func (f *Failure) has(code string) bool {
	return f.Code == code || slices.Contains(f.Also, code)
}

type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// Permanent marks an error as final: no Retry tries again. Nil stays nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanent{err}
}

type dataError struct {
	error
	data history.Payload
}

func (w dataError) Unwrap() error { return w.error }

// WithData attaches data to an error, to be read with Failure.DecodeData where the
// error arrives. Of several in one error the outermost counts. Data that can not be
// encoded is joined to the error as another. Nil stays nil.
func WithData(err error, data any) error {
	if err == nil {
		return nil
	}
	p, encodeErr := encodeAny(data)
	if encodeErr != nil {
		return errors.Join(err, encodeErr)
	}
	return dataError{err, p}
}

const maxMessage = 8 << 10

// ToFailure gives an error in the form that survives history. Whatever it wraps or
// joins is searched, outermost first: the first sentinel gives the Code, further ones
// are in Also. Messages are cut at 8 KiB. It is for Pawl's own packages.
func ToFailure(err error) *history.Failure {
	f := &history.Failure{Message: text.Shorten(err.Error(), maxMessage)}
	collect(err, f)
	return f
}

func collect(err error, f *history.Failure) {
	switch e := err.(type) { //nolint:errorlint // this walks the tree itself
	case *Error:
		addCode(f, e.code)
	case *Failure:
		addFailure(f, &e.Failure)
	case *history.Failure:
		addFailure(f, e)
	case *Cancelled:
		addFailure(f, replay.CancelledFailure(e))
	case permanent:
		f.Permanent = true
	case dataError:
		if len(f.Data.Data) == 0 {
			f.Data = e.data
		}
	}
	switch err { //nolint:errorlint // as above
	case context.Canceled:
		addCode(f, history.CodeCancelled)
	case context.DeadlineExceeded:
		addCode(f, history.CodeTimeout)
	}
	switch e := err.(type) { //nolint:errorlint // as above
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			collect(inner, f)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if inner != nil {
				collect(inner, f)
			}
		}
	}
}

func addFailure(f, inner *history.Failure) {
	if inner.Code != "" {
		addCode(f, inner.Code)
	}
	for _, code := range inner.Also {
		addCode(f, code)
	}
	f.Permanent = f.Permanent || inner.Permanent
	if f.Stack == "" {
		f.Stack = inner.Stack
	}
	if len(f.Data.Data) == 0 {
		f.Data = inner.Data
	}
}

func addCode(f *history.Failure, code string) {
	switch {
	case f.Code == "":
		f.Code = code
	case f.Code != code && !slices.Contains(f.Also, code):
		f.Also = append(f.Also, code)
	}
}

// FromFailure gives the error of a failure that has been through history. It is for
// Pawl's own packages.
func FromFailure(f history.Failure) error { return &Failure{f} }

// arrived turns what a future settled with into what the author sees.
func arrived(err error) error {
	if f, ok := err.(*history.Failure); ok { //nolint:errorlint // package replay does not wrap it
		return FromFailure(*f)
	}
	return err
}

func undecodable(format string, args ...any) error {
	return FromFailure(history.Failure{
		Code: history.CodeUndecodable, Permanent: true, Message: fmt.Sprintf(format, args...),
	})
}
