package author

import (
	"context"
	"slices"

	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// Sentinel is embedded in pawl.Error: the code of a sentinel.
type Sentinel string

func (s Sentinel) code() string { return string(s) }

// Permanent is an error that no Retry repeats.
type Permanent struct{ Err error }

// Error returns the text of the wrapped error.
func (p Permanent) Error() string { return p.Err.Error() }

// Unwrap returns the wrapped error.
func (p Permanent) Unwrap() error { return p.Err }

// DataError is an error with attached data.
type DataError struct {
	Err  error
	Data history.Payload
}

// Error returns the text of the wrapped error.
func (d DataError) Error() string { return d.Err.Error() }

// Unwrap returns the wrapped error.
func (d DataError) Unwrap() error { return d.Err }

const maxMessage = 8 << 10

// ToFailure converts an error to the form that histories record. It searches all errors that err wraps or joins, outermost first: the
// first sentinel sets Code, and the others are added to Also. It cuts messages at 8 KiB.
func ToFailure(err error) *history.Failure {
	f := &history.Failure{Message: text.Shorten(err.Error(), maxMessage)}
	collect(err, f)
	return f
}

func collect(err error, f *history.Failure) {
	switch e := err.(type) { //nolint:errorlint // this walks the tree itself
	case interface{ code() string }:
		addCode(f, e.code())
	case *history.Failure:
		addFailure(f, e)
	case *cancel.Cancelled:
		addFailure(f, replay.CancelledFailure(e))
	case Permanent:
		f.Permanent = true
	case DataError:
		if len(f.Data.Data) == 0 {
			f.Data = e.Data
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
