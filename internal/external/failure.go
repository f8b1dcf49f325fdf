package external

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/text"
)

const (
	maxBytes = 512 << 10 // of a result; the limit of payloads
	maxQuote = 1 << 10   // bytes of an answer that an error quotes
)

// failure is a failed attempt.
type failure struct {
	error

	final bool
	after time.Duration // Retry-After of the endpoint; 0: none
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

// describe applies the error object in body, if there is one: its message, code, retryability and data. Data that cannot be stored is left
// out, because the failure would otherwise be permanent, with a code of Pawl.
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
	err := coded{text.Shorten(cmp.Or(e.Message, f.Error()), maxQuote), f.error, nil}
	if pawl.ValidateName(e.Code) == nil && !strings.HasPrefix(e.Code, "pawl.") { // the prefix is reserved
		err.code = pawl.NewError(e.Code)
	}
	f.error = err
	if data := bytes.ToValidUTF8(e.Data, []byte("\uFFFD")); len(data) > 0 { // as in the message
		if with := pawl.WithData(err, json.RawMessage(data)); !errors.Is(with, pawl.ErrUnencodable) { // it may nest too deeply
			f.error = with
		}
	}
	return f
}

// coded is an error with the text and the code of an error object.
type coded struct {
	text  string
	cause error
	code  *pawl.Error // nil: none
}

func (e coded) Error() string { return e.text }

func (e coded) Unwrap() []error {
	if e.code == nil {
		return []error{e.cause}
	}
	return []error{e.code, e.cause}
}

// result validates a result. If it is too large or not JSON, the failure is final: a retry would not help.
func result(b []byte, omitted bool, from string) (json.RawMessage, error) {
	b = []byte(strings.TrimSpace(string(b)))
	switch {
	case omitted || len(b) > maxBytes:
		return nil, &failure{error: fmt.Errorf("the result of %s has more than %d bytes: %w", from, maxBytes, pawl.ErrTooLarge), final: true}
	case len(b) == 0:
		return nil, nil
	case !json.Valid(b) || !utf8.Valid(b): // package json accepts any bytes in strings
		return nil, &failure{error: fmt.Errorf("the result of %s is not JSON: %q: %w", from, text.Shorten(string(b), 200), pawl.ErrUndecodable), final: true}
	}
	return b, nil
}

// bounded applies the timeout to an attempt.
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

// repeat retries failed attempts in place.
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
