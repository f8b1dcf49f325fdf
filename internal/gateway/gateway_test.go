package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newClient returns a client of a namespace with one partition. reply is the owner of the partition; nil: it has no owner.
func newClient(t *testing.T, reply func(request.Request) (request.Reply, error)) *client.Client {
	t.Helper()
	c, _ := newClientOn(t, reply)
	return c
}

// newClientOn returns such a client, and another connection to the same NATS server.
func newClientOn(t *testing.T, reply func(request.Request) (request.Reply, error)) (*client.Client, *nats.Conn) {
	t.Helper()
	srv := natstest.Start(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	conn, err := transport.Open(ctx, natstest.Dial(t, srv.ClientURL()), transport.Options{Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if reply != nil {
		s, err := request.Serve(conn, 0, func(_ context.Context, q request.Request) (request.Reply, error) { return reply(q) })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Stop)
	}
	if err := conn.NATS().Flush(); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(ctx, natstest.Dial(t, srv.ClientURL()), client.Options{OwnerTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, conn.NATS()
}

func serve(t *testing.T, h http.Handler, method, path string) (*http.Response, string) {
	t.Helper()
	w := httptest.NewRecorder()
	r0 := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	r0.Host = "localhost"
	h.ServeHTTP(w, r0)
	r := w.Result()
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r, string(b)
}

// refused expects a complete problem with a status and a detail, and returns the response.
func refused(t *testing.T, h http.Handler, method, path string, status int, detail string) *http.Response {
	t.Helper()
	r, body := serve(t, h, method, path)
	var p problem
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatalf("%s %s: %s: %v", method, path, body, err)
	}
	if r.StatusCode != status || p.Status != status || r.Header.Get("Content-Type") != "application/problem+json" ||
		p.Type != "about:blank" || p.Title != http.StatusText(status) || !strings.Contains(p.Detail, detail) {
		t.Errorf("%s %s: %d %v\n%s", method, path, r.StatusCode, r.Header, body)
	}
	return r
}

func TestQueueStatsAreServedWithAllFields(t *testing.T) {
	full := request.LimitStats{
		Action: "charge", Key: "acme", Waiting: 1, Active: 2, OldestEnqueued: 1_790_000_000_123, Enqueued: 4, Completed: 5, Rejected: 6,
		TimedOut: 7, Withdrawn: 8, Cleared: 9, LimitedUntil: 1_790_000_001_000, Deadlocked: true, Policy: history.Policy{Concurrency: 3, Key: "customer"},
	}
	c := newClient(t, func(q request.Request) (request.Reply, error) {
		switch q := q.(type) {
		case *request.Limits:
			if q.Action == "charge" {
				return &request.LimitPage{Limits: []request.LimitStats{full, {Action: "charge", Key: "x"}}}, nil
			}
			return new(request.LimitPage), nil
		case *request.Limit:
			switch *q {
			case request.Limit{Action: "charge", Key: "a/c me?"}:
				return &request.LimitPage{Limits: []request.LimitStats{full}}, nil
			case request.Limit{Action: "nap"}:
				return &request.LimitPage{Limits: []request.LimitStats{{Action: "nap"}}}, nil
			}
		}
		return nil, &request.Problem{Code: request.ProblemNotFound, Message: "no calls"}
	})
	h := New(Config{Access: access.Policy{Loopback: true}, Client: func() *client.Client { return c }})
	for path, want := range map[string]string{
		"charge/queue-stats?key=a%2Fc+me%3F": `{"action":"charge","key":"acme","queue_length":1,"active_count":2,"max_concurrent":3,"oldest_enqueued_at":"2026-09-21T14:13:20.123Z","total_enqueued":4,` +
			`"total_completed":5,"rejected":6,"timed_out":7,"withdrawn":8,"cleared":9,"limited_until":"2026-09-21T14:13:21.000Z","deadlocked":true,"policy":{"concurrency":3,"key":"customer"}}`,
		"nap/queue-stats": `{"action":"nap","key":"","queue_length":0,"active_count":0,"max_concurrent":0,"oldest_enqueued_at":null,"total_enqueued":0,` +
			`"total_completed":0,"rejected":0,"timed_out":0,"withdrawn":0,"cleared":0,"limited_until":null,"deadlocked":false,"policy":{}}`,
		"charge/queue-stats": `{"action":"charge","key":"","keys":2,"queue_length":1,"active_count":2,"max_concurrent":3,"oldest_enqueued_at":"2026-09-21T14:13:20.123Z","total_enqueued":4,` +
			`"total_completed":5,"rejected":6,"timed_out":7,"withdrawn":8,"cleared":9,"limited_until":"2026-09-21T14:13:21.000Z","deadlocked":true,"policy":{"concurrency":3,"key":"customer"}}`,
	} {
		r, body := serve(t, h, http.MethodGet, "/api/v1/actions/"+path)
		if r.StatusCode != http.StatusOK || strings.TrimSpace(body) != want || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v\n%s\nwant\n%s", path, r.StatusCode, r.Header, body, want)
		}
	}
	refused(t, h, http.MethodGet, "/api/v1/actions/charge/queue-stats?key=absent", http.StatusNotFound, "no calls")
	refused(t, h, http.MethodGet, "/api/v1/actions/unknown/queue-stats", http.StatusNotFound, "no calls")
	refused(t, h, http.MethodGet, "/api/v1/actions/no%20name/queue-stats", http.StatusBadRequest, "bad name")
	refused(t, h, http.MethodGet, "/api/v1/actions/a%2Fb/queue-stats", http.StatusBadRequest, "bad name")
	refused(t, h, http.MethodGet, "/api/v1/actions/nap/queue-stats?key=a;b", http.StatusBadRequest, "semicolon")
	refused(t, h, http.MethodGet, "/api/v1/actions/nap/queue-stats?key=100%", http.StatusBadRequest, "invalid URL escape")
	refused(t, h, http.MethodGet, "/api/v1/action", http.StatusNotFound, "/api/v1/action")
	refused(t, h, http.MethodGet, "/api/v1/actions/nap/queue-stats?kye=a", http.StatusBadRequest, "kye")
	refused(t, h, http.MethodGet, "/api/v2/actions/charge/queue-stats", http.StatusNotFound, "nothing at")
	if r := refused(t, h, http.MethodPost, "/api/v1/actions/charge/queue-stats", http.StatusMethodNotAllowed, "POST"); r.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("%v", r.Header)
	}
	if r, _ := serve(t, h, http.MethodHead, "/api/v1/actions/nap/queue-stats"); r.StatusCode != http.StatusOK {
		t.Errorf("HEAD: %d", r.StatusCode)
	}
}

func TestFailedRequestsAreLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	var c *client.Client
	h := New(Config{Access: access.Policy{Loopback: true}, Client: func() *client.Client { return c }, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	const path = "/api/v1/actions/charge/queue-stats"
	refused(t, h, http.MethodGet, path, http.StatusServiceUnavailable, "not connected")
	c = newClient(t, nil)
	refused(t, h, http.MethodGet, path, http.StatusServiceUnavailable, "partition 0")
	c.Close()
	c = newClient(t, func(request.Request) (request.Reply, error) {
		return nil, &request.Problem{Code: request.ProblemInternal, Message: "out of memory"}
	})
	refused(t, h, http.MethodGet, path, http.StatusInternalServerError, "out of memory")
	for range 100 { // trap: one log line for each bad request
		refused(t, h, http.MethodGet, path, http.StatusInternalServerError, "out of memory")
	}
	if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "out of memory") {
		t.Errorf("logged:\n%s", log.String())
	}
}

func TestHealthIsServedWithoutAnAPI(t *testing.T) {
	var missing error
	metrics := prometheus.NewRegistry()
	n := prometheus.NewCounter(prometheus.CounterOpts{Name: "things_total", Help: "Things."})
	metrics.MustRegister(n)
	h := New(Config{Ready: func() error { return missing }, Metrics: metrics})
	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ready\n", "/metrics": "things_total 0\n"} {
		if r, body := serve(t, h, http.MethodGet, path); r.StatusCode != http.StatusOK || !strings.HasSuffix(body, want) {
			t.Errorf("%s: %d %s", path, r.StatusCode, body)
		}
	}
	missing = errors.New("NATS\nRedis")
	if r, body := serve(t, h, http.MethodGet, "/readyz"); r.StatusCode != http.StatusServiceUnavailable || body != "NATS\nRedis\n" {
		t.Errorf("%d %s", r.StatusCode, body)
	}
	bare := New(Config{})
	for path, want := range map[string]int{"/readyz": 200, "/metrics": 404, "/api/v1/actions/charge/queue-stats": 404} {
		if r, _ := serve(t, bare, http.MethodGet, path); r.StatusCode != want {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
}

func TestQueueStatsMatchTheFieldsOfTheClient(t *testing.T) {
	stats, info := reflect.TypeFor[api.QueueStats](), reflect.TypeFor[client.QueueInfo]()
	if stats.NumField() != info.NumField()+1 { // max_concurrent, which is part of the policy
		t.Errorf("%d fields, want one more than %d", stats.NumField(), info.NumField())
	}
}

// Trap: an outage is presented as an empty list. Instead, the page reports that the fleet does not answer, and reloads
// itself.
func TestPagesReportThatTheFleetDoesNotAnswer(t *testing.T) {
	c := newClient(t, nil)
	h := New(Config{Access: access.Policy{Loopback: true}, Client: func() *client.Client { return c }})
	t.Cleanup(h.Close)
	for path, x := range map[string]struct {
		status int
		again  string
	}{"/": {200, `data-later="`}, "/instances": {503, ""}, "/instances/order-1": {503, ""}, "/limits": {503, ""}} {
		r, body := serve(t, h, http.MethodGet, path)
		if r.StatusCode != x.status || !strings.Contains(body, "The logs of the orchestrators have the cause") || !strings.Contains(body, x.again) {
			t.Errorf("%s: %d %s", path, r.StatusCode, body)
		}
		if x.status == http.StatusServiceUnavailable && r.Header.Get("Refresh") != "5" {
			t.Errorf("%s is not reloaded", path)
		}
		for _, wrong := range []string{"Nothing.", "no instances yet", "<b>0</b>", "Idempotency-Key", "queue: ", "partition 0"} {
			if path == "/" && strings.Contains(body, wrong) {
				t.Errorf("%s: %q", path, wrong)
			}
		}
	}
}
