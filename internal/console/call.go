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
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/client"
)

// apiError is an error that the API returned.
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
	if isOutage(err) {
		e.Status, e.Detail = http.StatusServiceUnavailable, noAnswer
	}
	if errors.Is(err, pawl.ErrBadID) {
		e.Status, e.Do = http.StatusNotFound, "An instance cannot have such an id."
	}
	if errors.Is(err, client.ErrNotFound) {
		e.Status, e.Do = http.StatusNotFound, "The id may be misspelled, or the instance was purged, or its retention is over."
	}
	return e
}

const (
	noAnswer   = "No orchestrator answers."
	outageHint = "An orchestrator does not answer while it has no connection to Redis or NATS, or in the first seconds after its start. The logs of the orchestrators have the cause."
)

// isOutage reports whether err is caused by an outage rather than by the request.
func isOutage(err error) bool {
	return errors.Is(err, client.ErrNoOwner) || errors.Is(err, transport.ErrDisconnected) || errors.Is(err, context.DeadlineExceeded)
}

func contextOf(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Context(), requestTime)
}

// call sends a request to the API in this process, with the headers and thus the credentials and the origin of the page's
// request. body is encoded as JSON unless it is nil or an empty json.RawMessage; the response is decoded into out unless it is nil.
func (q *request) call(method, path string, query url.Values, body, out any) error {
	var b []byte
	if raw, is := body.(json.RawMessage); body != nil && (!is || raw != nil) {
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

// recorder records a response of the API.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) { r.status = status }

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
