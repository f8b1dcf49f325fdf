package gateway

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/client"
)

// refusedBy checks that an error is one of the request, with a bounded text.
func refusedBy(t *testing.T, err error) {
	t.Helper()
	p := problemOf(err)
	if p.Status < http.StatusBadRequest || p.Status >= http.StatusInternalServerError || p.Detail == "" || len(p.Detail) > maxDetail+len(text.Mark) {
		t.Errorf("%d, %d bytes: %.200s", p.Status, len(p.Detail), p.Detail)
	}
}

func fuzzTriggers(f *testing.F) *Triggers {
	f.Helper()
	env := map[string]string{"REPO": secret, "PAY": "whsec_" + base64.StdEncoding.EncodeToString([]byte(secret))}
	triggers, err := ReadTriggers(strings.NewReader(triggerFile), func(name string) string { return env[name] })
	if err != nil {
		f.Fatal(err)
	}
	return triggers
}

// FuzzCloudEvent decodes any request as a CloudEvent, and builds the id of its instance. A rejection is an error of the request with a bounded
// text. The data of an accepted event is JSON, and the id is valid.
func FuzzCloudEvent(f *testing.F) {
	triggers := fuzzTriggers(f)
	f.Add("application/json", "com.shop.order.created", "/shop", "e-1", "42", `{"order":{"id":7}}`)
	f.Add("application/json", "com.shop.paid", "/shop", "e-1", "", `{"lines":[{"tenant":"acme/ä"}]}`)
	f.Add("application/json", "com.shop.approved", "/finance/x", "e-1", strings.Repeat("s", 5000), `1`)
	f.Add("application/json", "github.push", "/finance/x", "e-1", "s", `{"after":1e400}`)
	f.Add("application/cloudevents+json", "", "", "", "", `{"specversion":"1.0","type":"com.shop.offered","source":"/s","id":"1","subject":"7","data":{"a":[1]}}`)
	f.Add("application/cloudevents+json; charset=UTF-8", "", "", "", "", `{"specversion":"1.0","type":"invoice.x","source":"/s","id":"1","data_base64":"eyJjdXN0b21lciI6ICJcdTAwMDAifQ=="}`)
	f.Add("application/cloudevents+json", "", "", "", "", `{"specversion":"`+strings.Repeat("1", 20_000)+`","time":"`+strings.Repeat("x", 20_000)+`"}`)
	f.Add("application/cloudevents+json", "", "", "", "", `{"specversion":"0.3","type":"a","source":"%zz","id":"1","datacontentencoding":"base64","data":"x"}`)
	f.Add("application/cloudevents-batch+json", "", "", "", "", `[]`)
	f.Add("text/plain", "invoice.paid", "/s", "1", "", "\xff")
	f.Fuzz(func(t *testing.T, contentType, kind, source, id, subject, body string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/events", strings.NewReader(body))
		r.Header.Set("Content-Type", contentType)
		for name, v := range map[string]string{"Ce-Type": kind, "Ce-Source": source, "Ce-Id": id, "Ce-Subject": subject} {
			if r.Header.Set("Ce-Specversion", "1.0"); v != "" {
				r.Header.Set(name, v)
			}
		}
		c := &call{Request: r, triggers: triggers, user: access.User{Name: "ann", Role: access.Operator}}
		h, err := c.cloudEvent()
		if err != nil {
			if len(contentType)+len(kind)+len(source)+len(id)+len(subject) < 1000 {
				refusedBy(t, err)
			}
			return
		}
		if len(h.data) > 0 && !validJSON(h.data) || h.id == "" || h.kind == "" || h.source == "" {
			t.Errorf("accepted: %+v", h)
		}
		for _, rule := range triggers.Rules {
			instance, err := rule.instance(h.value)
			if err == nil && pawl.ValidateID(instance) != nil {
				t.Errorf("the id is %q", instance)
			}
			if _, known := errors.AsType[*problem](err); err != nil && !known && !errors.Is(err, pawl.ErrBadID) {
				t.Errorf("%T: %.200v", err, err)
			}
		}
	})
}

// FuzzWebhook verifies any headers and body as a webhook of each scheme. A request without a signature of the secret is refused with the
// same error. A signed one is accepted as sent.
func FuzzWebhook(f *testing.F) {
	triggers := fuzzTriggers(f)
	now := time.Unix(1_790_000_000, 0)
	f.Add("msg-1", "1790000000", "v1,bm9uZQ==", "push", []byte(`{"type":"invoice.paid","customer":"acme"}`))
	f.Add("", "-9223372036854775808", "v1, v1,= v2,x", "", []byte(nil))
	f.Add("msg.1", "1790000001", "sha256=00", "a\r\nb", []byte("\xff"))
	f.Add("m", "1789999000", "sha256=zz", "ping", []byte(`{"type":7}`))
	f.Fuzz(func(t *testing.T, id, stamp, signature, kind string, body []byte) {
		for _, h := range triggers.Hooks {
			header := http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {signature}, "X-Hub-Signature-256": {signature}, "X-Github-Event": {kind}}
			if _, err := h.verify(header, body, now); !errors.Is(err, errBadSignature) {
				t.Errorf("accepted a signature %q: %v", signature, err)
			}
			header.Set("Webhook-Signature", signature+" v1,"+base64.StdEncoding.EncodeToString(sign(id, stamp, string(body))))
			header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(sign(string(body))))
			e, err := h.verify(header, body, now)
			seconds, malformed := strconv.ParseInt(stamp, 10, 64)
			old := now.Sub(time.Unix(seconds, 0)).Abs() > hookSkew
			switch {
			case h.Scheme == schemeStandard && (malformed != nil || id == ""):
				if !errors.Is(err, errBadSignature) {
					t.Errorf("id %q, time %q: %v", id, stamp, err)
				}
			case h.Scheme == schemeStandard && old:
				if !errors.Is(err, errOldSignature) {
					t.Errorf("time %q: %v", stamp, err)
				}
			case err != nil || string(e.data) != string(body) || e.id == "":
				t.Errorf("%+v, %v", e, err)
			}
		}
	})
}

// FuzzBody decodes any body as that of each operation. A rejection is an error of the request with a bounded text. An accepted body is the
// same after it is encoded and decoded again.
func FuzzBody(f *testing.F) {
	for _, body := range []string{
		`{"orchestration":"a","input":[1e999],"id":"x","delay":"1h"}`, `{"cron":["* * * * *"],"zone":"Europe/Zurich","jitter":"5s"}`, `{"where":"status = failed","verb":"cancel"}`,
		`{"export":{"a":null},"continue":true}`, `{"concurrency":-1}`, `{"to":18446744073709551615}`, `{"reason":"\ud800"}`, `null`, `{} {}`, `[`, "\xff", `{"Reason":"a","reason":"b"}`, `{"delay":"` + strings.Repeat("1", 20_000) + `"}`,
	} {
		f.Add([]byte(body), "application/json")
	}
	f.Add([]byte(`{"`+strings.Repeat("x", 20_000)+`":1}`), "application/json; charset=utf-8")
	f.Add([]byte(`{}`), "text/plain")
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		decode := func(v any, b []byte) error {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(string(b)))
			r.Header.Set("Content-Type", contentType)
			return (&call{Request: r}).decode(v)
		}
		for _, o := range operations() {
			if o.request == nil {
				continue
			}
			v := reflect.New(reflect.TypeOf(o.request)).Interface()
			if err := decode(v, body); err != nil {
				if len(contentType) < 1000 {
					refusedBy(t, err)
				}
				continue
			}
			once, err := json.Marshal(v)
			if err != nil {
				t.Fatalf("%s: %q is accepted, and not encoded: %v", o.id, body, err)
			}
			again := reflect.New(reflect.TypeOf(o.request)).Interface()
			err = decode(again, once)
			if twice, _ := json.Marshal(again); err != nil || string(twice) != string(once) {
				t.Errorf("%s: %s became %s, %v", o.id, once, twice, err)
			}
		}
	})
}

// FuzzRequest sends any request to a server with users that is not connected to its namespace. No request is served without a token, and every
// refusal is a problem with advice.
func FuzzRequest(f *testing.F) {
	tokens, err := access.ReadTokens(strings.NewReader(tokenFile))
	if err != nil {
		f.Fatal(err)
	}
	h := New(Config{Access: access.Policy{Tokens: tokens}, Client: func() *client.Client { return nil }, Triggers: fuzzTriggers(f)})
	f.Cleanup(h.Close)
	f.Add(http.MethodGet, "/api/v1/instances?where=status+%3D+failed", "Authorization", "Bearer operator-token-01234567", "")
	f.Add(http.MethodGet, "/api/v1/instances/a%2fb/history?after=-1", "Authorization", "Bearer ey.a.b", "")
	f.Add(http.MethodPost, "/api/v1/instances", "Cookie", "pawl_token=operator-token-01234567", `{"orchestration":"a"}`)
	f.Add(http.MethodPost, "/hooks/repo", "X-Hub-Signature-256", "sha256=00", "{}")
	f.Add(http.MethodGet, "/api/v1/watch", "Last-Event-ID", "a-1", "")
	f.Add("CONNECT", "/api/v1/../../etc/passwd", "Host", "evil.example", "")
	f.Add(http.MethodGet, "//api/v1/openapi.json", "Accept-Encoding", "gzip;q=x", "")
	f.Fuzz(func(t *testing.T, method, target, header, value, body string) {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://localhost", strings.NewReader(body))
		if err != nil {
			return // net/http refuses such a method
		}
		if r.URL, err = r.URL.Parse(target); err != nil || !strings.HasPrefix(r.URL.Path, "/api/") && !strings.HasPrefix(r.URL.Path, "/hooks/") {
			return
		}
		r.RequestURI, r.RemoteAddr = target, "192.0.2.1:1"
		r.Header.Set(header, value)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		authorized := strings.Contains(value, "-token-01234567")
		switch {
		case w.Code == http.StatusServiceUnavailable && authorized: // there is no namespace
		case w.Code == http.StatusOK && strings.HasSuffix(r.URL.Path, "/openapi.json"):
		case w.Code < http.StatusMultipleChoices:
			t.Errorf("%s %q: %d %.200s", method, target, w.Code, w.Body)
		default:
			if err := checkAnswer(w); err != nil && w.Header().Get("Content-Encoding") == "" {
				t.Errorf("%s %q: %d %.200s: %v", method, target, w.Code, w.Body, err)
			}
		}
	})
}
