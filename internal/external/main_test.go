package external

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// called is the outcome of a call, as its caller receives it.
type called struct {
	result  string
	failure *pawl.Failure
	log     string
}

// call runs an activity as a worker does.
func call(ctx context.Context, t *testing.T, a Activity, in string) called {
	t.Helper()
	var log bytes.Buffer
	bindings, err := Config{Activities: map[string]Activity{"work": a}}.Bindings(slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	input := history.Payload{}
	if in != "" {
		input = history.Payload{Type: history.TypeJSON, Data: []byte(in)}
	}
	headers := history.Headers("").With("traceparent", traceparent).With("tracestate", "a=b").With("tenant", "acme") + "pawl-span: 0123456789abcdef\n"
	ctx = pawl.WithInfo(ctx, pawl.ActivityInfo{Name: "work", Instance: "i-1", Key: "key-1", Attempt: 2, Grace: pawl.Info(ctx).Grace, Headers: headers})
	p, f := author.ActivityOf(bindings[0]).Handle(ctx, input)
	c := called{result: string(p.Data), log: log.String()}
	if f != nil {
		c.failure = &pawl.Failure{Failure: *f}
	}
	return c
}

// cancellable returns the context of an activity, and the function that cancels it.
func cancellable(t *testing.T) (context.Context, func()) {
	t.Helper()
	ctx, end := context.WithCancelCause(t.Context())
	return ctx, func() { end(&pawl.Cancelled{Reason: cancel.Requested, Text: "wrong customer"}) }
}

var errDeclined = pawl.NewError("card-declined")

// wantDescribed checks that a failure matches the error object of declined.
func wantDescribed(t *testing.T, f *pawl.Failure, permanent bool) {
	t.Helper()
	var data struct{ Limit int }
	if f == nil || f.Message != "declined" || !errors.Is(f, errDeclined) || f.Permanent != permanent || f.DecodeData(&data) != nil || data.Limit != 500 {
		t.Errorf("%+v, data %+v", f, data)
	}
}

func declined(t *testing.T, retryable bool) string {
	t.Helper()
	b, err := json.Marshal(map[string]any{"error": map[string]any{
		"message": "declined", "code": "card-declined", "retryable": retryable, "data": map[string]int{"Limit": 500},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
