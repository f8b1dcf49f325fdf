package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/examples"
)

// A process that is connected only to NATS serves the console of a fleet until it receives a signal.
func TestUIServesTheConsoleOfAFleet(t *testing.T) {
	nats := harness(t, fleets{orchestrations: examples.Orchestrations()})
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"ui", "--nats", nats, "--http", "127.0.0.1:0"}, streams{w, io.Discard})
		_ = w.Close()
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	url := regexp.MustCompile(`http://\S+/`).FindString(line)
	if err != nil || url == "" {
		t.Fatalf("%q, %v", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	for _, path := range []string{"", "api/v1/counts", "api/v1/openapi.json"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("/%s: %s", path, resp.Status)
		}
	}
	if c, out, errs := command(t, "ui", "--nats", nats, "--http", "0.0.0.0:0"); c != 2 || out != "" || !strings.Contains(errs, "requires users: --http-tokens") {
		t.Errorf("all interfaces without users: code %d, %q, %q", c, out, errs)
	}
	cancel()
	if c := <-code; c != 0 {
		t.Errorf("exit code %d", c)
	}
}
