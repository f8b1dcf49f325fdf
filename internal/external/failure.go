package external

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/text"
)

// maxBytes is the maximum of a result, which is that of a payload.
const maxBytes = 512 << 10

// maxQuote is the number of bytes that an error quotes of what a program or an endpoint has sent.
const maxQuote = 1 << 10

// failure is a failed attempt.
type failure struct {
	error

	final bool
	after time.Duration // requested by the endpoint; 0: none
}

// Unwrap returns the error, marked as permanent if the failure is final.
func (f *failure) Unwrap() error {
	if f.final {
		return pawl.Permanent(f.error)
	}
	return f.error
}

// described is the error object.
type described struct {
	Message   string          `json:"message"`
	Code      string          `json:"code"`
	Retryable *bool           `json:"retryable"`
	Data      json.RawMessage `json:"data"`
}

// describe replaces the text of a failure by that of an error object, if the body is one, and adds its code and its data.
func (f *failure) describe(body []byte) *failure {
	var o struct {
		Error *described `json:"error"`
	}
	if json.Unmarshal(body, &o) != nil || o.Error == nil {
		return f
	}
	e := o.Error
	if e.Retryable != nil {
		f.final = !*e.Retryable
	}
	err := worded{text.Shorten(cmp.Or(e.Message, f.Error()), maxQuote), f.error, nil}
	if pawl.ValidateName(e.Code) == nil && !strings.HasPrefix(e.Code, "pawl.") { // those are reserved
		err.code = pawl.NewError(e.Code)
	}
	f.error = err
	if len(e.Data) > 0 {
		f.error = pawl.WithData(err, e.Data)
	}
	return f
}

// worded is an error with another text, and with a sentinel.
type worded struct {
	text  string
	cause error
	code  *pawl.Error // nil: none
}

func (w worded) Error() string { return w.text }

func (w worded) Unwrap() []error {
	if w.code == nil {
		return []error{w.cause}
	}
	return []error{w.code, w.cause}
}

// result checks a result. One that is no JSON or is too large does not become better by a retry.
func result(b []byte, omitted bool, from string) (json.RawMessage, error) {
	b = []byte(strings.TrimSpace(string(b)))
	switch {
	case omitted || len(b) > maxBytes:
		return nil, &failure{error: fmt.Errorf("the result of %s has more than %d bytes: %w", from, maxBytes, pawl.ErrTooLarge), final: true}
	case len(b) == 0:
		return nil, nil
	case !json.Valid(b):
		return nil, &failure{error: fmt.Errorf("the result of %s is not JSON: %q: %w", from, text.Shorten(string(b), 200), pawl.ErrUndecodable), final: true}
	}
	return b, nil
}

// bounded bounds an attempt by the timeout.
func (a Activity) bounded(attempt run) run {
	if a.Timeout == 0 {
		return attempt
	}
	return func(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
		timeout := fmt.Errorf("attempt timed out after %s: %w", a.Timeout, pawl.ErrTimeout)
		limited, stop := context.WithTimeoutCause(ctx, a.Timeout.Std(), timeout)
		defer stop()
		out, err := attempt(limited, in)
		if err != nil && ctx.Err() == nil && limited.Err() != nil {
			err = &failure{error: timeout}
		}
		return out, err
	}
}

// repeat repeats failed attempts in place.
func (r Retry) repeat(attempt run) func(context.Context, json.RawMessage) (json.RawMessage, error) {
	return func(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
		backoff := r.Initial.Std()
		for n := 1; ; n++ {
			out, err := attempt(ctx, in)
			f, failed := errors.AsType[*failure](err)
			if !failed || f.final || n >= r.Attempts || f.after > r.Max.Std() || r.onRequest && f.after == 0 {
				return out, err
			}
			select {
			case <-time.After(cmp.Or(f.after, backoff)):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			backoff = min(2*backoff, r.Max.Std())
		}
	}
}
