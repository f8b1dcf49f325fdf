package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/queue"
)

// problem is an error as RFC 9457 has it.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
}

// Error gives the detail.
func (p *problem) Error() string { return p.Detail }

// problemOf finds the status of an error of the client.
func problemOf(err error) *problem {
	p := &problem{Status: http.StatusInternalServerError, Detail: strings.TrimPrefix(err.Error(), "client: ")}
	switch {
	case errors.Is(err, client.ErrNotFound):
		p.Status = http.StatusNotFound
	case errors.Is(err, pawl.ErrBadName), errors.Is(err, pawl.ErrBadID):
		p.Status = http.StatusBadRequest
	case errors.Is(err, client.ErrNoOwner), errors.Is(err, client.ErrClosed), errors.Is(err, queue.ErrDisconnected):
		p.Status = http.StatusServiceUnavailable
	case errors.Is(err, queue.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		p.Status = http.StatusGatewayTimeout
	}
	return p
}

// write answers with an object. What is asked for now is old in a moment, so nobody keeps it.
func (a *api) write(w http.ResponseWriter, status int, contentType string, body any) {
	b, err := json.Marshal(body)
	if err != nil { // the types are ours
		a.log.Error("an answer over HTTP can not be encoded", "error", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // who has gone does not read
}
