package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/live"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/client"
)

const (
	maxBody     = 2*transport.MaxPayload + 64<<10 // bytes of a request body: an input and the event that is sent with it
	maxWait     = time.Minute                     // maximum time of a long poll
	defaultRows = 100
	maxDetail   = 2000 // bytes of the detail of a problem, which may quote the request
	maxKey      = 256  // bytes of an Idempotency-Key; see client.MessageID
)

// operation is one operation of the API. The router and the OpenAPI document are derived from the same list.
type operation struct {
	method, path string
	id           string // operationId
	summary      string
	role         access.Role
	query        []parameter
	keyed        bool        // honors Idempotency-Key
	request      any         // a value of the type of the body; nil: no body
	optional     bool        // the body is optional
	replies      map[int]any // a value of the type of each reply by status; nil: no body
	serve        func(*call) (answer, error)
	stream       func(*call, http.ResponseWriter) error // instead of serve: answers with server-sent events
}

// get returns an operation for viewers. Its reply has the type of reply.
func get(path, id string, serve func(*call) (answer, error), reply any, summary string, query ...parameter) operation {
	return operation{method: http.MethodGet, path: path, id: id, summary: summary, role: access.Viewer, serve: serve, query: query, replies: map[int]any{http.StatusOK: reply}}
}

// parameter is a query parameter.
type parameter struct {
	name, description string
	kind              string // JSON type; empty: string
}

// call is a request that is being served.
type call struct {
	*http.Request

	client *client.Client
	hub    *live.Hub
	query  url.Values
	user   access.User

	optional bool // the body is optional
	triggers *Triggers
	control  *http.ResponseController // nil in a stream and in a hook
}

// extendReadDeadline extends the read deadline to the time of a long poll, after the body has been read. Otherwise the deadline would
// cancel the context of the request.
func (c *call) extendReadDeadline() {
	if c.control == nil {
		return
	}
	_ = c.control.SetReadDeadline(time.Now().Add(maxWait + writeTimeout))
}

// answer is the answer to a request.
type answer struct {
	status   int    // 0: 200
	location string // URL of what was created or accepted
	body     any
}

// checkQuery rejects unknown parameters: with a misspelled filter the answer would be about something else.
func (o *operation) checkQuery(q url.Values) error {
	for name := range q {
		if !slices.ContainsFunc(o.query, func(p parameter) bool { return p.name == name }) {
			known := make([]string, 0, len(o.query))
			for _, p := range o.query {
				known = append(known, p.name)
			}
			return badRequest("there is no query parameter %q; known: %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

func badRequest(format string, args ...any) error {
	return &problem{Status: http.StatusBadRequest, Detail: text.Shorten(fmt.Sprintf(format, args...), maxDetail)}
}

// limit returns the query parameter limit, from 1 to maxRows. Default: 100.
func (c *call) limit() (int, error) {
	text := c.query.Get("limit")
	if text == "" {
		return defaultRows, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxRows {
		return 0, badRequest("limit %q: must be 1 to %d", text, maxRows)
	}
	return n, nil
}

// firstOf converts at most limit rows, and reports whether there are more.
func firstOf[Row, Out any](rows iter.Seq2[Row, error], limit int, of func(Row) Out) (all []Out, more bool, err error) {
	all = []Out{} // not null in JSON
	for row, err := range rows {
		if err != nil {
			return nil, false, err
		}
		if more = len(all) == limit; more {
			break
		}
		all = append(all, of(row))
	}
	return all, more, nil
}

func (c *call) number(name string) (uint64, error) {
	text := c.query.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, badRequest("%s %q: must be a number", name, text)
	}
	return n, nil
}

func (c *call) flag(name string) (bool, error) {
	switch text := c.query.Get(name); text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, badRequest("%s %q: must be true or false", name, text)
	}
}

// wait parses the maximum time of a long poll; 0: answer at once.
func wait(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > maxWait {
		return 0, badRequest("wait %q: must be a duration such as 30s, at most %s", text, maxWait)
	}
	return d, nil
}

// read reads the body of the request.
func (c *call) read() ([]byte, error) {
	b, err := io.ReadAll(c.Body)
	if tooLarge, is := errors.AsType[*http.MaxBytesError](err); is {
		return nil, &problem{Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("the body has more than %d bytes", tooLarge.Limit)}
	}
	if err != nil {
		return nil, badRequest("read the body: %v", err)
	}
	c.extendReadDeadline()
	return b, nil
}

// body reads the body of the request. A body that is not empty must be JSON.
func (c *call) body() ([]byte, error) {
	b, err := c.read()
	if err != nil {
		return nil, err
	}
	if len(b) > 0 {
		if !utf8.Valid(b) { // a history that contains the body would not be JSON (RFC 8259, 8.1)
			return nil, badRequest("the body is not UTF-8")
		}
		// A page of another origin cannot send this content type without a CORS preflight: a second line of defense.
		if kind, _, _ := strings.Cut(c.Header.Get("Content-Type"), ";"); strings.TrimSpace(kind) != "application/json" {
			return nil, &problem{Status: http.StatusUnsupportedMediaType, Detail: fmt.Sprintf("Content-Type %q: must be application/json", kind)}
		}
	}
	return b, nil
}

// decode decodes the body into v. It rejects unknown fields, because a misspelled field would be ignored.
func (c *call) decode(v any) error {
	b, err := c.body()
	if err != nil || len(b) == 0 && c.optional {
		return err
	}
	if len(b) == 0 {
		return badRequest("the body is missing")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return badRequest("the body is not what is expected: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return badRequest("the body has more than one JSON value")
	}
	return nil
}

// key returns the Idempotency-Key, or an empty string.
func (c *call) key() (string, error) {
	k := c.Header.Get("Idempotency-Key")
	if len(k) > maxKey {
		return "", badRequest("Idempotency-Key has %d bytes; at most %d", len(k), maxKey)
	}
	for i := range len(k) {
		if k[i] < ' ' || k[i] > '~' {
			return "", badRequest("Idempotency-Key has characters that are not printable ASCII")
		}
	}
	return k, nil
}
