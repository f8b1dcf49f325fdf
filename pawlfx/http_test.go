package pawlfx_test

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/examples"
	"github.com/pawlrun/pawl/pawlfx"
	"github.com/pawlrun/pawl/pkg/orchestrator"
)

// An address that others can reach serves the API to users with a token only, and without tokens not at all.
func TestAPIOnANetworkAddressRequiresTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	const token = "0123456789abcdef"
	if err := os.WriteFile(file, []byte(token+" viewer ada\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := func(opts ...pawlfx.HTTPOption) (url string) {
		_, port, err := net.SplitHostPort(freeAddress(t))
		if err != nil {
			t.Fatal(err)
		}
		start(t, pawlfx.New(slog.New(slog.DiscardHandler),
			connections(t), pawlfx.Orchestrator(orchestrator.Config{Partitions: 1}), pawlfx.Orchestrations(examples.Orchestrations),
			pawlfx.HTTP("0.0.0.0:"+port, opts...)))
		return "http://127.0.0.1:" + port
	}
	call := func(url, path, token string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	const list = "/api/v1/policies"
	open := serve()
	if code, body := call(open, list, token); code != http.StatusForbidden || !strings.Contains(body, "--http-tokens") {
		t.Errorf("without tokens: %d %s", code, body)
	}
	if code, _ := call(open, "/healthz", ""); code != http.StatusOK {
		t.Errorf("health: %d", code)
	}
	held := serve(pawlfx.HTTPTokens(file))
	if code, _ := call(held, list, ""); code != http.StatusUnauthorized {
		t.Errorf("without a token: %d", code)
	}
	eventually(t, "the list", func() bool { code, _ := call(held, list, token); return code == http.StatusOK })
}
