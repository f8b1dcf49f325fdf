package console_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/gateway"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pkg/client"
)

// do sends a request with headers, given as pairs, without following redirects.
func (h *harness) do(method, path, form string, headers ...string) (*http.Response, string) {
	h.Helper()
	r, err := http.NewRequestWithContext(h.Context(), method, h.url+path, strings.NewReader(form))
	check(h.TB, err)
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w, err := http.DefaultTransport.RoundTrip(r)
	check(h.TB, err)
	defer func() { _ = w.Body.Close() }()
	b, err := io.ReadAll(w.Body)
	check(h.TB, err)
	return w, string(b)
}

// Each page and form requires the role of its operation, a viewer is shown no actions, and scripts and other sites cannot
// read the cookie with the token.
func TestRolesDecideWhatIsShownAndPermitted(t *testing.T) {
	h := newHarness(t, access.Policy{Tokens: tokens(t)})
	_, err := client.Start(t.Context(), h.client, fulfil, "order-1", "lamp")
	check(t, err)
	h.status("order-1", client.Running)

	if w, _ := h.do("GET", "/instances", ""); w.StatusCode != http.StatusSeeOther || w.Header.Get("Location") != "/login" {
		t.Errorf("without a token: %d %v", w.StatusCode, w.Header)
	}
	if w, body := h.do("POST", "/login", "token=not-a-token-of-anyone"); w.StatusCode != http.StatusUnauthorized || w.Header.Get("Set-Cookie") != "" || !strings.Contains(body, "not valid") {
		t.Errorf("a wrong token: %d", w.StatusCode)
	}
	w, _ := h.do("POST", "/login", "token=viewer-token-0123456789")
	set := w.Header.Get("Set-Cookie")
	if w.StatusCode != http.StatusSeeOther || !strings.Contains(set, "HttpOnly") || !strings.Contains(set, "SameSite=Strict") {
		t.Fatalf("%d %s", w.StatusCode, set)
	}
	as := map[string]string{}
	for name, token := range map[string]string{"viewer": "viewer-token-0123456789", "operator": "operator-token-01234567", "admin": "admin-token-01234567890"} {
		as[name] = access.Cookie + "=" + token
	}
	for _, x := range []struct {
		user, method, path string
		status             int
		has, lacks         string
	}{
		{"viewer", "GET", "/instances/order-1", 200, "Timeline", "/cancel"},
		{"viewer", "GET", "/", 200, "ada, viewer", "/start"},
		{"viewer", "GET", "/instances", 200, "order-1", "checkbox"},
		{"viewer", "POST", "/bulk", 403, "requires operator", ""},
		{"operator", "POST", "/bulk", 400, "such as cancel", ""},
		{"operator", "GET", "/bulk/none", 404, "no such job", ""},
		{"viewer", "GET", "/instances/order-1/cancel", 403, "requires operator", ""},
		{"viewer", "POST", "/instances/order-1/cancel", 403, "requires operator", ""},
		{"operator", "GET", "/instances/order-1", 200, "/cancel", "/purge"},
		{"operator", "GET", "/instances/order-1/cancel", 200, "What will happen", ""},
		{"viewer", "POST", "/instances/order-1/pause", 403, "requires operator", ""},
		{"operator", "GET", "/instances/order-1/pause", 200, "takes no turn", ""},
		{"operator", "GET", "/instances/order-1/rewind", 400, "identified by its id", ""},
		{"operator", "GET", "/instances/order-1/dance", 404, "no page", ""},
		{"operator", "POST", "/instances/order-1/purge", 403, "requires admin", ""},
		{"operator", "GET", "/policies/global", 403, "requires admin", ""},
		{"admin", "GET", "/instances/order-1/purge", 200, "cannot be restored", ""},
		{"admin", "GET", "/policies/nonsense", 200, "Policy of", ""},
		{"admin", "GET", "/nothing", 404, "no page", ""},
	} {
		w, body := h.do(x.method, x.path, "", "Cookie", as[x.user])
		if w.StatusCode != x.status || !strings.Contains(body, x.has) || x.lacks != "" && strings.Contains(body, x.lacks) {
			t.Errorf("%s %s %s: %d, want %d with %q and without %q", x.user, x.method, x.path, w.StatusCode, x.status, x.has, x.lacks)
		}
	}
	for name, headers := range map[string][]string{
		"a page of another site": {"Sec-Fetch-Site", "cross-site"}, "a page of another origin": {"Origin", "https://evil.example"},
	} {
		for _, path := range []string{"/instances/order-1/cancel", "/login", "/logout"} {
			if w, _ := h.do("POST", path, "reason=x", append(headers, "Cookie", as["admin"])...); w.StatusCode != http.StatusForbidden {
				t.Errorf("%s: POST %s: %d", name, path, w.StatusCode)
			}
		}
	}
	if w, body := h.do("POST", "/policies/global", "concurrency=many", "Cookie", as["admin"]); w.StatusCode != http.StatusBadRequest || !strings.Contains(body, "not a number") {
		t.Errorf("a bad policy: %d", w.StatusCode)
	}
	if w, body := h.do("POST", "/instances/order-1/send", url.Values{"name": {"approved"}, "data": {"finance"}}.Encode(), "Cookie", as["operator"]); w.StatusCode != http.StatusBadRequest || !strings.Contains(body, "not JSON") {
		t.Errorf("data that is not JSON: %d", w.StatusCode)
	}
	h.until("the instance is unchanged", func(d client.Description) bool { return d.Ended.IsZero() }, "order-1")
}

// The home page and its assets are small, are served quickly, and load nothing that is not embedded.
func TestFirstPageIsSmallAndLoadsOnlyEmbeddedFiles(t *testing.T) {
	h := newHarness(t, access.Policy{Loopback: true})
	w, body := h.do("GET", "/", "")
	var took []time.Duration
	for range 5 {
		begin := time.Now()
		h.do("GET", "/", "")
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	if got := w.Header.Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'none'; style-src 'self'; script-src 'self'") || strings.Contains(got, "unsafe") {
		t.Error(got)
	}
	if w.Header.Get("X-Content-Type-Options") != "nosniff" || w.Header.Get("Cache-Control") != "no-store" {
		t.Error(w.Header)
	}
	size := h.sent("/")
	for _, asset := range regexp.MustCompile(`/assets/[a-z0-9.-]+`).FindAllString(body, -1) {
		w, _ := h.do("GET", asset, "")
		if w.StatusCode != http.StatusOK || !strings.Contains(w.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %v", asset, w.StatusCode, w.Header)
		}
		size += h.sent(asset)
	}
	t.Logf("the first page has %d bytes compressed and took %s", size, took)
	if size > 60<<10 {
		t.Errorf("%d bytes", size)
	}
	if took[2] > 10*time.Second { // 150 ms on an idle machine
		t.Errorf("took %s", took[2])
	}
}

// sent returns the size of a response in bytes for a browser, which accepts compression.
func (h *harness) sent(path string) int {
	h.Helper()
	w, body := h.do("GET", path, "", "Accept-Encoding", "gzip")
	if len(body) < 1<<10 && w.Header.Get("Content-Encoding") == "" {
		return len(body) // too short to be compressed
	}
	if w.Header.Get("Content-Encoding") != "gzip" || w.Header.Get("Vary") != "Accept-Encoding" {
		h.Errorf("%s is not compressed: %v", path, w.Header)
	}
	return len(body)
}

// The home page reports failures by code, counts of ended instances, the instances that have waited the longest, and the
// workers, for which it does not wait.
func TestHomeReportsFailuresRatesAndWorkers(t *testing.T) {
	h := newHarness(t, access.Policy{Loopback: true})
	for id, in := range map[string]string{"payment-1": "a", "payment-2": "b", "done-1": ""} {
		var err error
		if id == "done-1" {
			_, err = client.Start(t.Context(), h.client, ship, id, in)
		} else {
			_, err = client.Start(t.Context(), h.client, pay, id, in)
		}
		check(t, err)
	}
	h.status("payment-1", client.Failed)
	h.status("payment-2", client.Failed)
	h.status("done-1", client.Completed)
	_, empty := h.do("GET", "/", "")
	if strings.Contains(empty, "Longest without a change") {
		t.Error("ended instances are listed as waiting")
	}
	if !strings.Contains(empty, "Waiting for their answers") || !strings.Contains(empty, `data-later="600"`) {
		t.Error("the first page waited for the workers")
	}
	check(t, h.client.CreateSchedule(t.Context(), "nightly", client.Schedule{
		Times: client.Times{Cron: []string{"@every 24h"}}, Run: &client.Job{Activity: reserve.Name()},
	}))
	for _, id := range []string{"long-1", "long-2"} {
		_, err := client.Start(t.Context(), h.client, long, id, 2)
		check(t, err)
		h.status(id, client.Running)
	}
	check(t, client.Send(t.Context(), h.client, approved, "long-1", "x")) // now long-2 has waited longer
	h.until("it has received its event", func(d client.Description) bool { return d.Events == 2 }, "long-1")
	var first, waits string
	poll.Until(t, time.Minute, "long-2 waits the longest", func() bool { // the description may include a turn that is not committed yet
		_, first = h.do("GET", "/", "")
		_, waits, _ = strings.Cut(first, `id="waiting"`)
		waits, _, _ = strings.Cut(waits, "</section>")
		one, two := strings.Index(waits, `data-row="waits long-1"`), strings.Index(waits, `data-row="waits long-2"`)
		return two >= 0 && one > two
	})
	if strings.Contains(waits, "nightly") {
		t.Errorf("longest waiting: %s", waits)
	}
	_, list := h.do("GET", "/instances?where=id+starts+long-&order=oldest", "")
	if one, two := strings.Index(list, `data-row="long-1"`), strings.Index(list, `data-row="long-2"`); one < 0 || two < one || !strings.Contains(list, `<a href="/instances?where=id&#43;starts&#43;long-">latest first</a>`) {
		t.Errorf("the oldest first: %s", list)
	}
	for _, want := range []string{
		"Failures of the last hour", `data-row="code shop.declined"`, `<td class="n" data-l="Count">2</td>`, "<b>2</b><span>failed</span><small>2 in the last minute<br>2 in the last hour</small>",
		"<b>1</b><span>completed</span><small>1 in the last minute<br>1 in the last hour</small>", "<b>3</b><span>running</span></a>",
	} {
		if !strings.Contains(first, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if _, err := h.client.Count(t.Context(), client.CountOptions{EndedSince: make([]time.Time, 5)}); err == nil || !strings.Contains(err.Error(), "at most 4") {
		t.Errorf("five times to count from: %v", err)
	}
	if strings.Index(first, "Needs attention") > strings.Index(first, `class="tiles"`) {
		t.Error("problems are not listed first")
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); ; {
		if _, page := h.do("GET", "/", ""); strings.Contains(page, "1 worker is ready") {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the worker is not reported")
		}
	}
}

// A deadlock, in which a parent holds the slot that its child waits for, is reported on each page that it concerns, with its
// resolution.
func TestDeadlockIsReportedOnEveryPage(t *testing.T) {
	h := newHarness(t, access.Policy{Loopback: true})
	_, err := client.Start(t.Context(), h.client, nest, "nest-1", 1)
	check(t, err)
	poll.Until(t, time.Minute, "the deadlock is found", func() bool {
		s, err := h.client.QueueStats(t.Context(), nest.Name(), "")
		return err == nil && s.Deadlocked
	})
	for path, want := range map[string]string{
		"/":                 `<span class="pill bad">deadlock</span>`,
		"/limits":           "<strong>Deadlock: every holder of nest waits for one of its 1 waiters.</strong>",
		"/limits/nest":      `role="alert"><div><strong>Deadlock: every holder waits for a waiter of this limit.</strong>`,
		"/instances/nest-0": "DEADLOCK",
	} {
		poll.Until(t, time.Minute, path+" has "+want, func() bool { // a busy fleet may not describe its limits in the time of a page
			_, page := h.do("GET", path, "")
			return strings.Contains(page, want) && (path == "/" || strings.Contains(page, `href="/limits/nest"`) || strings.Contains(page, `href="/policies/action:nest"`))
		})
	}
}

// Only one page of a history is read and drawn, however long the history is.
func TestLongHistoryIsLoadedByRange(t *testing.T) {
	h := newHarness(t, access.Policy{Loopback: true})
	const n = 250
	_, err := client.Start(t.Context(), h.client, long, "long-1", n)
	check(t, err)
	for range n - 1 {
		check(t, client.Send(t.Context(), h.client, approved, "long-1", "x"))
	}
	h.until("all events are recorded", func(d client.Description) bool { return d.Events == n }, "long-1")
	_, last := h.do("GET", "/instances/long-1", "")
	_, first := h.do("GET", "/instances/long-1?after=0", "")
	for id, page := range map[string]string{`id="e250"`: last, `id="e151"`: last, `id="e1"`: first, `id="e100"`: first} {
		if !strings.Contains(page, id) {
			t.Errorf("%s is missing", id)
		}
	}
	if strings.Contains(last, `id="e150"`) || strings.Contains(first, `id="e101"`) || strings.Count(last, `class="lane"`) > 100 {
		t.Error("a page exceeds its range")
	}
	if !strings.Contains(last, "<pre>250</pre>") {
		t.Error("the input is missing on the last page")
	}
}

// Without a namespace, and on a network address without tokens, every page reports the problem and shows nothing else.
func TestConsoleWithoutNamespaceOrTokensShowsNoData(t *testing.T) {
	for name, x := range map[string]struct {
		access access.Policy
		host   string
		status int
	}{
		"not connected": {access.Policy{Loopback: true}, "127.0.0.1:7295", 503}, "no tokens": {access.Policy{}, "pawl.example", 403},
		"another host name": {access.Policy{Loopback: true}, "rebound.example", 421},
	} {
		handler := gateway.New(gateway.Config{Client: func() *client.Client { return nil }, Access: x.access})
		for _, path := range []string{"/", "/instances/order-1", "/login"} {
			if path == "/login" && x.status == 503 {
				continue // no sign-in is required, so the page redirects home
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			r.Host = x.host
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != x.status {
				t.Errorf("%s: %s: %d", name, path, w.Code)
			}
		}
	}
}
