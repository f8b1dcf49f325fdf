package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/queue"
)

// apiError is an error of the API.
type apiError struct {
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Do     string `json:"do"`
}

// Error returns the detail.
func (e *apiError) Error() string { return e.Detail }

func problemOf(err error) *apiError {
	if e, is := errors.AsType[*apiError](err); is {
		return e
	}
	if r, is := errors.AsType[*access.Refusal](err); is {
		return &apiError{Status: r.Status, Detail: r.Detail, Do: r.Do}
	}
	e := &apiError{Status: http.StatusBadGateway, Detail: strings.TrimPrefix(err.Error(), "client: "), Do: "Reload the page."}
	if unanswered(err) {
		e.Status, e.Detail = http.StatusServiceUnavailable, noAnswer
	}
	if errors.Is(err, pawl.ErrBadID) {
		e.Status, e.Do = http.StatusNotFound, "No instance has such an id."
	}
	if errors.Is(err, client.ErrNotFound) {
		e.Status, e.Do = http.StatusNotFound, "The id may be misspelled, or the instance was purged, or ended longer ago than the retention keeps it."
	}
	return e
}

const (
	noAnswer = "No orchestrator answers."
	whyNot   = "One that has lost Redis or NATS does not answer, and one that starts takes some seconds. The logs of the orchestrators have the cause."
)

// unanswered reports an error of an outage: nothing is wrong with the request.
func unanswered(err error) bool {
	return errors.Is(err, client.ErrNoOwner) || errors.Is(err, queue.ErrDisconnected) || errors.Is(err, context.DeadlineExceeded)
}

func contextOf(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Context(), requestTime)
}

// call makes a request to the API in this process: with the headers of the page's request, and so with its credentials and
// its origin. body is encoded as JSON unless it is nil; the answer is decoded into out unless it is nil.
func (q *request) call(method, path string, query url.Values, body, out any) error {
	var b []byte
	if body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			return &apiError{Status: http.StatusBadRequest, Detail: fmt.Sprintf("not JSON: %v", err)}
		}
	}
	r := q.Clone(q.Context())
	r.Method, r.Body, r.ContentLength = method, io.NopCloser(bytes.NewReader(b)), int64(len(b))
	u, err := url.Parse("/api/v1" + path)
	if err != nil {
		return fmt.Errorf("console: %w", err)
	}
	u.RawQuery = query.Encode()
	r.URL, r.RequestURI = u, u.RequestURI()
	r.Header.Set("Content-Type", "application/json")
	a := &recorder{header: http.Header{}, status: http.StatusOK}
	q.api.ServeHTTP(a, r)
	if a.status >= http.StatusBadRequest {
		e := &apiError{Status: a.status}
		if err := json.Unmarshal(a.body.Bytes(), e); err != nil {
			e.Detail = a.body.String()
		}
		return e
	}
	if out == nil || a.body.Len() == 0 {
		return nil
	}
	if err := json.Unmarshal(a.body.Bytes(), out); err != nil {
		return fmt.Errorf("console: answer of the API: %w", err)
	}
	return nil
}

// recorder holds an answer of the API.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header gives the header of the answer.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader sets the status.
func (r *recorder) WriteHeader(status int) { r.status = status }

// Write appends to the body.
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
