package gateway

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/client"
)

const triggerFile = `{
  "rules": [
    {"type": "com.shop.order.*", "start": "fulfil-order", "id": "order-{data.order.id}"},
    {"type": "com.shop.offered", "update": "offer", "id": "order-{subject}"},
    {"type": "com.shop.bid", "start": "fulfil-order", "update": "offer", "id": "order-{subject}"},
    {"type": "com.shop.approved", "source": "/finance/*", "event": "approved", "id": "order-{subject}"},
    {"type": "com.shop.paid", "start": "tenant", "event": "paid", "id": "{data.lines.0.tenant}"},
    {"type": "github.push", "start": "build", "id": "build-{data.after}"},
    {"type": "invoice.*", "event": "invoice", "id": "{data.customer}"}
  ],
  "hooks": {"repo": {"scheme": "github", "secret_env": "REPO"}, "pay": {"scheme": "standard", "secret_env": "PAY"}}
}`

const secret = "0123456789abcdef0123456789abcdef"

// inbound is a gateway with triggers, together with the inputs that it publishes.
type inbound struct {
	*testing.T

	handler *Handler
	inputs  *nats.Subscription
	log     *bytes.Buffer
}

func newInbound(t *testing.T) *inbound {
	t.Helper()
	env := map[string]string{"REPO": secret, "PAY": "whsec_" + base64.StdEncoding.EncodeToString([]byte(secret))}
	triggers, err := ReadTriggers(strings.NewReader(triggerFile), func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := access.ReadTokens(strings.NewReader(tokenFile))
	if err != nil {
		t.Fatal(err)
	}
	c, nc := newClientOn(t, nil)
	sub, err := nc.SubscribeSync("pawl.default.to.>")
	if err == nil {
		err = nc.Flush() // the client has a connection of its own
	}
	if err != nil {
		t.Fatal(err)
	}
	log := &bytes.Buffer{}
	h := New(Config{
		Client: func() *client.Client { return c }, Access: access.Policy{Tokens: tokens}, Triggers: triggers, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	return &inbound{t, h, sub, log}
}

// post sends a body with headers, given as pairs, and expects a status.
func (in *inbound) post(status int, path, body string, headers ...string) {
	in.Helper()
	r := httptest.NewRequestWithContext(in.Context(), http.MethodPost, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	r.Body = http.MaxBytesReader(nil, r.Body, maxBody) // as the server does
	w := httptest.NewRecorder()
	in.handler.ServeHTTP(w, r)
	if w.Code != status {
		in.Errorf("POST %s %.60s %v: %d, want %d: %s", path, body, headers, w.Code, status, w.Body)
	}
}

// published returns the subject, body, sender and id of the next input.
func (in *inbound) published() (subject, body, by, id string) {
	in.Helper()
	m, err := in.inputs.NextMsg(time.Minute)
	if err != nil {
		in.Fatal(err)
	}
	return strings.TrimPrefix(m.Subject, "pawl.default.to."), string(m.Data), m.Header.Get("Pawl-By"), m.Header.Get("Pawl-Id")
}

func (in *inbound) nothing() {
	in.Helper()
	if n, _, err := in.inputs.Pending(); err != nil || n != 0 {
		in.Errorf("%d inputs were published, %v", n, err)
	}
}

func TestCloudEventsAreAppliedByTheFirstRule(t *testing.T) {
	in := newInbound(t)
	as := []string{"Authorization", "Bearer operator-token-01234567"}
	binary := func(kind, source, id string, more ...string) []string {
		h := append([]string{"Ce-Specversion", "1.0", "Ce-Type", kind, "Ce-Source", source, "Ce-Id", id, "Content-Type", "application/json"}, as...)
		return append(h, more...)
	}
	const path = "/api/v1/events"
	var ids []string
	want := func(wantSubject, wantBody string) {
		t.Helper()
		subject, body, by, id := in.published()
		if subject != wantSubject || body != wantBody || by != "bob" || id == "" {
			t.Errorf("%s %s by %s with id %q; want %s %s", subject, body, by, id, wantSubject, wantBody)
		}
		ids = append(ids, id)
	}
	order := `{"order":{"id":"4 2"}}`
	in.post(202, path, order, binary("com.shop.order.placed", "/shop", "e-1")...)
	want("order-4%202.start.fulfil-order", order)
	in.post(202, path, `{"specversion":"1.0","type":"com.shop.order.placed","source":"/shop","id":"e-1","data":`+order+`}`, append(as, "Content-Type", "application/cloudevents+json; charset=utf-8")...)
	want("order-4%202.start.fulfil-order", order)
	in.post(202, path, order, binary("com.shop.order.placed", "/shop/2", "e-1")...)
	want("order-4%202.start.fulfil-order", order)
	if ids[0] != ids[1] || ids[0] == ids[2] {
		t.Errorf("message ids %v: want one id for the same source and id", ids)
	}
	in.post(202, path, `"ok"`, binary("com.shop.approved", "/finance/eu", "e-2", "Ce-Subject", "7")...)
	want("order-7.event.approved", `"ok"`)
	in.post(202, path, `{"lines":[{"tenant":12}]}`, binary("com.shop.paid", "/shop", "e-3")...)
	want("12.start.tenant", `{"lines":[{"tenant":12}]}`)

	in.post(202, path, `"30"`, binary("com.shop.offered", "/shop", "e-6", "Ce-Subject", "7")...)
	want("order-7.update.offer", `"30"`)
	in.post(202, path, `"40"`, binary("com.shop.bid", "/shop", "e-7", "Ce-Subject", "8")...)
	want("order-8.start.fulfil-order", `"40"`)

	in.post(200, path, order, binary("com.other", "/shop", "e-4")...)
	in.post(200, path, `"ok"`, binary("com.shop.approved", "/shop", "e-4")...) // another source
	for body, x := range map[string]struct {
		status  int
		headers []string
	}{
		`{"order":{}}`:                 {400, binary("com.shop.order.placed", "/shop", "e-5")}, // no value for the placeholder
		`{"order":{"id":[]}}`:          {400, binary("com.shop.order.placed", "/shop", "e-5")},
		`{"order":{"id":"1"}}`:         {400, binary("com.shop.order.placed", "/shop", "")},
		`{"id":"1"}`:                   {400, append(as, "Content-Type", "application/json")}, // not a CloudEvent
		`<order/>`:                     {415, binary("com.shop.order.placed", "/shop", "e-5", "Content-Type", "application/xml")},
		"\"\xff\"":                     {415, binary("com.shop.approved", "/finance/eu", "e-5", "Ce-Subject", "7")},
		`[]`:                           {415, append(as, "Content-Type", "application/cloudevents-batch+json")},
		strings.Repeat(" ", 2<<20):     {413, binary("com.shop.order.placed", "/shop", "e-5")},
		`{"order":{"id":"viewer"}}`:    {403, append(binary("com.shop.order.placed", "/shop", "e-5"), "Authorization", "Bearer viewer-token-0123456789")},
		`{"order":{"id":"anonymous"}}`: {401, append(binary("com.shop.order.placed", "/shop", "e-5"), "Authorization", "")},
		`{"order":{"id":"evil"}}`:      {403, append(binary("com.shop.order.placed", "/shop", "e-5"), "Sec-Fetch-Site", "cross-site")},
		`{"order":{"id":"` + strings.Repeat("x", 300) + `"}}`:                            {400, binary("com.shop.order.placed", "/shop", "e-5")},
		`{"order":{"id":"big"},"x":"` + strings.Repeat("x", transport.MaxPayload) + `"}`: {413, binary("com.shop.order.placed", "/shop", "e-5")},
	} {
		in.post(x.status, path, body, x.headers...)
	}
	in.nothing()
	in.post(202, "/api/v1/instances", `{"orchestration":"hello"}`, append(as, "Content-Type", "application/json")...)
	subject, _, by, _ := in.published()
	if by != "bob" {
		in.Errorf("started by %s", by)
	}
	id, _, _ := strings.Cut(subject, ".")
	for _, line := range []string{
		"operation=postCloudEvent path=/api/v1/events location=/api/v1/instances/order-7 by=bob",
		"operation=startInstance path=/api/v1/instances location=/api/v1/instances/" + id + " by=bob",
	} {
		if log := in.log.String(); !strings.Contains(log, line) {
			in.Errorf("the audit log has no %q: %s", line, log)
		}
	}
}

func sign(parts ...string) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(strings.Join(parts, ".")))
	return mac.Sum(nil)
}

// A webhook requires the signature of its sender. A replayed request is the same message, and an old one is refused.
func TestWebhooksRequireTheirSignature(t *testing.T) {
	in := newInbound(t)
	push, invoice := `{"after":"abc"}`, `{"type":"invoice.paid","customer":"acme"}`
	github := func(signed, event, delivery string) []string {
		return []string{"X-Hub-Signature-256", "sha256=" + hex.EncodeToString(sign(signed)), "X-GitHub-Event", event, "X-GitHub-Delivery", delivery}
	}
	standard := func(id string, at time.Time, signed string) []string {
		stamp := strconv.FormatInt(at.Unix(), 10)
		good := base64.StdEncoding.EncodeToString(sign(id, stamp, signed))
		return []string{"Webhook-Id", id, "Webhook-Timestamp", stamp, "Webhook-Signature", "v1,bm9uZQ== v2,x v1," + good}
	}
	var ids []string
	want := func(wantSubject, wantBody, wantBy string) {
		t.Helper()
		subject, body, by, id := in.published()
		if subject != wantSubject || body != wantBody || by != wantBy || id == "" {
			t.Errorf("%s %s by %s with id %q", subject, body, by, id)
		}
		ids = append(ids, id)
	}
	for _, delivery := range []string{"d-1", "d-2"} { // a replay under another delivery id, which is not signed
		in.post(202, "/hooks/repo", push, github(push, "push", delivery)...)
		want("build-abc.start.build", push, "hook:repo")
	}
	for range 2 {
		in.post(202, "/hooks/pay", invoice, standard("msg-1", time.Now(), invoice)...)
		want("acme.event.invoice", invoice, "hook:pay")
	}
	if ids[0] != ids[1] || ids[2] != ids[3] {
		t.Errorf("a replay has another message id: %v", ids)
	}
	in.post(200, "/hooks/repo", `{"zen":"x"}`, github(`{"zen":"x"}`, "ping", "d-3")...) // no rule matches
	good := standard("msg-2", time.Now(), invoice)
	for name, x := range map[string]struct {
		status     int
		path, body string
		headers    []string
	}{
		"no such hook":         {404, "/hooks/other", push, github(push, "push", "d")},
		"no signature":         {401, "/hooks/repo", push, nil},
		"of another body":      {401, "/hooks/repo", push, github(push+" ", "push", "d")},
		"cut":                  {401, "/hooks/repo", push, []string{"X-Hub-Signature-256", "sha256=" + hex.EncodeToString(sign(push)[:16])}},
		"empty":                {401, "/hooks/repo", push, []string{"X-Hub-Signature-256", "sha256="}},
		"of the other scheme":  {401, "/hooks/pay", push, github(push, "push", "d")},
		"old":                  {401, "/hooks/pay", invoice, standard("msg-3", time.Now().Add(-time.Hour), invoice)},
		"from the future":      {401, "/hooks/pay", invoice, standard("msg-3", time.Now().Add(time.Hour), invoice)},
		"another id":           {401, "/hooks/pay", invoice, append(good, "Webhook-Id", "msg-4")},
		"another time":         {401, "/hooks/pay", invoice, append(good, "Webhook-Timestamp", fmt.Sprint(time.Now().Unix()-1))},
		"another body":         {401, "/hooks/pay", invoice + " ", good},
		"another version":      {401, "/hooks/pay", invoice, append(good, "Webhook-Signature", "v1a,"+strings.TrimPrefix(strings.Fields(good[5])[2], "v1,"))},
		"too large":            {413, "/hooks/repo", strings.Repeat("x", 2<<20), nil},
		"signed, and not JSON": {415, "/hooks/repo", "{", github("{", "push", "d")},
		"signed, not UTF-8":    {415, "/hooks/repo", "\"\xff\"", github("\"\xff\"", "push", "d")},
	} {
		t.Log(name)
		in.post(x.status, x.path, x.body, x.headers...)
	}
	in.nothing()
	log := in.log.String()
	if !strings.Contains(log, "by=hook:repo") || strings.Contains(log, secret) {
		t.Errorf("the audit log: %.500s", log)
	}
	if n := strings.Count(log, "signature not valid"); n != 1 { // otherwise anyone could fill the log
		t.Errorf("%d lines for requests without a valid signature, want 1", n)
	}
	if n := strings.Count(log, "change requested"); n != 7 {
		t.Errorf("%d lines of the audit log, want one for each signed request: %s", n, log)
	}
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodOptions} {
		if r := refused(t, in.handler, method, "/hooks/repo", http.StatusMethodNotAllowed, method); r.Header.Get("Allow") != http.MethodPost {
			t.Errorf("Allow: %s", r.Header.Get("Allow"))
		}
	}
}

func TestInvalidTriggersAreReportedWithTheirRule(t *testing.T) {
	for text, want := range map[string]string{
		`{"rules":[{"type":"a"}]}`: "rule 1: type, id, and start, event or update", `{"rules":[{"type":"a","event":"a","update":"b","id":"x"}]}`: "exclude", `{"rulez":[]}`: "rulez",
		`{"rules":[{"type":"[","start":"a","id":"x"}]}`:                    "pattern",
		`{"rules":[{"type":"a","start":"a b","id":"x"}]}`:                  "a b",
		`{"rules":[{"type":"a","start":"a","id":"{data.x"}]}`:              "not closed",
		`{"rules":[{"type":"a","start":"a","id":"{tenant}"}]}`:             "{tenant}",
		`{"hooks":{"a":{"scheme":"none","secret_env":"GOOD"}}}`:            "scheme",
		`{"hooks":{"a":{"scheme":"github","secret_env":"MISSING"}}}`:       "0 bytes",
		`{"hooks":{"a":{"scheme":"standard","secret_env":"GOOD"}}}`:        "base64",
		`{"hooks":{"a/b":{"scheme":"github","secret_env":"GOOD"}}}`:        "a/b",
		`{"rules":[{"type":"a","start":"a","id":"white space {data.x}"}]}`: "white space",
	} {
		_, err := ReadTriggers(strings.NewReader(text), func(name string) string { return map[string]string{"GOOD": "not-base64-but-long-enough!"}[name] })
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "long-enough") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
