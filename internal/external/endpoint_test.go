package external

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
)

// served returns an activity of an endpoint on this machine.
func served(t *testing.T, h http.HandlerFunc) Activity {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	t.Cleanup(func() { http.DefaultTransport.(*http.Transport).CloseIdleConnections() })
	return Activity{HTTP: s.URL + "/charge?token=secret", AllowPrivate: true}
}

func TestEndpointReceivesTheInputAndTheKeyAndItsBodyIsTheResult(t *testing.T) {
	t.Setenv("TOKEN", "t-1")
	a := served(t, func(w http.ResponseWriter, r *http.Request) {
		in, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Authorization") != "Bearer t-1" {
			http.Error(w, "wrong request", http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, `{"in":`+string(in)+`,"by":"`+r.Header.Get("Idempotency-Key")+" "+r.Header.Get("Pawl-Instance")+" "+r.Header.Get("Pawl-Attempt")+`"}`)
	})
	a.Headers = map[string]string{"Authorization": "Bearer $TOKEN"}
	if got := call(t.Context(), t, a, `7`); got.failure != nil || got.result != `{"in":7,"by":"key-1 i-1 2"}` {
		t.Errorf("%+v", got)
	}
}

func TestStatusOfAnEndpointIsItsFailure(t *testing.T) {
	for status, permanent := range map[int]bool{
		http.StatusBadRequest: true, http.StatusNotFound: true, http.StatusFound: true, http.StatusTemporaryRedirect: true,
		http.StatusRequestTimeout: false, http.StatusTooManyRequests: false, http.StatusInternalServerError: false,
	} {
		calls := 0
		a := served(t, func(w http.ResponseWriter, _ *http.Request) {
			calls++
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
		})
		f := call(t.Context(), t, a, "").failure
		if f == nil || f.Permanent != permanent || calls != 1 || strings.Contains(f.Message, "secret") {
			t.Errorf("%d: %+v after %d calls", status, f, calls)
		}
	}
	a := served(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, declined(t, true), http.StatusPaymentRequired)
	})
	wantDescribed(t, call(t.Context(), t, a, "").failure, false)
	large := served(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `"`+strings.Repeat("x", maxBytes)+`"`)
	})
	if f := call(t.Context(), t, large, "").failure; !errors.Is(f, pawl.ErrTooLarge) {
		t.Errorf("%+v", f)
	}
}

func TestRetryAfterIsObeyedInPlaceWithinItsMaximum(t *testing.T) {
	calls, after := 0, "0"
	a := served(t, func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls < 3 {
			w.Header().Set("Retry-After", after)
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	a.Retry = &Retry{Initial: 1, Max: 1e9}
	if got := call(t.Context(), t, a, ""); got.failure != nil || calls != 3 {
		t.Errorf("%+v after %d calls", got, calls)
	}
	calls, after = 0, "3600"
	if got := call(t.Context(), t, a, ""); got.failure == nil || got.failure.Permanent || calls != 1 {
		t.Errorf("%+v after %d calls", got, calls)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for v, want := range map[string]time.Duration{
		"": 0, "x": 0, "-5": 0, "7": 7 * time.Second, now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Hour).Format(http.TimeFormat): 0,
	} {
		if got := retryAfter(v, now); got != want {
			t.Errorf("%q: %s, not %s", v, got, want)
		}
	}
}

func TestCancellationClosesTheConnection(t *testing.T) {
	arrived, closed := make(chan struct{}), make(chan struct{})
	a := served(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server watches the connection only after that
		close(arrived)
		<-r.Context().Done()
		close(closed)
	})
	ctx, stop := cancellable(t)
	go func() {
		<-arrived
		stop()
	}()
	f := call(ctx, t, a, "1").failure
	if !errors.Is(f, context.Canceled) || f.Message != (&pawl.Cancelled{}).Error() && !strings.Contains(f.Message, "wrong customer") {
		t.Errorf("%+v", f)
	}
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Error("the server still has the connection")
	}
}

// A name that passes a check may resolve to another address when it is dialed, so the dialed address is checked.
func TestPrivateAddressesAreRefusedWhenTheyAreDialed(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a private address was called") }))
	t.Cleanup(s.Close)
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"} {
		f := call(t.Context(), t, Activity{HTTP: "http://" + host + ":" + port}, "").failure
		if f == nil || !f.Permanent && !strings.Contains(f.Message, "refused") || f.Permanent && !strings.Contains(f.Message, "is not public") {
			t.Errorf("%s: %+v", host, f)
		}
	}
	for address, want := range map[string]bool{
		"93.184.215.14": true, "2606:2800:21f:cb07:6820:80da:af6b:8b2c": true,
		"10.1.2.3": false, "172.16.0.1": false, "192.168.1.1": false, "169.254.169.254": false, "100.100.100.200": false, "0.0.0.0": false,
		"224.0.0.1": false, "255.255.255.255": false, "::": false, "::1": false, "fe80::1%eth0": false, "fd00:ec2::254": false,
		"64:ff9b::a9fe:a9fe": false, "2002:7f00:1::": false, "::ffff:10.0.0.1": false, "::10.0.0.1": false,
	} {
		if isPublic(netip.MustParseAddr(address)) != want {
			t.Errorf("%s: public is not %v", address, want)
		}
	}
}

func TestConfigurationIsReadFromFlagsAndYAML(t *testing.T) {
	file := filepath.Join(t.TempDir(), "activities.yaml")
	write := func(s string) Config {
		t.Helper()
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Read(file)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := write(`
activities:
  resize-image: {exec: python3 'my resize.py', queue: images, concurrency: 2, grace: 30s, timeout: 5m, permanent: [2]}
  crop-image:   {exec: [crop, -v], queue: images, concurrency: 3, limit: {concurrency: 5, rate: 10, rate_window_ms: 1000, key: customer.id}}
  charge:       {http: "https://pay.example/charge", headers: {Authorization: Bearer $TOKEN}, retry: {attempts: 3, initial: 2s, max: 1m}}
`)
	if err := errors.Join(c.AddExec(`say=echo "a b" c\ d`), c.AddHTTP("ship=http://10.0.0.1/ship?a=b", true)); err != nil {
		t.Fatal(err)
	}
	bindings, err := c.Bindings(nil)
	if err != nil || len(bindings) != 5 || bindings[1].Queue() != "images" || c.Concurrency()["images"] != 2 || len(c.Concurrency()) != 1 {
		t.Errorf("%v, %v", bindings, err)
	}
	if e := c.Activities["say"].Exec; len(e) != 3 || e[1] != "a b" || e[2] != "c d" || c.Activities["resize-image"].Exec[1] != "my resize.py" {
		t.Errorf("%+v", c.Activities)
	}
	for _, wrong := range []error{c.AddExec("say=again"), c.AddExec("x"), c.AddExec("x='"), c.AddHTTP("x", false)} {
		if wrong == nil {
			t.Error("accepted")
		}
	}
	for _, wrong := range []string{
		`{activities: {x: {exec: ls, http: "http://a"}}}`, `{activities: {x: {}}}`, `{activities: {x: {http: "ftp://a"}}}`, `{activities: {"a b": {exec: ls}}}`,
		`{activities: {x: {exec: ls, limit: {rate: 1}}}}`, `{activities: {x: {exec: ls, limit: {}}}}`, `{activities: {x: {exec: ls, limit: {concurrency: 1, paused: true}}}}`,
		`{activities: {x: {exec: ls, headers: {a: b}}}}`, `{activities: {x: {http: "http://a", dir: /}}}`, `{activities: {x: {exec: ls, concurrency: -1}}}`,
	} {
		if _, err := write(wrong).Bindings(nil); err == nil {
			t.Errorf("%s was accepted", wrong)
		}
	}
	if err := os.WriteFile(file, []byte(`{activities: {x: {exec: ls, grce: 1s}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(file); err == nil || !strings.Contains(err.Error(), "grce") {
		t.Errorf("an unknown member: %v", err)
	}
}

func TestGuidePageShowsAFileThatIsValid(t *testing.T) {
	page, err := os.ReadFile("../../docs/guide/activities-without-go.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	block, _, ok := strings.Cut(rest, "```")
	file := filepath.Join(t.TempDir(), "activities.yaml")
	if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Read(file)
	if err != nil || !ok {
		t.Fatal(err)
	}
	if b, err := c.Bindings(nil); err != nil || len(b) != 2 || len(c.Activities["resize-image"].Permanent) != 2 || c.Activities["charge"].Retry.Attempts != 5 {
		t.Errorf("%v, %v", b, err)
	}
}
