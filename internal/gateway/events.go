package gateway

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/pkg/client"
)

// triggered is the answer to an external event.
type triggered struct {
	Matched  bool   `json:"matched"` // whether a rule matched; if so, its message is stored
	Instance string `json:"instance,omitempty"`
}

// postEvent receives a CloudEvent in binary or structured mode.
func postEvent(c *call) (answer, error) {
	h, err := c.cloudEvent()
	if err != nil {
		return answer{}, err
	}
	return c.apply(h)
}

func (c *call) cloudEvent() (h externalEvent, _ error) {
	mode, _, _ := strings.Cut(c.Header.Get("Content-Type"), ";")
	if mode = strings.TrimSpace(mode); strings.HasPrefix(mode, "application/cloudevents") && mode != "application/cloudevents+json" {
		return h, &problem{Status: http.StatusUnsupportedMediaType, Detail: fmt.Sprintf("Content-Type %q: must be application/cloudevents+json, or that of the data with the attributes in headers", mode)}
	}
	body, err := c.read()
	if err != nil {
		return h, err
	}
	r := c.Clone(c.Context())
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	e, err := cehttp.NewEventFromHTTPRequest(r)
	if err == nil {
		err = e.Validate()
	}
	if err != nil {
		return h, badRequest("not a CloudEvent: %s", strings.Join(strings.Fields(err.Error()), " "))
	}
	h = externalEvent{id: e.ID(), source: e.Source(), kind: e.Type(), subject: e.Subject(), data: e.Data()}
	if len(h.data) > 0 && !validJSON(h.data) {
		return h, &problem{Status: http.StatusUnsupportedMediaType, Detail: "the event's data is not JSON"}
	}
	return h, nil
}

// validJSON reports whether b is JSON as defined by RFC 8259, which requires UTF-8. Other programs read the data later.
func validJSON(b []byte) bool { return json.Valid(b) && utf8.Valid(b) }

// apply executes the first matching rule. A repeated event, one with the same source and id, has no effect.
func (c *call) apply(h externalEvent) (answer, error) {
	r, matched := c.triggers.rule(h)
	if !matched {
		return answer{body: triggered{}}, nil
	}
	id, err := r.instance(h.value)
	if err != nil {
		return answer{}, badRequest("%s", userText(err))
	}
	sum := sha256.Sum256([]byte(h.source + "\x00" + h.id))
	message := "event-" + base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:])
	by, unique, headers := client.By(c.user.Name), client.MessageID(message), c.headers()
	switch {
	case r.Update != "" && r.Start == "":
		_, err = c.client.SendUpdateRaw(c.Context(), r.Update, id, payload(h.data), by, unique, headers)
	case r.Update != "":
		_, err = c.client.UpdateWithStartRaw(c.Context(), r.Start, id, payload(nil), r.Update, payload(h.data), by, unique, headers)
	case r.Start == "":
		err = c.client.SendRaw(c.Context(), r.Event, id, payload(h.data), by, unique, headers)
	case r.Event == "":
		_, err = c.client.StartRaw(c.Context(), r.Start, id, payload(h.data), by, unique, headers)
	default:
		_, err = c.client.SendOrStartRaw(c.Context(), r.Start, id, payload(nil), r.Event, payload(h.data), by, unique, headers)
	}
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusAccepted, location: instancePath(id), body: triggered{Matched: true, Instance: id}}, nil
}

// hookSkew is the maximum difference between the time of a signature and now.
const hookSkew = 5 * time.Minute

// serveHook receives a signed webhook. The signature authenticates the sender, so no token is required. Requests without a
// valid signature are not written to the audit log, because anyone could fill it.
func (a *server) serveHook(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	begin := time.Now()
	event, err := a.signed(name, r)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	out, err := a.hook(name, r, event)
	a.logChange(r, "hook", "hook:"+name, begin, out, err)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	a.write(w, cmp.Or(out.status, http.StatusOK), "application/json", out.body)
}

// signed reads a webhook and verifies its signature.
func (a *server) signed(name string, r *http.Request) (externalEvent, error) {
	h, known := a.triggers.Hooks[name]
	if !known {
		return externalEvent{}, &problem{Status: http.StatusNotFound, Detail: "there is no such hook"}
	}
	body, err := (&call{Request: r}).read()
	if err != nil {
		return externalEvent{}, err
	}
	event, err := h.verify(r.Header, body, time.Now())
	if err != nil {
		a.log.Warn("webhook refused, signature not valid", "hook", name, "remote", r.RemoteAddr, "error", err)
		return externalEvent{}, &problem{Status: http.StatusUnauthorized, Detail: err.Error()}
	}
	event.source = "/hooks/" + name
	return event, nil
}

func (a *server) hook(name string, r *http.Request, event externalEvent) (answer, error) {
	if !validJSON(event.data) {
		return answer{}, &problem{Status: http.StatusUnsupportedMediaType, Detail: "the body is not JSON", Do: "send application/json"}
	}
	c := &call{Request: r, client: a.client(), triggers: a.triggers, user: access.User{Name: "hook:" + name, Role: access.Operator}}
	if c.client == nil {
		return answer{}, &problem{Status: http.StatusServiceUnavailable, Detail: "not connected to the namespace", Do: "repeat the request"}
	}
	return c.apply(event)
}

// verify checks the signature of a webhook and returns its event. The id of the event is covered by the signature, so a
// replayed request has the same id.
func (h Hook) verify(header http.Header, body []byte, now time.Time) (externalEvent, error) {
	mac := hmac.New(sha256.New, h.secret)
	if h.Scheme == schemeGitHub {
		mac.Write(body)
		sum := mac.Sum(nil)
		sent, err := hex.DecodeString(strings.TrimPrefix(header.Get("X-Hub-Signature-256"), "sha256="))
		if err != nil || subtle.ConstantTimeCompare(sent, sum) != 1 {
			return externalEvent{}, errBadSignature
		}
		// The delivery id is not covered by the signature: a recorded request could be replayed under another one.
		return externalEvent{id: hex.EncodeToString(sum), kind: "github." + header.Get("X-Github-Event"), data: body}, nil
	}
	id, stamp := header.Get("Webhook-Id"), header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || id == "" {
		return externalEvent{}, errBadSignature
	}
	fmt.Fprintf(mac, "%s.%s.", id, stamp)
	mac.Write(body)
	sum := mac.Sum(nil)
	for one := range strings.FieldsSeq(header.Get("Webhook-Signature")) {
		version, text, _ := strings.Cut(one, ",")
		sent, err := base64.StdEncoding.DecodeString(text)
		if version != "v1" || err != nil || subtle.ConstantTimeCompare(sent, sum) != 1 {
			continue
		}
		if skew := now.Sub(time.Unix(seconds, 0)).Abs(); skew > hookSkew {
			return externalEvent{}, errOldSignature
		}
		var typed struct {
			Type string `json:"type"`
		}
		_ = json.Unmarshal(body, &typed) // a body without a type matches only rules whose pattern matches the empty type
		return externalEvent{id: id, kind: typed.Type, data: body}, nil
	}
	return externalEvent{}, errBadSignature
}

// Errors of a signature. They do not reveal which part of it is wrong.
var (
	errBadSignature = errors.New("the signature is missing or not valid")
	errOldSignature = errors.New("the signature is more than 5 minutes old, or from the future")
)
