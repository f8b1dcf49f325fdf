package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/pkg/client"
)

// The start form has the options of a start. A form with invalid fields is shown again with all its values.
func TestStartFormHasTheOptionsOfAStart(t *testing.T) {
	h := newHarness(t, access.Policy{Loopback: true})
	form := func(more ...string) string {
		v := url.Values{"orchestration": {fulfil.Name()}, "id": {"order-1"}, "input": {`"lamp"`}}
		for i := 0; i < len(more); i += 2 {
			v.Set(more[i], more[i+1])
		}
		return v.Encode()
	}
	for _, x := range []struct{ form, has string }{
		{form("attributes", `{"tenant":`), "attributes is not JSON"},
		{form("attributes", `{"status":"x"}`), "bad attribute"},
		{form("start_at", "tomorrow", "run_timeout", "24h"), `value="24h"`},
		{form("run_timeout", "-1s", "id_reuse", "reject"), `value="reject" selected`},
	} {
		if w, body := h.do("POST", "/start", x.form); w.StatusCode != http.StatusBadRequest || !strings.Contains(body, x.has) || !strings.Contains(body, "<details open>") {
			t.Errorf("%s: %d without %q: %s", x.form, w.StatusCode, x.has, body)
		}
	}
	w, body := h.do("POST", "/start", form("attributes", `{"tenant":"acme"}`, "start_at", "2h", "run_timeout", "24h", "id_reuse", "reject"))
	if w.StatusCode != http.StatusSeeOther {
		t.Fatalf("%d %s", w.StatusCode, body)
	}
	d, err := h.client.Describe(t.Context(), "order-1")
	check(t, err)
	if d.Attributes != `{"tenant":"acme"}` || d.Status != client.Pending || d.Deadline.Sub(d.StartAt).Hours() != 24 {
		t.Errorf("%+v", d)
	}
	if w, body := h.do("POST", "/start", form("id_reuse", "reject")); w.StatusCode != http.StatusConflict || !strings.Contains(body, "order-1") {
		t.Errorf("an id that is in use: %d %s", w.StatusCode, body)
	}
	if _, body := h.do("GET", "/start?like=order-1", ""); !strings.Contains(body, "&#34;acme&#34;") {
		t.Error("the form of another instance lacks its attributes")
	}
}
