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
	"time"

	"go.uber.org/fx"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/examples"
	"github.com/pawlrun/pawl/internal/embedded"
	"github.com/pawlrun/pawl/internal/netfault"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pawlfx"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// On an address that other machines can reach, the API is served only to users with a token, and without users not at all.
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

// A probe usually has a timeout of a second.
func TestReadinessIsAnsweredWithinASecondWhileRedisIsBlackHoled(t *testing.T) {
	servers, err := embedded.Start(t.Context(), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = servers.Stop() })
	line, err := netfault.Listen(strings.TrimPrefix(servers.RedisURL(), "redis://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(line.Close)
	addr := freeAddress(t)
	stop := start(t, pawlfx.New(slog.New(slog.DiscardHandler),
		pawlfx.Connections(
			func() (*nats.Conn, error) { return transport.Dial(servers.NATSURL()) },
			func() redis.UniversalClient { return redis.NewClient(&redis.Options{Addr: line.Addr()}) },
		),
		pawlfx.Orchestrator(orchestrator.Config{Partitions: 1}), pawlfx.Orchestrations(examples.Orchestrations),
		pawlfx.Worker(worker.Config{}), pawlfx.Activities(examples.Activities),
		pawlfx.HTTP(addr)))
	eventually(t, "ready", func() bool { code, _ := get(t, "http://"+addr+"/readyz"); return code == http.StatusOK })
	line.BlackHole()
	fastest := time.Hour
	for try := 0; try < 3 || try < 20 && fastest >= time.Second; try++ { // a loaded machine may delay some
		began := time.Now()
		if code, body := get(t, "http://"+addr+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "redis") {
			t.Errorf("%d %s", code, body)
		}
		fastest = min(fastest, time.Since(began))
	}
	if fastest >= time.Second {
		t.Errorf("answered after %s", fastest)
	}
	line.Heal()
	stop()
}

func TestAddressInUseIsAnErrorThatNamesItsSetting(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for setting, server := range map[string]fx.Option{
		"--http":  pawlfx.HTTP(l.Addr().String(), pawlfx.HTTPSetting("--http")),
		"--pprof": pawlfx.Profiles(l.Addr().String(), pawlfx.ProfilesSetting("--pprof")),
	} {
		app := pawlfx.New(slog.New(slog.DiscardHandler), server)
		if err := app.Start(t.Context()); err == nil || !strings.Contains(err.Error(), l.Addr().String()) || !strings.Contains(err.Error(), setting+" chooses another address") {
			t.Errorf("%s: %v", setting, err)
		}
	}
}
