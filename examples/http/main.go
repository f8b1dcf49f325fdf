// Command http is a service that uses Pawl over HTTP with net/http alone: it starts an order, follows its changes, sends the approval
// that the order waits for, and prints the result.
//
//	go run ./cmd/pawl dev          # in another terminal
//	go run ./examples/http order-1
//
// orders.sh in the same directory does this with curl.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: http ORDER")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	base := os.Getenv("PAWL_URL")
	if base == "" {
		base = "http://127.0.0.1:7295"
	}
	p := &api{base: base + "/api/v1", token: os.Getenv("PAWL_TOKEN")}
	if err := p.order(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "http:", err)
		os.Exit(1) //nolint:gocritic // the process ends anyway
	}
}

// api is the API of a namespace.
type api struct{ base, token string }

// problem is an error of the API (RFC 9457), including what the caller can do.
type problem struct {
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Do     string `json:"do"`
}

// Error returns the detail.
func (p *problem) Error() string { return p.Detail }

// order runs an order to its end.
func (p *api) order(ctx context.Context, id string) error {
	start := map[string]any{
		"orchestration": "fulfil-order", "id": id,
		"input": map[string]any{"id": id, "item": "lamp", "quantity": 1, "cents": 4900},
	}
	// The key makes the request safe to repeat: the order is started once, however often the request is sent.
	if err := p.call(ctx, http.MethodPost, "/instances", start, "start-"+id, nil); err != nil {
		return err
	}
	following, stop := context.WithCancel(ctx)
	defer stop()
	go p.follow(following, id)
	if err := p.call(ctx, http.MethodPost, "/instances/"+id+"/events/approved", map[string]string{"by": "finance"}, "approve-"+id, nil); err != nil {
		return err
	}
	for { // each long poll takes at most a minute
		var out struct {
			Status string          `json:"status"`
			Result json.RawMessage `json:"result"`
			Error  string          `json:"error"`
		}
		if err := p.call(ctx, http.MethodGet, "/instances/"+id+"/result?wait=30s", nil, "", &out); err != nil {
			return err
		}
		if out.Status == "running" || out.Status == "pending" {
			continue
		}
		_, _ = fmt.Fprintln(os.Stdout, out.Status, string(out.Result), out.Error)
		return nil
	}
}

// call sends a request and decodes its answer. A request without an answer is repeated with the same key.
func (p *api) call(ctx context.Context, method, path string, body any, key string, out any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := p.once(ctx, method, path, b, key, out)
		refused, answered := errors.AsType[*problem](err)
		if err == nil || answered && refused.Status < 500 || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

func (p *api) once(ctx context.Context, method, path string, body []byte, key string, out any) error {
	r, err := p.request(ctx, method, path, body)
	if err != nil {
		return err
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	resp, err := http.DefaultClient.Do(r) //nolint:gosec // the address is that of the user's own Pawl
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= http.StatusBadRequest {
		e := &problem{Status: resp.StatusCode, Detail: resp.Status}
		_ = json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(e) // otherwise only the HTTP status is reported
		return e
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

func (p *api) request(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, p.base+path, bytes.NewReader(body)) //nolint:gosec // likewise
	if err != nil {
		return nil, err
	}
	if method == http.MethodGet {
		r.Body, r.ContentLength = http.NoBody, 0
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	if p.token != "" {
		r.Header.Set("Authorization", "Bearer "+p.token)
	}
	return r, nil
}

// follow prints the changes of an instance as they happen. A client that reconnects sends the id of the last event.
func (p *api) follow(ctx context.Context, id string) {
	r, err := p.request(ctx, http.MethodGet, "/instances/"+id+"/watch", nil)
	if err != nil {
		return
	}
	resp, err := http.DefaultClient.Do(r) //nolint:gosec // the address is that of the user's own Pawl
	if err != nil {
		return
	}
	defer func() { _ = resp.Body.Close() }()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if data, is := strings.CutPrefix(lines.Text(), "data: "); is && data != "{}" {
			_, _ = fmt.Fprintln(os.Stdout, "changed", data)
		}
	}
}
