package pawl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// Cancelled is the error of cancelled work. It contains the reason, the requester and the time. errors.Is(err, context.Canceled) holds
// for it, also after it has been recorded in a history.
type Cancelled = cancel.Cancelled

// Error is a sentinel that survives being recorded in a history: an activity returns it, possibly wrapped, on one machine, and errors.Is
// finds it in the error of the call on another. Sentinels with the same code are equal. Declare it next to the handles.
type Error struct{ sentinel }

type sentinel = author.Sentinel

// NewError declares a sentinel. Histories record its code, so the code must never change. Codes that begin with "pawl." are reserved.
func NewError(code string) *Error { return &Error{sentinel(code)} }

// Error returns the code.
func (e *Error) Error() string { return e.Code() }

// Code returns the code that histories record.
func (e *Error) Code() string { return string(e.sentinel) }

// Is reports whether target is a sentinel with the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code() == e.Code()
}

// Sentinels of failures that Pawl reports, for errors.Is and Retry.Unless.
var (
	ErrBlocked      = NewError(history.CodeBlocked)      // three attempts at a turn blocked: the code waited for something other than a future
	ErrDiverged     = NewError(history.CodeDiverged)     // the code does not match its history, and the orchestrator fails such instances instead of suspending them
	ErrIDTaken      = NewError(history.CodeIDTaken)      // the child's id belongs to an instance that another caller has started
	ErrInboxFull    = NewError(history.CodeInboxFull)    // more inputs arrived than the inbox holds, because the orchestration did not read them
	ErrPanic        = NewError(history.CodePanic)        // the code panicked; see Failure.Stack
	ErrPoison       = NewError(history.CodePoison)       // the activity has exhausted its claims: every worker that claimed it died
	ErrRunTimeout   = NewError(history.CodeRunTimeout)   // the instance exceeded client.RunTimeout; it also matches ErrTimeout
	ErrTimeout      = NewError(history.CodeTimeout)      // an attempt, or the whole call, exceeded its timeout
	ErrUndecodable  = NewError(history.CodeUndecodable)  // a payload does not decode
	ErrUnencodable  = NewError(history.CodeUnencodable)  // a type or a value cannot be a payload; see docs/guide/payloads.md
	ErrTooLarge     = NewError(history.CodeTooLarge)     // a payload or a history exceeds its maximum size
	ErrTurnTooLarge = NewError(history.CodeTurnTooLarge) // the call does not fit into its turn; it also matches ErrTooLarge. See docs/guide/activities.md
	ErrTooDeep      = NewError(history.CodeTooDeep)      // the child would exceed the maximum depth of children of children
	ErrTooMany      = NewError(history.CodeTooMany)      // too many activities and children are outstanding
)

// Sentinels of updates, returned to the client that waits for the answer.
var (
	ErrUpdateEnded   = NewError(history.CodeEnded)   // the instance ended before it answered the update
	ErrUpdateExpired = NewError(history.CodeExpired) // the deadline passed before the code received the update, so it was not executed
)

// Sentinels of calls and starts that were rejected by a limit of the action: see LimitOption. Retry does not repeat them unless
// Retry.Limited is set.
var (
	ErrQueueFull    = NewError(history.CodeQueueFull)    // the limit has its maximum number of waiters; see QueueLimit
	ErrQueueTimeout = NewError(history.CodeQueueTimeout) // the call exceeded its maximum wait; see QueueTimeout
	ErrQueueCleared = NewError(history.CodeQueueCleared) // an operator rejected all waiters
	ErrLimited      = NewError(history.CodeLimited)      // the limit was reached and does not let calls wait; see Reject
)

// Failure is an error that was recorded in a history. errors.Is finds in it every sentinel that the original error wrapped,
// context.Canceled if the error was a cancellation, and context.DeadlineExceeded if it was a timeout; errors.As finds the *Cancelled. An
// error without a sentinel becomes a Failure with its text and no code.
type Failure struct {
	history.Failure
}

// Error returns the text of the original error.
func (f *Failure) Error() string { return f.Message }

// Unwrap returns the recorded failure.
func (f *Failure) Unwrap() error { return &f.Failure }

// Is reports whether the original error wrapped the sentinel target.
func (f *Failure) Is(target error) bool {
	if t, ok := target.(*Error); ok {
		return f.has(t.Code())
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

// As sets target if it is a **Cancelled and the original error was a cancellation.
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

// DecodeData decodes the data attached by WithData into v, which must be a pointer. The error is ErrUndecodable, also if there is no
// data.
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

// Permanent marks an error as final, so Retry does not repeat the call. It returns nil for nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return author.Permanent{Err: err}
}

// WithData attaches data to an error; the caller reads it with Failure.DecodeData. If an error has several, the outermost is recorded. If
// data does not encode, the encoding error is joined. WithData returns nil for nil.
func WithData(err error, data any) error {
	if err == nil {
		return nil
	}
	p, encodeErr := encodeAny(data)
	if encodeErr != nil {
		return errors.Join(err, encodeErr)
	}
	return author.DataError{Err: err, Data: p}
}

// authorError converts the error of a future to the error that the author's code receives.
func authorError(err error) error {
	if f, ok := err.(*history.Failure); ok { //nolint:errorlint // package replay does not wrap it
		return &Failure{*f}
	}
	return err
}

func undecodable(format string, args ...any) error {
	return &Failure{history.Failure{Code: history.CodeUndecodable, Permanent: true, Message: fmt.Sprintf(format, args...)}}
}
