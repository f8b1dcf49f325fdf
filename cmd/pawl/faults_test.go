package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/examples"
	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/console"
	"github.com/pawlrun/pawl/internal/freeport"
	"github.com/pawlrun/pawl/internal/gateway"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/process"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/pkg/client"
)

// Each fault of the console starts instances and disturbs them. No activity is lost, and none ends twice. Only pawl dev and pawl demo serve
// the page of the faults.
func TestFaultsOfTheConsoleLoseNothing(t *testing.T) {
	stack := harnessStack(t, fleets{orchestrations: examples.Orchestrations(), activities: examples.Activities()})
	nc, err := settings.NATS{NATSURL: settings.URL(stack.NATSURL())}.OpenNATS(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	c, err := client.New(t.Context(), nc, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	f := &faults{stack: stack, leaseTTL: 2 * time.Second, partitions: 4, namespace: defaultNamespace}
	serve := func(all *console.Faults) *httptest.Server {
		handler := gateway.New(gateway.Config{Client: func() *client.Client { return c }, Faults: all, Access: access.Policy{Loopback: true}})
		t.Cleanup(handler.Close)
		srv := httptest.NewServer(handler)
		t.Cleanup(srv.Close)
		return srv
	}
	with, without := serve(f.buttons()), serve(nil)
	page := func(srv *httptest.Server, post string) (int, string) {
		t.Helper()
		get := func() (*http.Response, error) { return srv.Client().Get(srv.URL + "/faults") }
		if post != "" {
			get = func() (*http.Response, error) { return srv.Client().PostForm(srv.URL+"/faults/"+post, url.Values{}) }
		}
		r, err := get()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Body.Close() }()
		b, _ := io.ReadAll(r.Body)
		return r.StatusCode, string(b)
	}
	for _, post := range []string{"", "worker"} {
		if status, _ := page(without, post); status != http.StatusNotFound {
			t.Errorf("without faults: %d", status)
		}
	}
	instances := 0
	for id, want := range map[string]string{
		"worker": "was killed while it ran", "orchestrator": "the other took over its partitions", "redis": "was killed and answered again", "cancel": "200 activities were cancelled",
	} {
		if id == "redis" && stack.RedisPID() == 0 {
			continue
		}
		if status, _ := page(with, id); status != http.StatusOK {
			t.Fatalf("%s: %d", id, status)
		}
		instances += burstInstances
		if id == "cancel" {
			instances -= burstInstances - 1
		}
		var text string
		poll.Until(t, 2*faultTime, id+" is done or has failed", func() bool {
			_, text = page(with, "")
			return strings.Contains(text, want) || strings.Contains(text, "timed out")
		})
		if !strings.Contains(text, want) {
			t.Fatalf("%s: %s", id, text)
		}
	}
	if n := f.counted(); n.Lost != 0 || n.Duplicated != 0 || n.Running != 0 || n.Instances != instances {
		t.Errorf("%+v, want %d instances", n, instances)
	}
}

// An orchestrator with --ui and --http serves the console of its namespace.
func TestOrchestratorServesTheConsole(t *testing.T) {
	nats, redis := harnessAt(t, fleets{orchestrations: examples.Orchestrations()})
	addr := fmt.Sprintf("127.0.0.1:%d", freeport.Take(t))
	p, err := process.Start("orchestrator", io.Discard, "serve-orchestrator", "--examples", "--ui", "--http", addr, "--partitions", "4", "--nats", nats, "--redis", redis)
	if err != nil {
		t.Fatal(err)
	}
	atEnd(t, p.Stop)
	eventually(t, "the console is served", func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/instances", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Close = true
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		defer func() { _ = r.Body.Close() }()
		b, _ := io.ReadAll(r.Body)
		return r.StatusCode == http.StatusOK && strings.Contains(string(b), "<h1>Instances</h1>")
	})
}
