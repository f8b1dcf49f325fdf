package console_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/client"
)

func (b *browser) text(css string) string {
	return b.eval(`document.querySelector(` + "`" + css + "`" + `).innerText`)
}

// eventually waits for a condition in the namespace.
func (h *harness) eventually(what string, done func() bool) {
	h.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); !done(); {
		select {
		case <-tick.C:
		case <-deadline:
			h.Fatalf("not within a minute: %s", what)
		}
	}
}

// An action without a limit is paused by its name. An instance that waits for it names the pause, and leads to its end.
func actionIsPaused(h *harness, b *browser) {
	b.open("/limits")
	b.run(fill("#action", "reserve-stock"), click("#paused form button"), visible("form.form button.main"))
	if cli := b.text(".cli"); !strings.Contains(cli, "pawl pause --action reserve-stock") {
		h.Error(cli)
	}
	b.run(fill("#f-reason", "stocktaking"), click("form.form button.main"), visible(`tr[data-row="reserve-stock"]`))
	if row := b.text(`tr[data-row="reserve-stock"]`); !strings.Contains(row, "stocktaking") {
		h.Error(row)
	}
	if wrong := b.eval(audit); wrong != "" {
		h.Error(wrong)
	}
	_, err := client.Start(h.Context(), h.client, fulfil, "order-paused", "lamp")
	check(h.TB, err)
	h.until("it waits for the action", func(d client.Description) bool { return len(d.LimitWaits) == 1 && d.LimitWaits[0].Policy.Paused }, "order-paused")
	b.open("/limits")
	if state := b.text(`tr[data-row="reserve-stock "] .pill`); state != "paused" {
		h.Errorf("the state of the limit is %q", state)
	}
	b.open("/instances/order-paused")
	if why := b.text(".why"); !strings.Contains(why, `("stocktaking")`) {
		h.Error(why)
	}
	b.run(click(`.why a[href="/limits/reserve-stock/resume"]`), visible("form.form button.main"), click("form.form button.main"), chromedp.WaitNotPresent(chromedp.CSS(`#paused tr`)))
	h.until("it continues", func(d client.Description) bool { return len(d.AwaitedEvents) == 1 }, "order-paused")
}

// The note about a refused input is removed. The running instance with the same id is not affected.
func refusedIsRemoved(h *harness, b *browser) {
	_, err := client.Start(h.Context(), h.client, long, "long-refused", 1)
	check(h.TB, err)
	h.status("long-refused", client.Running)
	m := nats.NewMsg("pawl.default.to.long-refused.event.approved")
	m.Header.Set(transport.HeaderVersion, "99")
	_, err = h.nats.RequestMsgWithContext(h.Context(), m)
	check(h.TB, err)
	notes := func() (n int) {
		for r, err := range h.client.Refused(h.Context()) {
			check(h.TB, err)
			if r.Instance == "long-refused" {
				n++
			}
		}
		return n
	}
	h.eventually("the note is listed", func() bool { return notes() == 1 })
	b.open("/stalled")
	b.run(click(`button[value="forget"]`), visible("form.form button.main"))
	if text := b.text("main"); !strings.Contains(text, "are not affected") || !strings.Contains(text, "pawl refused --drop long-refused") {
		h.Error(text)
	}
	b.run(click("form.form button.main"), visible(".head .pill.ok"))
	if n := notes(); n != 0 {
		h.Errorf("%d notes are left", n)
	}
	h.status("long-refused", client.Running)
}

// The export of an instance is imported under another id. A text that is not an export is refused, and shown as text.
func instanceIsImported(h *harness, b *browser) {
	b.open("/instances/parcel-1")
	h.status("parcel-1", client.Completed)
	b.run(visible("#history a[download]"))
	file := func(js string) { // as if the user had chosen the file
		b.h.Helper()
		b.eval(`delete document.body.dataset.set; (async () => { const t = new DataTransfer(); t.items.add(new File([` + js + `], "x.json")); document.querySelector("#file").files = t.files; document.body.dataset.set = "yes" })(); ""`)
		b.run(chromedp.WaitReady(chromedp.CSS(`body[data-set]`)))
	}
	b.open("/import")
	b.run(fill("#id", "parcel-copy"))
	file(`await (await fetch("/api/v1/instances/parcel-1/export")).text()`)
	b.run(click("form button.main"), visible(".head .pill.ok"))
	h.status("parcel-copy", client.Completed)
	b.open("/import")
	b.run(fill("#id", "parcel-copy"), fill("#export", `["<img src=x onerror=hacked=1></textarea><script>hacked=1</script>"]`), click("form button.main"), visible(`[role="alert"]`))
	if text := b.text(`[role="alert"]`); !strings.Contains(text, "import of parcel-copy") {
		h.Error(text)
	}
	if wrong := b.eval(audit); wrong != "" {
		h.Error(wrong)
	}
	file(`JSON.stringify({pawl_export: 1, instance: {instance: "<img src=x onerror=hacked=1>"}, executions: [{events: [{kind: "<script>hacked=1</script>"}]}]})`)
	b.run(click("form button.main"), visible(`[role="alert"]`))
	if text := b.text(`[role="alert"]`); !strings.Contains(text, "import of parcel-copy") {
		h.Error(text)
	}
	if wrong := b.eval(audit); wrong != "" {
		h.Error(wrong)
	}
}

// A pause requires an operator and an import requires an admin. Pages of other sites can do neither, and a form is not read
// beyond the maximum size.
func TestPausesAndImportsAreBoundedByRoleOriginAndSize(t *testing.T) {
	h := newHarness(t, access.Policy{Tokens: tokens(t)})
	cookie := func(token string) string { return access.Cookie + "=" + token }
	viewer, operator, admin := cookie("viewer-token-0123456789"), cookie("operator-token-01234567"), cookie("admin-token-01234567890")
	form := func(export string) string {
		part := func(name, text string) string {
			return "--x\r\nContent-Disposition: form-data; name=\"" + name + "\"; filename=\"" + name + "\"\r\n\r\n" + text + "\r\n"
		}
		return strings.ReplaceAll(part("id", "copy-1"), `; filename="id"`, "") + part("file", export) + "--x--\r\n"
	}
	multi := []string{"Content-Type", "multipart/form-data; boundary=x"}
	for _, x := range []struct {
		user, method, path, form string
		headers                  []string
		status                   int
		has                      string
	}{
		{viewer, "GET", "/limits", "", nil, 200, "Policies set at run time"},
		{viewer, "GET", "/limits/debit/pause", "", nil, 403, "requires operator"},
		{viewer, "POST", "/limits/debit/pause", "", nil, 403, "requires operator"},
		{operator, "POST", "/limits/debit/pause", "", []string{"Sec-Fetch-Site", "cross-site"}, 403, ""},
		{operator, "GET", "/pause?action=", "", nil, 400, "Name the activity"},
		{operator, "POST", "/limits/debit/resume", "", nil, 404, "is not paused"},
		{operator, "POST", "/limits/de%20bit/pause", "", nil, 400, "de bit"},
		{operator, "POST", "/limits/debit/pause", "", nil, 303, ""},
		{operator, "POST", "/limits/debit/resume", "", nil, 303, ""},
		{operator, "GET", "/import", "", nil, 403, "requires admin"},
		{operator, "POST", "/import", form(`{}`), multi, 403, "requires admin"},
		{admin, "GET", "/import", "", nil, 200, "multipart/form-data"},
		{admin, "POST", "/import", form(`{}`), append([]string{"Sec-Fetch-Site", "cross-site"}, multi...), 403, ""},
		{admin, "POST", "/import", "id=copy-1", nil, 400, "cannot be read"},
		{admin, "POST", "/import", form(hostile), multi, 400, "not JSON"},
		{admin, "POST", "/import", form(`{"pawl_export":1}`), multi, 400, "import of copy-1"},
		{admin, "POST", "/import", form(`["` + strings.Repeat("x", 2<<20) + `"]`), multi, 413, "more than 1 MiB"},
	} {
		w, body := h.do(x.method, x.path, x.form, append([]string{"Cookie", x.user}, x.headers...)...)
		if w.StatusCode != x.status || !strings.Contains(body, x.has) {
			t.Errorf("%s %s: %d, want %d with %q: %.600s", x.method, x.path, w.StatusCode, x.status, x.has, body)
		}
	}
	if w, body := h.do(http.MethodGet, "/limits", "", "Cookie", viewer); w.StatusCode != http.StatusOK || strings.Contains(body, "Pause…") {
		t.Error("a viewer is shown the form of a pause")
	}
	if _, err := h.client.Describe(t.Context(), "copy-1"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("copy-1: %v", err)
	}
}
