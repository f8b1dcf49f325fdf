package console_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/pkg/client"
)

// A batch is started from a filter after a count, shown with its progress, paused, resumed and cancelled. Selected instances
// are rewound.
func batchesAreOperated(h *harness, b *browser) {
	const many, few = 150, 3 // at one request per second, the large batch does not end before it is paused
	for i := range many {
		_, err := client.Start(h.Context(), h.client, long, fmt.Sprintf("bat-%d", i), 1)
		check(h.TB, err)
	}
	for i := range few {
		_, err := client.Start(h.Context(), h.client, long, fmt.Sprintf("bet-%d", i), 1)
		check(h.TB, err)
	}
	running := func(prefix string) uint64 {
		n, err := h.client.Count(h.Context(), client.CountOptions{Where: "status = running and id starts " + prefix})
		check(h.TB, err)
		return n.Count
	}
	h.eventually("all run", func() bool { return running("bat-") == many && running("bet-") == few })
	begin := func(op, where, title string) {
		h.Helper()
		b.open("/batches")
		b.eval(`document.querySelector("#op").value = "` + op + `"; ""`)
		b.run(fill("[name=where]", where), chromedp.KeyEvent("\r"), visible("form[action='/bulk/run']"))
		if got := b.text("h1"); got != title {
			h.Errorf("%q is requested, want %q", got, title)
		}
		if wrong := b.eval(audit); wrong != "" {
			h.Error(wrong)
		}
	}
	begin("event", "id starts bet-", "Send an event to 3 instances")
	b.run(fill("#f-event", "approved"), fill("#f-data", `"x"`), click("form.form button.main"), visible("#batch"))
	for i := range few {
		h.status(fmt.Sprintf("bet-%d", i), client.Completed)
	}
	h.eventually("the batch is listed as ended", func() bool {
		b.open("/batches")
		text := b.text("#ended")
		return strings.Contains(text, "send approved") && strings.Contains(text, "3 of 3") && strings.Contains(text, "id starts bet-")
	})

	begin("cancel", "id starts bat-", fmt.Sprintf("Cancel %d instances", many))
	b.run(fill("#f-reason", hostile), fill("#f-rate", "1"), click("form.form button.danger"), visible("#batch"))
	id := strings.TrimSpace(b.text("h1"))
	press := func(what string) {
		h.Helper()
		b.open("/batches")
		b.run(visible(`#running tr[data-row="`+id+`"]`), click(`#running tr[data-row="`+id+`"] a[href$="/`+what+`"]`), visible("form.form button"), click("form.form button"), visible("#batch"))
	}
	press("pause")
	h.status(id, client.Paused)
	press("resume")
	h.status(id, client.Running)
	press("cancel")
	h.status(id, client.Cancelled)
	b.open("/batches")
	if text := b.text("#ended"); !strings.Contains(text, hostile) {
		h.Errorf("the reason is not shown: %s", text)
	}
	if wrong := b.eval(audit); wrong != "" {
		h.Error(wrong)
	}
	if running("bat-") == 0 {
		h.Error("the cancelled batch has cancelled all instances")
	}

	b.open("/instances?where=id+starts+bet-")
	b.run(click(`input[value="bet-0"]`), click(`input[value="bet-2"]`), click("#bulk .menu summary"), click(`#bulk button[value="rewind"]`), visible("button.danger"))
	b.run(fill("#f-to", "1"), click("button.danger"), visible(".head .pill.ok"))
	for i, want := range []uint64{2, 1, 2} {
		h.until("the selected ones are rewound", func(d client.Description) bool { return d.Execution == want }, fmt.Sprintf("bet-%d", i))
	}
	b.open("/batches")
	if text := b.text("#jobs"); !strings.Contains(text, "Rewind 2 instances") || !strings.Contains(text, "2 of 2") {
		h.Error(text)
	}
}

// A form with invalid fields is shown again with all its values, and nothing is started. A batch of purges requires an
// admin.
func TestBatchFormsKeepWhatWasEntered(t *testing.T) {
	h := newHarness(t, access.Policy{Tokens: tokens(t)})
	_, err := client.Start(t.Context(), h.client, long, "long-1", 1)
	check(t, err)
	h.status("long-1", client.Running)
	viewer, operator := access.Cookie+"=viewer-token-0123456789", access.Cookie+"=operator-token-01234567"
	for _, x := range []struct {
		user, method, path, form string
		status                   int
		has, lacks               string
	}{
		{viewer, "GET", "/batches", "", 200, "No batch is running", `action="/bulk"`},
		{operator, "GET", "/batches", "", 200, `value="rewind"`, `value="purge"`},
		{viewer, "POST", "/bulk", "op=cancel&all=true", 403, "requires operator", ""},
		{operator, "POST", "/bulk", "op=purge&all=true", 403, "requires the role admin", ""},
		{operator, "POST", "/bulk", "op=requeue&all=true", 400, "Choose what to do", ""},
		{operator, "POST", "/bulk", "op=cancel&all=true&where=status+is+x", 400, "column 8", ""},
		{operator, "POST", "/bulk", "op=cancel&all=true&where=id+%3D+none", 409, "No instance can be changed", ""},
		{operator, "POST", "/bulk", "op=cancel&all=true", 200, "all instances of the namespace", ""},
		{operator, "POST", "/bulk/run", "op=rewind&all=true&where=id+%3D+long-1&to=x&reason=why+so", 400, `value="why so"`, ""},
		{operator, "POST", "/bulk/run", "op=rewind&all=true&where=id+%3D+long-1&reason=why", 400, "rewind requires to", ""},
		{operator, "POST", "/bulk/run", "op=event&all=true&where=id+%3D+long-1&event=approved&data=%7B", 400, "not JSON", ""},
		{operator, "POST", "/bulk/run", "op=event&instance=long-1&event=a+b", 303, "", ""},
		{operator, "POST", "/bulk/run", "op=pause&all=true&where=id+%3D+long-1&stop=true&rate=9000000", 400, " checked", ""},
	} {
		w, body := h.do(x.method, x.path, x.form, "Cookie", x.user)
		if w.StatusCode != x.status || !strings.Contains(body, x.has) || x.lacks != "" && strings.Contains(body, x.lacks) {
			t.Errorf("%s %s %s: %d, want %d with %q: %.800s", x.method, x.path, x.form, w.StatusCode, x.status, x.has, body)
		}
	}
	if w, _ := h.do(http.MethodPost, "/bulk/run", "op=cancel&all=true&where=id+%3D+long-1", "Cookie", operator, "Sec-Fetch-Site", "cross-site"); w.StatusCode != http.StatusForbidden {
		t.Errorf("from another site: %d", w.StatusCode)
	}
	for range h.client.Batches(t.Context(), 10) {
		t.Error("a batch was started")
	}
	h.status("long-1", client.Running)
}
