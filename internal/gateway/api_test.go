package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/gateway"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pawltest/integration"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/worker"
)

// shortRead is the read timeout of the server. Long polls and streams must outlast it.
const shortRead = 2 * time.Second

// harness is a fleet with a gateway.
type harness struct {
	t      *testing.T
	url    string
	server *http.Server
}

type order struct {
	Amount int `json:"amount"`
}

func bindings() ([]pawl.Binding, []pawl.ActivityBinding) {
	var (
		approved = pawl.NewEvent[string]("approved")
		progress = pawl.NewStatus[string]()
		charge   = pawl.NewActivity[order, string]("charge")
		pay      = pawl.NewOrchestration[order, string]("pay")
		nap      = pawl.NewOrchestration[pawl.None, pawl.None]("nap")
		single   = pawl.NewOrchestration[pawl.None, pawl.None]("single", pawl.Concurrency(1))
		family   = pawl.NewOrchestration[pawl.None, pawl.None]("family")
	)
	return []pawl.Binding{
			pay.Do(func(ctx *pawl.Context, in order) (string, error) {
				if err := progress.Set(ctx, "waiting for approval"); err != nil {
					return "", err
				}
				by, err := approved.Receive(ctx)
				if err != nil {
					return "", err
				}
				receipt, err := charge.Call(ctx, in)
				return receipt + " approved by " + by, err
			}),
			votes(),
			nap.Do(func(ctx *pawl.Context, _ pawl.None) (pawl.None, error) {
				return pawl.None{}, pawl.Sleep(ctx, time.Hour)
			}),
			single.Do(func(ctx *pawl.Context, _ pawl.None) (pawl.None, error) {
				return pawl.None{}, pawl.Sleep(ctx, time.Hour)
			}),
			family.Do(func(ctx *pawl.Context, _ pawl.None) (pawl.None, error) {
				return nap.Call(ctx, pawl.None{}, pawl.ID("f-1-child"))
			}),
		}, []pawl.ActivityBinding{
			charge.Do(func(_ context.Context, in order) (string, error) { return fmt.Sprintf("receipt-%d", in.Amount), nil }),
		}
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	return newHarnessFor(t, access.Policy{Loopback: true})
}

func newHarnessFor(t *testing.T, users access.Policy) *harness {
	t.Helper()
	orchestrations, activities := bindings()
	fleet := integration.Start(t, orchestrations...)
	w, err := worker.New(worker.Config{NATS: fleet.NATS, Redis: fleet.Redis, Name: "w-1"}, activities...)
	check(t, err)
	check(t, w.Start(t.Context()))
	t.Cleanup(func() { check(t, w.Stop(context.WithoutCancel(t.Context()))) })
	srv := httptest.NewUnstartedServer(nil)
	srv.Config = gateway.NewServer(gateway.New(gateway.Config{Client: func() *client.Client { return fleet.Client }, Access: users}), slog.New(slog.DiscardHandler))
	srv.Config.ReadTimeout = shortRead
	srv.Start()
	t.Cleanup(srv.Close)
	return &harness{t: t, url: srv.URL, server: srv.Config}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// do sends a request with headers, given as pairs, expects a status, and returns the object in the response.
func (h *harness) do(status int, method, path, body string, headers ...string) map[string]any {
	h.t.Helper()
	got, object := h.try(method, path, body, headers...)
	if got != status {
		h.t.Fatalf("%s %s: %d, want %d: %v", method, path, got, status, object)
	}
	return object
}

// try sends a request, and returns the status and the object in the response.
func (h *harness) try(method, path, body string, headers ...string) (status int, object map[string]any) {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.url+"/api/v1"+path, strings.NewReader(body))
	check(h.t, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w, err := http.DefaultClient.Do(r)
	check(h.t, err)
	defer func() { _ = w.Body.Close() }()
	b, err := io.ReadAll(w.Body)
	check(h.t, err)
	if len(bytes.TrimSpace(b)) > 0 {
		if err := json.Unmarshal(b, &object); err != nil {
			h.t.Fatalf("%s %s: %d, %s: %v", method, path, w.StatusCode, b, err)
		}
	}
	return w.StatusCode, object
}

func (h *harness) want(object map[string]any, field string, want any) {
	h.t.Helper()
	if fmt.Sprint(object[field]) != fmt.Sprint(want) {
		h.t.Errorf("%s is %v, want %v, of %v", field, object[field], want, object)
	}
}

func TestInstanceIsStartedAndControlledOverHTTP(t *testing.T) {
	h := newHarness(t)

	// A repeated start without an id returns the same instance, because the Idempotency-Key is the same.
	first := h.do(202, "POST", "/instances", `{"orchestration":"pay","input":{"amount":7}}`, "Idempotency-Key", "request 1")
	again := h.do(202, "POST", "/instances", `{"orchestration":"pay","input":{"amount":7}}`, "Idempotency-Key", "request 1")
	id, _ := first["instance"].(string)
	h.want(again, "instance", id)
	if !strings.HasPrefix(id, "pay-") {
		t.Fatal(id)
	}
	h.want(h.do(200, "GET", "/instances/"+id+"/status?wait=30s", ""), "value", "waiting for approval")
	h.do(204, "GET", "/instances/"+id+"/status?after=1&wait=1ms", "")
	h.want(h.do(202, "GET", "/instances/"+id+"/result?wait=1ms", ""), "status", "running")
	h.want(h.do(200, "GET", "/instances/"+id, ""), "orchestration", "pay")

	h.do(202, "POST", "/instances/"+id+"/events/approved", `"finance"`)
	out := h.do(200, "GET", "/instances/"+id+"/result?wait=30s", "")
	h.want(out, "result", "receipt-7 approved by finance")
	h.want(out, "status", "completed")

	// A history is read in pages, and each event is returned once.
	var kinds []string
	for after := "0"; after != ""; {
		page := h.do(200, "GET", "/instances/"+id+"/history?limit=2&after="+after, "")
		events, _ := page["events"].([]any)
		for _, e := range events {
			kinds = append(kinds, fmt.Sprint(e.(map[string]any)["kind"])) //nolint:forcetypeassert // an object
		}
		after = ""
		if page["next"] != nil {
			after = fmt.Sprint(page["next"])
		}
	}
	if got := strings.Join(kinds, " "); got != "Started EventReceived ActivityScheduled ActivityCompleted Completed" {
		t.Error(got)
	}

	exported := h.do(200, "GET", "/instances/"+id+"/export", "")
	h.want(exported, "pawl_export", "1")
	if executions, _ := exported["executions"].([]any); len(executions) != 1 {
		t.Errorf("the export has %d executions", len(executions))
	}
	body, err := json.Marshal(map[string]any{"export": exported, "continue": true})
	if err != nil {
		t.Fatal(err)
	}
	h.want(h.do(200, "POST", "/instances/p-imported/import", string(body)), "status", "completed")
	h.do(409, "POST", "/instances/p-imported/import", string(body))
	h.do(400, "POST", "/instances/p-imported/import", `{"export":{}}`)

	// One request starts an instance, sends it an event and waits for its end.
	out = h.do(200, "POST", "/instances", `{"orchestration":"pay","id":"p-2","input":{"amount":1},"event":{"name":"approved","data":"ops"},"wait":"30s"}`)
	h.want(out, "result", "receipt-1 approved by ops")

	h.do(200, "DELETE", "/instances/p-2", "")
	h.do(404, "GET", "/instances/p-2", "")

	h.do(202, "POST", "/instances", `{"orchestration":"family","id":"f-1"}`)
	poll.Until(h.t, time.Minute, "the child runs", func() bool {
		rows, _ := h.do(200, "GET", "/instances?where=id+starts+f-1-child+and+status+%3D+running", "")["instances"].([]any)
		return len(rows) == 1
	})
	h.want(h.do(200, "POST", "/instances/f-1-child/pause", ""), "status", "paused")
	h.want(h.do(200, "POST", "/instances/f-1-child/resume", ""), "status", "running")
	tree := h.do(200, "GET", "/instances/f-1/tree", "")
	if got := fmt.Sprint(tree["children"]); got != "[map[instance:f-1-child orchestration:nap status:running]]" {
		t.Error(got)
	}
	h.want(h.do(409, "DELETE", "/instances/f-1", ""), "do", "cancel it first, or purge it with force=true")
	h.do(202, "POST", "/instances/f-1/cancel", `{"reason":"wrong customer"}`)
	out = h.do(200, "GET", "/instances/f-1/result?wait=30s", "")
	h.want(out, "status", "cancelled")
	if !strings.Contains(fmt.Sprint(out["error"]), "wrong customer") {
		t.Error(out)
	}
}

func TestInstancesAreListedInPagesAndByFilter(t *testing.T) {
	h := newHarness(t)
	const n = 30
	for i := range n {
		h.do(202, "POST", "/instances", fmt.Sprintf(`{"orchestration":"nap","id":"nap-%02d"}`, i))
	}
	h.do(202, "POST", "/instances", `{"orchestration":"pay","id":"pay-1","input":{"amount":1}}`)
	list := func(query string) (ids []string, next string) {
		page := h.do(200, "GET", "/instances?"+query, "")
		rows, _ := page["instances"].([]any)
		for _, r := range rows {
			ids = append(ids, fmt.Sprint(r.(map[string]any)["instance"])) //nolint:forcetypeassert // an object
		}
		if page["next"] != nil {
			next = fmt.Sprint(page["next"])
		}
		return ids, next
	}
	poll.Until(h.t, time.Minute, "all run", func() bool { ids, _ := list("limit=100&where=status%3Drunning"); return len(ids) == n+1 })

	seen := map[string]int{}
	pages := 0
	for cursor := ""; ; pages++ {
		ids, next := list("limit=7&cursor=" + cursor)
		for _, id := range ids {
			seen[id]++
		}
		if cursor = next; cursor == "" {
			break
		}
		if len(ids) != 7 {
			t.Errorf("a page of %d", len(ids))
		}
	}
	if len(seen) != n+1 || pages != (n+1)/7 {
		t.Errorf("%d instances on %d pages", len(seen), pages+1)
	}
	for id, times := range seen {
		if times != 1 {
			t.Errorf("%s was listed %d times", id, times)
		}
	}
	newest, _ := list("limit=100&where=id+starts+nap-")
	backwards, next := list("limit=20&order=oldest&where=id+starts+nap-")
	if rest, _ := list("limit=20&order=oldest&where=id+starts+nap-&cursor=" + next); len(backwards) != 20 {
		t.Errorf("a page of %d", len(backwards))
	} else if slices.Reverse(newest); !slices.Equal(newest, append(backwards, rest...)) {
		t.Errorf("the oldest first: %v and %v, want %v", backwards, rest, newest)
	}
	for query, want := range map[string]int{
		"where=" + url.QueryEscape(`orchestration = "pay"`): 1, "where=id+starts+nap-1": 10, "where=id+starts+nap-1+and+orchestration%3Dpay": 0,
		"where=status+in+(completed,failed)": 0, "where=started+>+-1h": n + 1, "where=started+<+-1h": 0, "where=ended+>+-1h": 0,
		"where=id+in+(nap-03,absent,nap-03,nap-12)": 2, "where=id+in+(nap-03,nap-04)+and+id+!%3D+nap-04+and+code%3D''": 1,
		"where=id+starts+nap-+and+started+>+2020-01-01&limit=3": 3, "stalled=true": 0, "where=stalled+%3D+true+and+id+starts+nap-": 0,
	} {
		if ids, _ := list(query); len(ids) != want {
			t.Errorf("%s: %v", query, ids)
		}
	}
	h.want(h.do(200, "GET", "/counts", ""), "count", n+1)
	for query, want := range map[string]string{
		"": "<nil>", "by=status": fmt.Sprintf("[map[count:%d value:running]]", n+1), "by=orchestration": fmt.Sprintf("[map[count:%d value:nap] map[count:1 value:pay]]", n),
		"where=orchestration+%3D+pay": "<nil>", "where=orchestration+%3D+pay&by=status": "[map[count:1 value:running]]", "where=id+starts+nap-1&by=orchestration": "[map[count:10 value:nap]]",
		"where=started+>+-1h+and+orchestration+!%3D+nap&by=version": "[map[count:1 value:]]", "where=status+%3D+failed&by=code": "[]",
	} {
		if got := h.do(200, "GET", "/counts?"+query, ""); fmt.Sprint(got["groups"]) != want {
			t.Errorf("%s: %v", query, got)
		}
	}
	h.do(400, "GET", "/counts?by=started", "")
	h.do(400, "GET", "/counts?by=stalled", "")
	h.do(400, "GET", "/counts?where=statsu", "")
	for query, detail := range map[string]string{
		"status=running": "status", "where=statsu": "where: column 1", "where=status+%3D+nope": "column 10: ", "where=stalled+%3D+no": "write stalled = true", "limit=0": "limit", "limit=1001": "limit", "cursor=x": "cursor", "where=started+>+yesterday": "column 11: ",
		"order=random": "order", "stalled=true&order=oldest": "stalled", "stalled=perhaps": "stalled", "stalled=true&where=id+starts+a": "stalled",
	} {
		if p := h.do(400, "GET", "/instances?"+query, ""); !strings.Contains(fmt.Sprint(p["detail"]), detail) {
			t.Errorf("%s: %v", query, p)
		}
	}
	h.startIsWaitedFor()
}

func TestInvalidRequestsAreRefusedWithTheirMistake(t *testing.T) {
	h := newHarness(t)
	big := `"` + strings.Repeat("x", 600<<10) + `"`
	for _, x := range []struct {
		status             int
		method, path, body string
		detail             string
		headers            []string
	}{
		{400, "POST", "/instances", `{"orchestration":"pay","inputs":{}}`, `unknown field "inputs"`, nil},
		{400, "POST", "/instances", `{"orchestration":"p a y"}`, "bad name", nil},
		{400, "POST", "/instances", `{"orchestration":"pay","id":"a b"}`, "a b", nil},
		{400, "POST", "/instances", `{"orchestration":"pay","wait":"2m"}`, "at most 1m", nil},
		{400, "POST", "/instances", `{"orchestration":"pay","event":{"name":"*"}}`, "bad name", nil},
		{400, "POST", "/instances", `{"orchestration":"pay","version":"1 0"}`, "1 0", nil},
		{400, "POST", "/instances", `{"orchestration":"pay","start_at":"tomorrow"}`, "start_at", nil},
		{400, "POST", "/instances", `{"orchestration":"pay","start_at":"-1h"}`, "start_at", nil},
		{400, "POST", "/instances", `{"orchestration":"pay","run_timeout":"0s"}`, "run_timeout", nil},
		{400, "POST", "/instances", `{"orchestration":"pay","run_timeout":"long"}`, "run_timeout", nil},
		{400, "POST", "/instances", `{"orchestration":"pay","id_reuse":"always"}`, "after-failure", nil},
		{400, "POST", "/instances", `{"orchestration":"pay"} {}`, "more than one", nil},
		{400, "POST", "/instances", `{"orchestration":"pay"}}`, "more than one", nil},
		{400, "POST", "/instances", "{\"orchestration\":\"pay\",\"input\":\"\xff\"}", "UTF-8", nil},
		{400, "POST", "/instances/a/events/approved", "\"\xc3\"", "UTF-8", nil},
		{400, "POST", "/instances", ``, "the body is missing", nil},
		{400, "POST", "/instances", `{"orchestration":"pay"}`, "Idempotency-Key", []string{"Idempotency-Key", strings.Repeat("k", 300)}},
		{400, "POST", "/instances/a/events/approved", `{"a":`, "not JSON", nil},
		{400, "POST", "/instances/a/events/ap*", `1`, "bad name", nil},
		{413, "POST", "/instances/a/events/approved", big, "", nil},
		{413, "POST", "/instances/a/events/approved", `"` + strings.Repeat("x", 2<<20) + `"`, "bytes", nil},
		{415, "POST", "/instances/a/events/approved", `1`, "application/json", []string{"Content-Type", "text/plain"}},
		{404, "GET", "/instances/absent", "", "absent", nil},
		{404, "GET", "/instances/absent/history", "", "absent", nil},
		{404, "GET", "/instances/absent/result?wait=1m", "", "absent", nil},
		{404, "GET", "/instances/absent/status?wait=1m", "", "absent", nil},
		{404, "DELETE", "/instances/absent", "", "absent", nil},
		{404, "GET", "/actions/nothing/waiters", "", "nothing", nil},
		{400, "PUT", "/policies/everything", `{"concurrency":1}`, "everything", nil},
		{400, "PUT", "/policies/global", `{"rate":1}`, "rate", nil},
		{404, "DELETE", "/policies/global", "", "global", nil},
	} {
		if p := h.do(x.status, x.method, x.path, x.body, x.headers...); !strings.Contains(fmt.Sprint(p["detail"]), x.detail) {
			t.Errorf("%s %s %.60s: %v", x.method, x.path, x.body, p)
		}
	}
}

func TestPoliciesAreSetAndWaitersListedOverHTTP(t *testing.T) {
	h := newHarness(t)
	h.want(h.do(200, "PUT", "/policies/action:nap", `{"concurrency":1}`), "level", "action:nap")
	for i := range 3 {
		h.do(202, "POST", "/instances", fmt.Sprintf(`{"orchestration":"single","id":"single-%d"}`, i))
	}
	poll.Until(h.t, time.Minute, "two instances wait", func() bool {
		all, _ := h.do(200, "GET", "/actions", "")["actions"].([]any)
		return len(all) == 1 && fmt.Sprint(all[0].(map[string]any)["queue_length"]) == "2" //nolint:forcetypeassert // an object
	})
	if waiters, _ := h.do(200, "GET", "/actions/single/waiters?limit=1", "")["waiters"].([]any); len(waiters) != 1 {
		t.Error(waiters)
	}
	h.want(h.do(200, "GET", "/actions/single/queue-stats", ""), "active_count", 1)
	if holders, _ := h.do(200, "GET", "/actions/single/waiters?holders=true", "")["waiters"].([]any); len(holders) != 1 {
		t.Error(holders)
	}
	if all, _ := h.do(200, "GET", "/actions", "")["actions"].([]any); len(all) != 1 {
		t.Error(all)
	}
	h.want(h.do(200, "POST", "/actions/single/clear", ""), "cleared", 2)
	if all, _ := h.do(200, "GET", "/policies", "")["policies"].([]any); len(all) != 1 {
		t.Error(all)
	}
	h.do(404, "POST", "/actions/nap/resume", "")
	h.do(204, "POST", "/actions/nap/pause", `{"reason":"the bank is down"}`)
	paused := h.do(200, "GET", "/policies", "")["policies"].([]any)[1].(map[string]any) //nolint:forcetypeassert // objects
	h.want(paused, "level", "pause:nap")
	p := paused["policy"].(map[string]any) //nolint:forcetypeassert // an object
	h.want(p, "paused_for", "the bank is down")
	if at, err := time.Parse(time.RFC3339, fmt.Sprint(p["paused_at"])); err != nil || time.Since(at).Abs() > time.Hour || p["paused_by"] == nil {
		t.Errorf("%v, %v", p, err)
	}
	h.do(400, "PUT", "/policies/action:nap", `{"concurrency":1,"paused_by":"ann"}`)
	h.do(204, "POST", "/actions/nap/resume", "")
	h.do(204, "DELETE", "/policies/action:nap?reason=enough", "")
	poll.Until(h.t, time.Minute, "the worker answers", func() bool { // a busy machine may not answer within the half second that the listing waits
		workers, _ := h.do(200, "GET", "/workers", "")["workers"].([]any)
		return len(workers) == 1 && strings.Contains(fmt.Sprint(workers[0]), "name:w-1")
	})
}

// A start with wait_for=started is answered once it has taken effect, whether or not the id was free.
func (h *harness) startIsWaitedFor() {
	h.t.Helper()
	for _, body := range []string{
		`{"orchestration":"nap","id":"s-1","wait_for":"started"}`, `{"orchestration":"nap","id":"s-1","wait_for":"started","wait":"1m"}`,
		`{"orchestration":"nap","id":"s-2","wait_for":"started","start_at":"1h"}`, `{"orchestration":"nap","id":"s-3","wait_for":"started","id_reuse":"reject"}`,
	} {
		h.want(h.do(202, "POST", "/instances", body), "started", true)
	}
	h.want(h.do(200, "GET", "/counts?where=id+starts+s-", ""), "count", 3)
	h.want(h.do(200, "GET", "/instances/s-2", ""), "status", "pending")
	h.do(202, "POST", "/instances", `{"orchestration":"nap","id":"late","start_at":"`+time.Now().Add(time.Hour).Format(time.RFC3339)+`","wait_for":"started"}`)
	h.want(h.do(200, "GET", "/instances/late", ""), "status", "pending")
	h.want(h.do(200, "POST", "/instances", `{"orchestration":"single","id":"short","run_timeout":"300ms","wait":"1m"}`), "code", "pawl.run-timeout")
	h.want(h.do(200, "GET", "/instances/short/result?wait=1m", ""), "status", "failed")
	h.do(409, "POST", "/instances", `{"orchestration":"nap","id":"s-1","wait_for":"started","id_reuse":"reject"}`)
	if got := h.do(202, "POST", "/instances", `{"orchestration":"nowhere","id":"n-0","wait_for":"started","wait":"50ms"}`); got["started"] != nil {
		h.t.Errorf("no code is registered: %v", got)
	}
	h.do(400, "POST", "/instances", `{"orchestration":"nap","wait_for":"fun"}`)
	h.do(400, "POST", "/instances", `{"orchestration":"nap","wait_for":"started","update":{"name":"cast"}}`)
}
