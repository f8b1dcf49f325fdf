package console_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
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

// browser is a tab, and what it has reported.
type browser struct {
	h   *harness
	ctx context.Context

	mu       sync.Mutex
	findings []string
}

func newBrowser(h *harness) *browser {
	h.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true))
	alloc, stop := chromedp.NewExecAllocator(h.Context(), opts...)
	h.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(alloc)
	h.Cleanup(func() { closeTab(); _ = chromedp.WaitClosed(ctx) })
	b := &browser{h: h, ctx: ctx}
	check(h.T, chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *cdplog.EventEntryAdded: // violations of the Content-Security-Policy are among them
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
	check(h.T, err)
	return b
}

func (b *browser) find(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.findings = append(b.findings, what)
}

// quiet demands that the browser has reported nothing.
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
	check(b.h.T, chromedp.Do(ctx, actions...))
}

func (b *browser) open(path string) {
	b.h.Helper()
	b.run(chromedp.Navigate(b.h.url+path), chromedp.WaitReady(chromedp.CSS("main h1")))
}

func (b *browser) eval(js string) string {
	b.h.Helper()
	s, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](js))
	check(b.h.T, err)
	return s
}

func (b *browser) size(width, height int64) { b.run(chromedp.EmulateViewport(width, height)) }

// audit lists what is wrong with a page for its readers: fields without a label, links and buttons without a name, an order
// of the keyboard of its own, a page wider than the window, ids that are not unique, text that has run.
const audit = `(() => {
  const wrong = [];
  if (window.hacked) wrong.push("hostile text has run");
  if (document.querySelector("main img, main script, [style], [onclick], [onerror]")) wrong.push("hostile or inline markup");
  if (document.documentElement.scrollWidth > innerWidth) wrong.push("wider than the window: " + document.documentElement.scrollWidth);
  if (document.querySelectorAll("h1").length !== 1) wrong.push("not one h1");
  for (const f of document.querySelectorAll("input:not([type=hidden]), textarea, select")) if (!f.labels.length) wrong.push("no label: " + f.name);
  for (const l of document.querySelectorAll("a, button")) if (!l.textContent.trim()) wrong.push("no name: " + l.outerHTML);
  for (const t of document.querySelectorAll("[tabindex]")) if (t.tabIndex > 0) wrong.push("tabindex: " + t.outerHTML);
  const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) wrong.push("id twice: " + id);
  const lum = c => { const v = c.match(/[\d.]+/g).slice(0, 3).map(x => x / 255).map(x => x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4); return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; };
  const solid = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (/^rgb\(/.test(c)) return c; } return "rgb(255, 255, 255)"; };
  for (const e of document.querySelectorAll("main *, nav *")) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || !e.getClientRects().length || e.closest("svg")) continue;
    const style = getComputedStyle(e), a = lum(style.color), b = lum(solid(e));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) wrong.push("contrast " + ratio.toFixed(2) + ": " + e.textContent.trim().slice(0, 40));
  }
  return wrong.join("\n");
})()`

func TestScreensAreSoundInABrowser(t *testing.T) {
	h := newHarness(t, access.Policy{Loopback: true})
	h.populate()
	b := newBrowser(h)
	for _, look := range []struct {
		width  int64
		scheme string
	}{{1280, "light"}, {360, "dark"}} {
		b.size(look.width, 800)
		b.colors(look.scheme)
		for name, path := range screens {
			b.open(path)
			where := fmt.Sprintf("%s, %d px, %s", name, look.width, look.scheme)
			if wrong := b.eval(audit); wrong != "" {
				t.Errorf("%s: %s", where, wrong)
			}
			b.quiet(where)
		}
	}
	b.open("/instances/order-44")
	if text := b.eval(`document.querySelector("main").innerText`); !strings.Contains(text, `<img src=x onerror=`) || !strings.Contains(text, "by ops") {
		t.Errorf("the hostile text is not shown as text: %s", text)
	}
	b.open("/")
	b.run(chromedp.KeyEvent(kb.Tab))
	if first := b.eval(`document.activeElement.textContent`); first != "Skip to content" {
		t.Errorf("the first stop of the keyboard is %q", first)
	}
	b.run(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Tab))
	if third := b.eval(`document.activeElement.textContent`); third != "Home" {
		t.Errorf("the third stop of the keyboard is %q", third)
	}

	b.size(1280, 800)
	b.open("/instances/order-42")
	if text := b.eval(`document.querySelector(".why").innerText`); !strings.Contains(text, "Waits for event approved") {
		t.Error(text)
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
		t.Errorf("the timeline does not name the requester and the reason: %s", text)
	}
	b.quiet("actions")
}

func click(css string) chromedp.Action[chromedp.Void] { return chromedp.Click(chromedp.CSS(css)) }
func visible(css string) chromedp.Action[chromedp.Void] {
	return chromedp.WaitVisible(chromedp.CSS(css))
}
func fill(css, text string) chromedp.Action[chromedp.Void] {
	return chromedp.SendKeys(chromedp.CSS(css), text)
}

// colors makes the browser prefer light or dark.
func (b *browser) colors(scheme string) {
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	check(b.h.T, err)
}

// A page shows a change without a reload, keeps what the reader has opened, and asks for nothing while nothing changes.
func TestChangesAppearOnTheScreenByThemselves(t *testing.T) {
	h := newHarness(t, access.Policy{Loopback: true})
	start := func(id string) {
		_, err := client.Start(t.Context(), h.client, fulfil, id, "lamp")
		check(t, err)
	}
	start("order-1")
	h.until("order-1 waits for its event", func(d client.Description) bool { return d.Events == 5 && len(d.Activities) == 0 }, "order-1")
	b := newBrowser(h)
	b.open("/instances/order-1")
	b.run(visible("#live:not(:empty)"))
	b.eval(`document.querySelector("details").open = true; document.body.dataset.same = "yes"; ""`)
	b.eval(`window.seen = new Promise(done => new MutationObserver(() => { if (document.querySelector(".head .pill.ok")) done(Date.now()) }).observe(document.querySelector("main"), {subtree: true, childList: true, attributes: true, characterData: true})); ""`)
	check(t, client.Send(t.Context(), h.client, approved, "order-1", "x"))
	b.run(visible(".head .pill.ok"))
	at, err := chromedp.Run(b.ctx, chromedp.Evaluate[int64](`window.seen`, func(p *runtime.EvaluateParams) { p.AwaitPromise = new(true) }))
	check(t, err)
	d, err := h.client.Describe(t.Context(), "order-1")
	check(t, err)
	t.Logf("on the screen %d ms after the commit", at-d.Updated.UnixMilli())
	if got := b.eval(`[document.body.dataset.same, document.querySelector("details").open, performance.getEntriesByType("navigation").length].join()`); got != "yes,true,1" {
		t.Errorf("the page was loaded again, or an open detail was closed: %s", got)
	}
	b.run(click("nav [data-key=i]"), visible(".facets"), visible("#live:not(:empty)"))
	start("order-2")
	b.run(visible(`tr[data-row="order-2"]`))
	if got := b.eval(audit); got != "" {
		t.Error(got)
	}
	b.quiet("live")
}

// A change is read at once, also right behind another read of the page.
func TestChangesAppearAtOnce(t *testing.T) {
	h := newHarness(t, access.Policy{Loopback: true})
	_, err := client.Start(t.Context(), h.client, long, "long-1", 100)
	check(t, err)
	h.until("it has begun", func(d client.Description) bool { return d.Events == 1 }, "long-1")
	b := newBrowser(h)
	b.open("/instances/long-1")
	b.run(visible("#live:not(:empty)"))
	b.eval(`window.rows = new Map(); new MutationObserver(() => { for (const r of document.querySelectorAll("tr[id^=e]")) if (!rows.has(r.id)) rows.set(r.id, Date.now()) }).observe(document.querySelector("main"), {subtree: true, childList: true}); ""`)
	var took []time.Duration
	pace := time.NewTicker(300 * time.Millisecond)
	defer pace.Stop()
	for n := range 11 {
		<-pace.C
		b.eval(`dispatchEvent(new KeyboardEvent("keydown", {key: "r"})); ""`)
		row := fmt.Sprintf("e%d", n+2)
		check(t, client.Send(t.Context(), h.client, approved, "long-1", "x"))
		b.run(visible("#" + row))
		at, err := chromedp.Run(b.ctx, chromedp.Evaluate[int64](`rows.get("`+row+`")`))
		check(t, err)
		d, err := h.client.Describe(t.Context(), "long-1")
		check(t, err)
		took = append(took, time.UnixMilli(at).Sub(d.Updated))
	}
	slices.Sort(took)
	t.Logf("on the screen after a commit: median %s, max %s", took[5], took[10])
	if took[5] > time.Second { // 100 ms on an idle machine
		t.Errorf("median %s", took[5])
	}
}

// Instances are selected, counted and changed after a confirmation; the page of the job reports what was done.
func TestManyInstancesAreChangedAtOnce(t *testing.T) {
	h := newHarness(t, access.Policy{Loopback: true})
	for i := range 4 {
		_, err := client.Start(t.Context(), h.client, long, fmt.Sprintf("many-%d", i), 1)
		check(t, err)
	}
	for i := range 4 {
		h.status(fmt.Sprintf("many-%d", i), client.Running)
	}
	b := newBrowser(h)
	b.open("/instances?where=id+starts+many-")
	b.run(click(`input[value="many-1"]`), visible("#live:not(:empty)"), click(`input[value="many-3"]`))
	b.eval(`dispatchEvent(new KeyboardEvent("keydown", {key: "r"})); ""`) // a selection outlives what is read again
	if got := b.eval(`document.querySelector("#picked").textContent`); got != "Selected: 2" {
		t.Error(got)
	}
	job := func(title string) {
		t.Helper()
		b.run(visible("button.danger"))
		if got := b.eval(`document.querySelector("h1").textContent`); got != title {
			t.Errorf("%q is asked for, want %q", got, title)
		}
		if wrong := b.eval(audit); wrong != "" {
			t.Error(wrong)
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
		if _, err := h.client.Describe(t.Context(), fmt.Sprintf("many-%d", i)); (err == nil) != want {
			t.Errorf("many-%d: %v", i, err)
		}
	}
	b.quiet("bulk")
}

// The filter offers fields, comparisons and known values, by keyboard and mouse, and a mistake is shown with its column.
func TestFilterIsCompleted(t *testing.T) {
	h := newHarness(t, access.Policy{Loopback: true})
	_, err := client.Start(t.Context(), h.client, long, "long-1", 1)
	check(t, err)
	h.status("long-1", client.Running)
	b := newBrowser(h)
	b.open("/instances")
	field := `input[name="where"]`
	value := func(want string) {
		t.Helper()
		if got := b.eval(`document.querySelector('input[name="where"]').value`); got != want {
			t.Errorf("the filter is %q, want %q", got, want)
		}
	}
	press := func(key string) { // without the character that a prevented key does not make
		b.eval(`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: "` + key + `", bubbles: true, cancelable: true})); ""`)
	}
	b.run(fill(field, "orc"), visible(".offers li"), chromedp.KeyEvent(kb.Tab))
	press("ArrowDown")
	press("Enter")
	value("orchestration = ")
	b.run(chromedp.KeyEvent("lo"), click(".offers li"), chromedp.KeyEvent("and status in ("))
	if wrong := b.eval(audit); wrong != "" {
		t.Error(wrong)
	}
	b.run(chromedp.KeyEvent("run"), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(")"), chromedp.KeyEvent(kb.Escape))
	value("orchestration = long-history and status in (running )")
	b.run(chromedp.KeyEvent(kb.Enter), visible(`tr[data-row="long-1"]`), visible(`.facets a[href*="failed"]`))
	b.run(click(`.facets a[href*="failed"]`), visible("p.empty"))
	value("orchestration = long-history and status = failed")
	b.open("/instances?where=status+is+failed")
	if got := b.eval(`document.querySelector(".wrong").textContent`); !strings.Contains(got, "column 8: expected =, !=, in or starts") {
		t.Error(got)
	}
	b.quiet("completion")
}
