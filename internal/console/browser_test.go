package console_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/pkg/client"
)

// browser is a browser tab, and the errors that it has reported.
type browser struct {
	h   *harness
	ctx context.Context

	mu       sync.Mutex
	findings []string
}

func newBrowser(h *harness) *browser {
	h.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true))
	if shell, err := exec.LookPath("chromium-headless-shell"); err == nil { // the name that Debian gives it, which chromedp does not look for
		opts = append(opts, chromedp.ExecPath(shell))
	}
	alloc, stop := chromedp.NewExecAllocator(h.Context(), opts...)
	h.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(alloc)
	h.Cleanup(func() { closeTab(); _ = chromedp.WaitClosed(ctx) })
	b := &browser{h: h, ctx: ctx}
	check(h.TB, chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *cdplog.EventEntryAdded: // including violations of the Content-Security-Policy
			if !strings.Contains(e.Entry.Text, "404 (Not Found)") && !strings.Contains(e.Entry.Text, "400 (Bad Request)") {
				b.find("log: " + e.Entry.Text)
			}
		case *runtime.EventConsoleAPICalled:
			b.find("console: " + e.Type.String())
		case *runtime.EventExceptionThrown:
			b.find("exception: " + e.ExceptionDetails.Text)
		case *page.EventJavascriptDialogOpening:
			b.find("dialog: " + e.Message)
		case *network.EventRequestWillBeSent:
			if u, err := url.Parse(e.Request.URL); err != nil || u.Scheme != "data" && !strings.HasPrefix(e.Request.URL, h.url) {
				b.find("request to " + e.Request.URL)
			}
		}
	}))
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	check(h.TB, err)
	return b
}

func (b *browser) find(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.findings = append(b.findings, what)
}

// quiet expects that the browser has reported no errors.
func (b *browser) quiet(where string) {
	b.h.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.findings {
		b.h.Errorf("%s: %s", where, f)
	}
	b.findings = nil
}

func (b *browser) run(actions ...chromedp.Action[chromedp.Void]) {
	b.h.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.h.Fatalf("%v at %s", err, b.eval(`location.href + "\n" + document.body.innerText`))
	}
}

func (b *browser) open(path string) {
	b.h.Helper()
	b.run(chromedp.Navigate(b.h.url+path), chromedp.WaitReady(chromedp.CSS("main h1")))
}

func (b *browser) eval(js string) string {
	b.h.Helper()
	s, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](js))
	check(b.h.TB, err)
	return s
}

func (b *browser) size(width, height int64) { b.run(chromedp.EmulateViewport(width, height)) }

// audit lists the accessibility problems of a page: fields without a label, links and buttons without a name, a custom tab
// order, a page wider than the window, a table wider than its container, duplicate ids, and hostile text that was executed.
const audit = `(() => {
  const wrong = [];
  if (window.hacked) wrong.push("hostile text has run");
  if (document.querySelector("main img, main script, [style], [onclick], [onerror]")) wrong.push("hostile or inline markup");
  if (document.documentElement.scrollWidth > innerWidth) wrong.push("wider than the window: " + document.documentElement.scrollWidth);
  for (const s of document.querySelectorAll(".scroll")) if (s.scrollWidth > s.clientWidth + 1) wrong.push("a table is cut: " + s.innerText.slice(0, 80));
  if (document.querySelectorAll("h1").length !== 1) wrong.push("not one h1");
  for (const f of document.querySelectorAll("input:not([type=hidden]), textarea, select")) if (!f.labels.length) wrong.push("no label: " + f.name);
  for (const l of document.querySelectorAll("a, button")) if (!l.textContent.trim()) wrong.push("no name: " + l.outerHTML);
  for (const t of document.querySelectorAll("[tabindex]")) if (t.tabIndex > 0) wrong.push("tabindex: " + t.outerHTML);
  const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) wrong.push("id twice: " + id);
  const lum = c => { const v = c.match(/[\d.]+/g).slice(0, 3).map(x => x / 255).map(x => x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4); return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; };
  const backgrounds = new Map([[null, "rgb(255, 255, 255)"]]);
  const solid = e => {
    if (!backgrounds.has(e)) { const c = getComputedStyle(e).backgroundColor; backgrounds.set(e, /^rgb\(/.test(c) ? c : solid(e.parentElement)); }
    return backgrounds.get(e);
  };
  for (const e of document.querySelectorAll("main *, nav *")) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || !e.getClientRects().length || e.closest("svg")) continue;
    const style = getComputedStyle(e), a = lum(style.color), b = lum(solid(e));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) wrong.push("contrast " + ratio.toFixed(2) + ": " + e.textContent.trim().slice(0, 40));
  }
  return wrong.join("\n");
})()`

// The tests of the screens share a fleet and a browser. Each uses instances of its own.
func TestConsoleInABrowser(t *testing.T) {
	h := newHarness(t, access.Policy{Loopback: true})
	h.populate(hostile)
	b := newBrowser(h)
	for _, screen := range []struct {
		name string
		test func(*harness, *browser)
	}{
		{"every screen passes the audit", everyScreenPasses}, {"changes appear without a reload", changesAppear}, {"changes appear at once", changesAppearAtOnce},
		{"many instances are changed at once", manyAreChanged}, {"the filter is completed", filterIsCompleted}, {"schedules are operated", schedulesAreOperated},
		{"a job is run and shown as a job", jobIsRun}, {"workers show their running activities", workersAreShown}, {"lists have facets, columns and views", listsAreViews}, {"stalled instances are requeued and dropped", stalledIsDropped}, {"a policy is previewed", policyIsPreviewed}, {"an instance is started with the input of another", startedWithInput},
		{"an instance is operated", instanceIsOperated}, {"updates and queries are answered", updatesAreAnswered}, {"an action is paused", actionIsPaused},
		{"the note of a refused input is removed", refusedIsRemoved}, {"an instance is imported", instanceIsImported}, {"batches are operated", batchesAreOperated}, {"pages need no scripts", withoutScripts},
	} {
		t.Run(screen.name, func(t *testing.T) {
			own := *h
			own.TB, b.h = t, &own
			b.size(1280, 800)
			screen.test(&own, b)
			b.quiet(screen.name)
		})
	}
}

func everyScreenPasses(h *harness, b *browser) {
	for name, path := range screens {
		b.size(1280, 800)
		b.colors("light")
		b.open(path)
		if wrong := b.eval(audit); wrong != "" {
			h.Errorf("%s, 1280 px, light: %s", name, wrong)
		}
		b.colors("dark")
		for _, width := range []int64{360, 768, 1101, 3840} {
			b.size(width, 800)
			if wrong := b.eval(audit); wrong != "" {
				h.Errorf("%s, %d px, dark: %s", name, width, wrong)
			}
		}
		b.quiet(name)
	}
	b.size(1280, 800)
	for _, path := range []string{"/instances/" + url.PathEscape(hostile), "/instances?where=" + url.QueryEscape(hostile) + "&view=" + url.QueryEscape(hostile), "/instances"} {
		b.open(path) // the list offers the view that was opened before
		if wrong := b.eval(audit); wrong != "" {
			h.Errorf("%s: %s", path, wrong)
		}
		b.quiet(path)
	}
	b.open("/instances/order-44")
	if text := b.eval(`document.querySelector("main").innerText`); !strings.Contains(text, `<img src=x onerror=`) || !strings.Contains(text, "by ops") {
		h.Errorf("the hostile text is not shown as text: %s", text)
	}
	b.open("/")
	b.run(chromedp.KeyEvent(kb.Tab))
	if first := b.eval(`document.activeElement.textContent`); first != "Skip to content" {
		h.Errorf("the first element with the keyboard focus is %q", first)
	}
	b.run(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Tab))
	if third := b.eval(`document.activeElement.textContent`); third != "Home" {
		h.Errorf("the third element with the keyboard focus is %q", third)
	}

	b.run(chromedp.KeyEvent("?"), visible("dialog kbd"), chromedp.KeyEvent("?"), chromedp.WaitNotPresent(chromedp.CSS("dialog")))

	b.size(1280, 800)
	b.open("/instances/order-42")
	if text := b.eval(`document.querySelector(".why").innerText`); !strings.Contains(text, "Waits for event approved") {
		h.Error(text)
	}
	b.run(
		click(`.why a[href$="/send?name=approved"]`), visible("#data"), fill("#data", `"finance"`), click("button.main"), visible(".head .pill.ok"),
	)
	h.status("order-42", client.Completed)
	b.open("/instances/order-43")
	b.run(
		click(`.head a[href$="/cancel"]`), visible("button.danger"), fill("#f-reason", "wrong customer"),
		click("button.danger"), visible(".head .pill.gone"),
	)
	if text := b.eval(`document.querySelector(".timeline").innerText`); !strings.Contains(text, "by http: wrong customer") {
		h.Errorf("the timeline does not name the requester and the reason: %s", text)
	}
	b.quiet("actions")
}

// click waits until an element can be reached by a pointer, and clicks on it in the same step of the browser, because a live
// page may replace the element between two steps. A click that opens another page may take the answer of its step with it, so the tab
// remembers the click.
func click(css string) chromedp.Action[chromedp.Void] {
	js := fmt.Sprintf(`((css, number) => {
		if (sessionStorage.getItem("clicked") === number) return true
		const e = document.querySelector(css)
		if (!e || !e.checkVisibility()) return false
		e.scrollIntoView({block: "center", behavior: "instant"})
		const r = e.getClientRects()[0], top = r && document.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2)
		if (!top || !e.contains(top)) return false
		for (const type of ["pointerdown", "pointerup"]) e.dispatchEvent(new PointerEvent(type, {bubbles: true, cancelable: true}))
		sessionStorage.setItem("clicked", number)
		e.click()
		return true
	})(%q, "%d")`, css, clicks.Add(1))
	return func(ctx context.Context, page *chromedp.Target) (void chromedp.Void, _ error) {
		for {
			clicked, err := chromedp.Evaluate[bool](js)(ctx, page)
			if clicked {
				return void, nil
			}
			select {
			case <-ctx.Done():
				return void, fmt.Errorf("nothing to click at %s: %w", css, errors.Join(err, ctx.Err()))
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
}

var clicks atomic.Int64

func visible(css string) chromedp.Action[chromedp.Void] {
	return chromedp.WaitVisible(chromedp.CSS(css))
}
func fill(css, text string) chromedp.Action[chromedp.Void] {
	return chromedp.SendKeys(chromedp.CSS(css), text)
}

// colors sets the preferred color scheme of the browser.
func (b *browser) colors(scheme string) {
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	})
	check(b.h.TB, err)
}

// A page shows a change without a reload, keeps what the reader has opened, and sends no requests while nothing changes.
func changesAppear(h *harness, b *browser) {
	start := func(id string) {
		_, err := client.Start(h.Context(), h.client, fulfil, id, "lamp")
		check(h.TB, err)
	}
	start("order-live")
	h.until("order-live waits for its event", func(d client.Description) bool { return d.Events == 5 && len(d.Activities) == 0 }, "order-live")
	b.open("/instances/order-live")
	b.run(visible("#live:not(:empty)"))
	b.eval(`document.querySelector(".events details").open = true; document.body.dataset.same = "yes"; ""`)
	b.eval(`window.seen = new Promise(done => new MutationObserver(() => { if (document.querySelector(".head .pill.ok")) done(Date.now()) }).observe(document.querySelector("main"), {subtree: true, childList: true, attributes: true, characterData: true})); ""`)
	check(h.TB, client.Send(h.Context(), h.client, approved, "order-live", "x"))
	b.run(visible(".head .pill.ok"))
	at, err := chromedp.Run(b.ctx, chromedp.Evaluate[int64](`window.seen`, func(p *runtime.EvaluateParams) { p.AwaitPromise = new(true) }))
	check(h.TB, err)
	d, err := h.client.Describe(h.Context(), "order-live")
	check(h.TB, err)
	h.Logf("on the screen %d ms after the commit", at-d.Updated.UnixMilli())
	if got := b.eval(`[document.body.dataset.same, document.querySelector(".events details").open, performance.getEntriesByType("navigation").length].join()`); got != "yes,true,1" {
		h.Errorf("the page was reloaded, or an open detail was closed: %s", got)
	}
	b.run(click("nav [data-key=i]"), visible(".facets"), visible("#live:not(:empty)"))
	start("order-later")
	b.run(visible(`tr[data-row="order-later"]`))
	if got := b.eval(audit); got != "" {
		h.Error(got)
	}
	b.quiet("live")
}

// A change appears immediately, even right after the page was refreshed.
func changesAppearAtOnce(h *harness, b *browser) {
	took := changes(h, b, 11)
	h.Logf("on the screen after a commit: median %s, max %s", took[5], took[10])
	if took[5] > 10*time.Second { // 100 ms on an idle machine; without the stream the page would not show the change at all
		h.Errorf("median %s", took[5])
	}
}

// changes sends n events to an instance whose page is open, and returns the times from each commit until the browser shows
// it, in ascending order.
func changes(h *harness, b *browser, n int) (took []time.Duration) {
	h.Helper()
	_, err := client.Start(h.Context(), h.client, long, "long-live", n+100)
	check(h.TB, err)
	h.until("it has begun", func(d client.Description) bool { return d.Events == 1 }, "long-live")
	b.open("/instances/long-live")
	b.run(visible("#live:not(:empty)"))
	b.eval(`window.rows = new Map(); new MutationObserver(() => { for (const r of document.querySelectorAll("tr[id^=e]")) if (!rows.has(r.id)) rows.set(r.id, Date.now()) }).observe(document.querySelector("main"), {subtree: true, childList: true}); ""`)
	pace := time.NewTicker(300 * time.Millisecond)
	defer pace.Stop()
	for n := range n {
		<-pace.C
		b.eval(`dispatchEvent(new KeyboardEvent("keydown", {key: "r"})); ""`)
		row := fmt.Sprintf("e%d", n+2)
		check(h.TB, client.Send(h.Context(), h.client, approved, "long-live", "x"))
		b.run(visible("#" + row))
		at, err := chromedp.Run(b.ctx, chromedp.Evaluate[int64](`rows.get("`+row+`")`))
		check(h.TB, err)
		d, err := h.client.Describe(h.Context(), "long-live")
		check(h.TB, err)
		took = append(took, time.UnixMilli(at).Sub(d.Updated))
	}
	slices.Sort(took)
	return took
}

// Instances are selected, counted and changed after a confirmation, and the page of the job reports the result.
func manyAreChanged(h *harness, b *browser) {
	for i := range 4 {
		_, err := client.Start(h.Context(), h.client, long, fmt.Sprintf("many-%d", i), 1)
		check(h.TB, err)
	}
	for i := range 4 {
		h.status(fmt.Sprintf("many-%d", i), client.Running)
	}
	b.open("/instances?where=id+starts+many-")
	b.run(click(`input[value="many-1"]`), visible("#live:not(:empty)"), click(`input[value="many-3"]`))
	b.eval(`dispatchEvent(new KeyboardEvent("keydown", {key: "r"})); ""`) // the selection survives a refresh
	if got := b.eval(`document.querySelector("#picked").textContent`); got != "Selected: 2" {
		h.Error(got)
	}
	job := func(title string) {
		h.Helper()
		b.run(visible("button.danger"))
		if got := b.eval(`document.querySelector("h1").textContent`); got != title {
			h.Errorf("%q is requested, want %q", got, title)
		}
		if wrong := b.eval(audit); wrong != "" {
			h.Error(wrong)
		}
		b.run(click("button.danger"), visible(".head .pill.ok"))
	}
	b.run(click(`.bulk button[value="cancel"]`))
	job("Cancel 2 instances")
	for i, want := range []client.Status{client.Running, client.Cancelled, client.Running, client.Cancelled} {
		h.status(fmt.Sprintf("many-%d", i), want)
	}
	b.open("/instances?where=id+starts+many-")
	b.run(click(`.bulk input[name="all"]`), click(`.bulk button[value="purge"]`))
	job("Purge 2 instances")
	for i, want := range []bool{true, false, true, false} {
		if _, err := h.client.Describe(h.Context(), fmt.Sprintf("many-%d", i)); (err == nil) != want {
			h.Errorf("many-%d: %v", i, err)
		}
	}
	b.quiet("bulk")
}

// The filter offers fields, operators and known values, with the keyboard and the mouse, and shows the column of a mistake.
func filterIsCompleted(h *harness, b *browser) {
	_, err := client.Start(h.Context(), h.client, long, "long-filter", 1)
	check(h.TB, err)
	h.status("long-filter", client.Running)
	b.open("/instances")
	field := `input[name="where"]`
	value := func(want string) {
		h.Helper()
		if got := b.eval(`document.querySelector('input[name="where"]').value`); got != want {
			h.Errorf("the filter is %q, want %q", got, want)
		}
	}
	press := func(key string) { // without the character event, because the key is handled by the script
		b.eval(`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: "` + key + `", bubbles: true, cancelable: true})); ""`)
	}
	b.run(fill(field, "orc"), visible(".offers li"), chromedp.KeyEvent(kb.Tab))
	press("ArrowDown")
	press("Enter")
	value("orchestration = ")
	b.run(chromedp.KeyEvent("lo"), click(".offers li"), chromedp.KeyEvent("and status in ("))
	if wrong := b.eval(audit); wrong != "" {
		h.Error(wrong)
	}
	b.run(chromedp.KeyEvent("run"), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(")"), chromedp.KeyEvent(kb.Escape))
	value("orchestration = long-history and status in (running )")
	b.run(chromedp.KeyEvent(kb.Enter), visible(`tr[data-row="long-filter"]`), visible(`.facets a[href*="long-history"][href*="failed"]`))
	b.run(click(`.facets a[href*="long-history"][href*="failed"]`), visible("p.empty"))
	value("orchestration = long-history and status = failed")
	b.open("/instances?where=status+is+failed")
	if got := b.eval(`document.querySelector(".wrong").textContent`); !strings.Contains(got, "column 8: expected =, !=, in or starts") {
		h.Error(got)
	}
	b.quiet("completion")
}

// A schedule is previewed, created, triggered, paused, resumed, backfilled and deleted.
func schedulesAreOperated(h *harness, b *browser) {
	b.open("/schedule")
	b.run(fill("#id", "nightly"), fill("#cron", "0 2 * * *"), fill("#zone", "Europe/Zurich"), fill("#name", "reserve-stock"), fill("#input", `"lamp"`), click(`button[name="preview"]`), visible("#preview"))
	if got := b.eval(`document.querySelectorAll("#preview tbody tr").length + document.querySelector("#preview td").textContent.replace(/.* (02:00:00) CES?T/, " $1")`); got != "10 02:00:00" {
		h.Errorf("the preview is %q", got)
	}
	b.run(click("form button.main"), visible(".head .pill.ok"), click(`.head form[action$="/trigger"] button`), visible(`td.id a[href^="/instances/nightly@"]`))
	b.run(click(`.head form[action$="/pause"] button`), visible(".why.wait"), click(`form[action$="/resume"] button`), visible(".head .pill.ok"))
	b.run(click(`.head a[href$="/backfill"]`), visible("#from"))
	b.eval(`document.querySelector("#from").value = "2026-11-01T00:00"; document.querySelector("#to").value = "2026-11-03T12:00"; ""`)
	b.run(click("button.main"), visible("ul li"))
	if got := b.eval(`document.querySelector("form button.main").textContent`); got != "Do 3 actions" {
		h.Errorf("the backfill offers %q", got)
	}
	b.run(click("form button.main"), visible(`td.id a[href="/instances/nightly@2026-11-03T01:00:00Z"]`))
	h.status("nightly@2026-11-03T01:00:00Z", client.Completed)
	b.run(click(`.head a[href^="/schedule?"]`), visible("#cron"))
	if got := b.eval(`[document.querySelector("#cron").value, document.querySelector("#name").value, document.querySelector("#input").value, document.querySelector("#further").value].join("|")`); got != `0 2 * * *|reserve-stock|"lamp"|` {
		h.Errorf("the form has %q", got)
	}
	b.open("/schedules")
	b.run(visible(`tr[data-row="nightly"]`), click(`tr[data-row="nightly"] a`), visible(`.head a[href$="/delete"]`), click(`.head a[href$="/delete"]`), visible("button.danger"), click("button.danger"), visible(".head a.main"))
	if _, err := h.client.DescribeSchedule(h.Context(), "nightly"); !errors.Is(err, client.ErrNoSchedule) {
		h.Errorf("the schedule was not deleted: %v", err)
	}
}

// A job is shown with its activity and its input, and not as an instance of a built-in orchestration.
func jobIsRun(h *harness, b *browser) {
	b.open("/run")
	b.run(fill("#activity", "reserve-stock"), fill("#id", "job-1"), fill("#input", `"lamp"`), fill("#attempts", "3"), fill("#attempt_timeout", "30s"), click("form button.main"), visible(".head .pill.ok"))
	text := b.eval(`document.querySelector("main").innerText`)
	for _, want := range []string{"job · reserve-stock · up to 3 attempts · each within 30s", `"lamp"`} {
		if !strings.Contains(text, want) {
			h.Errorf("%q is missing: %s", want, text)
		}
	}
}

// The page of workers shows the running activities, and the owner of every partition.
func workersAreShown(h *harness, b *browser) {
	h.eventually("the worker answers", func() bool { // a busy worker may not answer within the half second that the page waits
		b.open("/workers")
		return b.eval(`String(document.querySelector("#worker-w-1") !== null)`) == "true"
	})
	b.run(visible(`#worker-w-1 td.id a[href="/instances/invoice-1"]`), visible("#orchestrators .map .tag:not(.bad)"))
}

// Attributes are columns whose values filter the list, counts follow the filter, and a view that was opened by name is
// offered.
func listsAreViews(h *harness, b *browser) {
	b.open("/instances?where=id+starts+parcel-")
	b.run(visible(`td[data-l="tenant"] a`), click(`tr[data-row="parcel-2"] td[data-l="tenant"] a`), visible(`.facets[data-row="by tenant"] a[aria-current]`))
	if got := b.eval(`[document.querySelector('input[name="where"]').value, document.querySelectorAll("tbody tr").length, document.querySelector('.facets[data-row="by tenant"] a[aria-current]').textContent].join("|")`); got != "id starts parcel- and tenant = zoo|1|zoo 1" {
		h.Error(got)
	}
	// Links in the closed menu of columns count as visible, and the previous page has them too.
	b.run(click("#views details summary"), fill("#view", "Zoo"), click("#views details button.main"), visible("#views>a[aria-current]"))
	b.open("/instances")
	b.run(click(`#views a[href*="view=Zoo"]`), visible(`tr[data-row="parcel-2"]`))
	if got := b.eval(`document.querySelector("h1").textContent`); got != "Zoo" {
		h.Errorf("the view is named %q", got)
	}
}

// Stalled instances are grouped by their cause, with its resolution.
func stalledIsDropped(h *harness, b *browser) {
	b.open("/stalled")
	if text := b.eval(`document.querySelector("main").innerText`); !strings.Contains(text, "No orchestrator has the code") || !strings.Contains(text, "Deploy an orchestrator") {
		h.Error(text)
	}
	b.open("/stalled")
	b.run(click(`button[value="requeue"]`), visible("form.form button.main"))
	b.run(click("form.form button.main"), visible(".head .pill.ok"))
	h.until("it is stalled again", func(d client.Description) bool { return d.Stalled != "" }, "refund-7")
	b.open("/stalled")
	b.run(click(`button[value="drop"]`), visible("button.danger"))
	b.run(click("button.danger"), visible(".head .pill.ok"))
	if _, err := h.client.Describe(h.Context(), "refund-7"); !errors.Is(err, client.ErrNotFound) {
		h.Errorf("refund-7 was not dropped: %v", err)
	}
}

func policyIsPreviewed(h *harness, b *browser) {
	b.open("/policies/action:debit")
	b.eval(`document.querySelector("#concurrency").value = "2"; ""`)
	b.run(click(`button[name="preview"]`), visible("#preview"))
	if text := b.eval(`document.querySelector("#preview").innerText`); !strings.Contains(text, "1 of 2 waiters are admitted at once") {
		h.Error(text)
	}
}

// The start form can copy the input of another instance.
func startedWithInput(h *harness, b *browser) {
	b.open("/instances/order-42")
	b.run(click(`.head a[href^="/start?like"]`), visible("#input"), fill("#id", "order-again"), click("form button.main"), visible(".head .pill"))
	h.until("order-again waits for its event", func(d client.Description) bool { return d.Events == 5 && len(d.Activities) == 0 }, "order-again")
	b.open("/start")
	b.run(visible(`.facets a[href="/start?orchestration=fulfil-order"]`))
}

func instanceIsOperated(h *harness, b *browser) {
	_, err := client.Start(h.Context(), h.client, fulfil, "order-op", "lamp")
	check(h.TB, err)
	h.until("order-op waits for its event", func(d client.Description) bool { return d.Events == 5 && len(d.Activities) == 0 }, "order-op")
	more := func(verb string) { b.run(click(".menu summary"), click(`.menu a[href$="/`+verb+`"]`)) }
	b.open("/instances/order-op")
	more("pause")
	b.run(visible("#f-reason"), fill("#f-reason", "stocktaking"), click("form button.main"), visible(`.why a[href$="/resume"]`))
	h.status("order-op", client.Paused)
	b.open("/instances/order-op")
	if why := b.text(".why"); !strings.Contains(why, "Is paused by http: stocktaking; it takes no turn") {
		h.Error(why)
	}
	b.run(click(`.why a[href$="/resume"]`), visible("form button.main"), click("form button.main"), visible(".head .pill.run"))
	more("terminate")
	b.run(visible("button.danger"), fill("#f-reason", "a duplicate"), click("button.danger"), visible(".head .pill.gone"))
	more("retry")
	b.run(visible("form button.main"), click("form button.main"), visible(".head .pill.run"))
	b.open("/instances/order-op/rewind?to=2")
	if text := b.eval(`document.querySelector("main").innerText`); !strings.Contains(text, "order-op would keep events 1 to 2") || !strings.Contains(text, "undone: child") {
		h.Errorf("the plan is not shown: %s", text)
	}
	b.run(click("button.danger"), visible(".head .pill.run"))
	h.until("order-op is in its third execution", func(d client.Description) bool { return d.Execution == 3 && len(d.AwaitedEvents) == 1 }, "order-op")
}

func updatesAreAnswered(h *harness, b *browser) {
	_, err := client.Start(h.Context(), h.client, haggle, "lamp-7", "30")
	check(h.TB, err)
	h.status("lamp-7", client.Running)
	b.open("/instances/lamp-7/query")
	b.run(fill("#name", "asking"), click("form button.main"), visible("#answer"))
	if text := b.eval(`document.querySelector("#answer pre").innerText`); text != `"30"` {
		h.Errorf("query: %s", text)
	}
	_, err = client.Start(h.Context(), h.client, long, "lamp-8", 1)
	check(h.TB, err)
	_, err = client.SendUpdate(h.Context(), h.client, offer, "lamp-8", "12") // the code does not receive it
	check(h.TB, err)
	h.until("the update is open", func(d client.Description) bool { return len(d.OpenUpdates) == 1 && len(d.AwaitedEvents) == 1 }, "lamp-8")
	b.open("/updates?where=id+starts+lamp-")
	b.run(visible(`tr[data-row^="lamp-8 "] a[href$="/send?name=approved"]`))
	if wrong := b.eval(audit); wrong != "" {
		h.Error(wrong)
	}
	_, err = client.Start(h.Context(), h.client, haggle, "lamp-9", "30")
	check(h.TB, err)
	_, err = client.SendUpdate(h.Context(), h.client, offer, "lamp-9", "ask", client.UpdateID("k-9"))
	check(h.TB, err)
	h.until("it waits for a decision", func(d client.Description) bool { return len(d.OpenUpdates) == 1 && len(d.AwaitedUpdates) == 1 }, "lamp-9")
	b.open("/updates?where=id+starts+lamp-9")
	b.run(click(`tr[data-row^="lamp-9 "] a[href$="/update?name=decide"]`), visible("#data"), fill("#data", `"25"`), click("form button.main"), visible("#answer"))
	if answer, err := client.Update(h.Context(), h.client, offer, "lamp-9", "ask", client.UpdateID("k-9")); err != nil || answer != "sold for 25" {
		h.Errorf("%q, %v", answer, err)
	}
	b.open("/instances/lamp-7")
	if text := b.text(".why"); !strings.Contains(text, "Waits for update offer") {
		h.Error(text)
	}
	b.run(click(`.why a[href$="/update?name=offer"]`), visible("#data"))
	b.run(fill("#data", `"20"`), click("form button.main"), visible(`[role="alert"]`))
	if text := b.eval(`document.querySelector("[role=alert]").innerText`); !strings.Contains(text, "20 is too little") {
		h.Errorf("rejection: %s", text)
	}
	b.open("/instances/lamp-7/update?name=offer")
	b.run(fill("#data", `"40"`), click("form button.main"), visible("#answer"))
	if text := b.eval(`document.querySelector("#answer pre").innerText`); text != `"sold for 40"` {
		h.Errorf("answer: %s", text)
	}
	h.status("lamp-7", client.Completed)
}
