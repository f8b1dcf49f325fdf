package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/attribute"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

// problem is an error as defined by RFC 9457.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Do     string `json:"do,omitempty"` // advice to the caller
}

// Error returns the detail.
func (p *problem) Error() string { return p.Detail }

const (
	repeat     = "repeat the request, with the same Idempotency-Key"
	otherInput = "send less, or store it elsewhere and send a reference"
)

// problemOf maps an error to a problem with its status.
func problemOf(err error) *problem {
	if p, known := errors.AsType[*problem](err); known {
		return p
	}
	if r, refused := errors.AsType[*access.Refusal](err); refused {
		return &problem{Status: r.Status, Detail: r.Detail, Do: r.Do}
	}
	p := &problem{Status: http.StatusInternalServerError, Detail: userText(err)}
	_, badPolicy := errors.AsType[*history.PolicyError](err)
	switch {
	case errors.Is(err, client.ErrNotFound), errors.Is(err, client.ErrNoStatus), errors.Is(err, client.ErrNoSchedule),
		errors.Is(err, client.ErrNoBatch):
		p.Status = http.StatusNotFound
	case errors.Is(err, pawl.ErrBadName), errors.Is(err, pawl.ErrBadID), errors.Is(err, transport.ErrBadName), errors.Is(err, transport.ErrBadInstance), errors.Is(err, client.ErrNoImport), badPolicy,
		errors.Is(err, transport.ErrMalformed), errors.Is(err, attribute.ErrInvalid):
		p.Status = http.StatusBadRequest
	case errors.Is(err, client.ErrRunning):
		p.Status, p.Do = http.StatusConflict, "cancel it first, or purge it with force=true"
	case errors.Is(err, client.ErrRefused), errors.Is(err, client.ErrEnded), errors.Is(err, client.ErrIDTaken):
		p.Status = http.StatusConflict
	case errors.Is(err, pawl.ErrTooLarge), errors.Is(err, transport.ErrTooLarge):
		p.Status, p.Do = http.StatusRequestEntityTooLarge, otherInput
	case errors.Is(err, client.ErrUnknown):
		p.Status, p.Do = http.StatusGatewayTimeout, "the message may have been accepted: "+repeat
	case errors.Is(err, transport.ErrPermission):
		p.Status, p.Do = http.StatusForbidden, "the NATS user of the process that serves the API needs this permission"
	case errors.Is(err, transport.ErrStreamFull):
		p.Status, p.Do = http.StatusInsufficientStorage, "wait until the orchestrators have read the stream, or raise its limit"
	case errors.Is(err, client.ErrNoOwner), errors.Is(err, client.ErrClosed), errors.Is(err, transport.ErrDisconnected), errors.Is(err, transport.ErrNoStream):
		p.Status, p.Do = http.StatusServiceUnavailable, repeat
	case errors.Is(err, transport.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		p.Status, p.Do = http.StatusGatewayTimeout, repeat
	}
	return p
}

// defaultAdvice returns the default advice for a status.
func defaultAdvice(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "change the request; GET /api/v1/openapi.json describes the operations"
	case http.StatusUnauthorized:
		return "send a token that is valid, or sign with the secret of the hook"
	case http.StatusForbidden:
		return "use a token whose role permits it"
	case http.StatusNotFound:
		return "check the name; an instance no longer exists after a purge or the end of its retention"
	case http.StatusMethodNotAllowed:
		return "use a method that the header Allow lists"
	case http.StatusConflict:
		return "read the instance, and decide by its status"
	case http.StatusRequestEntityTooLarge:
		return otherInput
	case http.StatusUnsupportedMediaType:
		return "send application/json"
	default:
		return "repeat the request; the log of the process has the cause"
	}
}

// userText returns the text of an error without the package prefixes, in at most maxDetail bytes.
func userText(err error) string {
	all := err.Error()
	for _, pkg := range []string{"client: ", "pawl: ", "queue: "} {
		all = strings.TrimPrefix(all, pkg)
	}
	return text.Shorten(all, maxDetail)
}

// write answers with an object, or with an empty body. Responses are not cacheable, because they describe the current state.
func (a *server) write(w http.ResponseWriter, status int, contentType string, body any) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if body == nil {
		w.WriteHeader(status)
		return
	}
	b, err := json.Marshal(body)
	if err != nil { // all types can be encoded
		a.log.Error("http answer not encodable", "error", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	b = append(b, '\n')
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b) // the client may have disconnected
}
