package settings

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/pawlrun/pawl/internal/embedded"
	"github.com/pawlrun/pawl/internal/redisx"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fleet struct {
	Fleet
	Orchestrator
	Worker
}

func parse(t *testing.T, args ...string) (cfg fleet, code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code, ok := Parse(&cfg, "fleet", "A fleet.", args, &o, &e)
	if ok != (code == ExitDone && o.Len() == 0) {
		t.Errorf("code %d, ok %v, output %q", code, ok, o.String())
	}
	return cfg, code, o.String(), e.String()
}

func TestFlagsOverrideVariablesAndVariablesOverrideDefaults(t *testing.T) {
	t.Setenv("PAWL_NATS", "nats://env:1")
	t.Setenv("PAWL_LEASE_TTL", "3s")
	t.Setenv("PAWL_EXAMPLES", "true")
	cfg, code, _, errs := parse(t, "--lease-ttl", "2s", "--concurrency=7")
	if code != ExitDone {
		t.Fatal(errs)
	}
	if cfg.NATSURL != "nats://env:1" || cfg.LeaseTTL != 2*time.Second || !cfg.Examples || cfg.Concurrency != 7 ||
		cfg.Namespace.Namespace != "default" || cfg.Partitions != 64 || cfg.InputsMax != 1<<30 || cfg.RedisURL != "redis://127.0.0.1:6379" {
		t.Errorf("%+v", cfg)
	}
}

func TestUsageErrorIsOneLineAndCodeTwo(t *testing.T) {
	for _, args := range [][]string{
		{"--no-such"}, {"--lease-ttl", "soon"}, {"--log-level", "loud"}, {"extra"}, {"--namespace", "a.b"}, {"--redis", "localhost:6379"},
		{"--redis", "redis://h:1/db"}, {"--redis-ca", "missing.pem"}, {"--nats-ca", "missing.pem"}, {"--nats-nkey", "missing.nk"}, {"--nats-creds", "missing.creds"},
		{"--nats", "http://127.0.0.1:1"}, {"--nats-inbox-prefix", "a.*"}, {"--nats-inbox-prefix", "a."}, {"--reply-prefixes", "$JS"}, {"--reply-prefixes", "_INBOX,pawl."},
		{"--partitions", "0"}, {"--partitions", "1025"}, {"--replicas", "0"}, {"--inputs-max-bytes", "1"}, {"--max-child-depth", "0"}, {"--inputs-max-bytes", "9999999TiB"}, {"--inputs-max-bytes", "1 GB"}, {"--reconcile-interval=-1s"}, {"--lease-ttl", "1ms"}, {"--concurrency", "0"}, {"--drain=-1s"},
		{"--grace", "0s"}, {"--max-abandoned", "0"}, {"--retention", "0s"}, {"--retention", "72"}, {"--retention", "completed"}, {"--retention", "running=1h"},
		{"--retention", "completed=1h,failed"}, {"--retention", "completed=-1h"}, {"--retention", ""},
	} {
		_, code, _, errs := parse(t, args...)
		if code != ExitUsage || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "--help") {
			t.Errorf("%q: code %d, %q", args, code, errs)
		}
	}
}

func TestHelpShowsEverySettingWithItsVariable(t *testing.T) {
	_, code, out, _ := parse(t, "--help")
	if code != ExitDone {
		t.Errorf("code %d", code)
	}
	for _, want := range []string{
		"--namespace", "--nats", "--nats-creds", "--nats-nkey", "--nats-ca", "--nats-inbox-prefix", "--reply-prefixes", "--redis", "--redis-ca", "--partitions", "--replicas",
		"--inputs-max-bytes", "--max-child-depth", "--lease-ttl", "--reconcile-interval", "--retention", "--fail-diverged", "--grace", "--max-abandoned", "--concurrency", "--drain", "--http", "--log-level", "--log-format", "--examples", "--payload-keys", "--compress-payloads", "PAWL_NATS", "PAWL_RECONCILE_INTERVAL",
		`--nats="nats://127.0.0.1:4222"`, `--redis="redis://127.0.0.1:6379"`, `--namespace="default"`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%s is missing in the help:\n%s", want, out)
		}
	}
}

func TestRetentionIsOneTimeOrOnePerStatus(t *testing.T) {
	for text, want := range map[string]Retention{
		"1h":                                  {time.Hour, time.Hour, time.Hour},
		"forever":                             {-1, -1, -1},
		"failed=720h":                         {DefaultRetention, 720 * time.Hour, DefaultRetention},
		"completed=1m, cancelled=forever":     {time.Minute, DefaultRetention, -1},
		"completed=1h,failed=2h,cancelled=3h": {time.Hour, 2 * time.Hour, 3 * time.Hour},
	} {
		if cfg, code, _, errs := parse(t, "--retention", text); code != ExitDone || cfg.Retention != want {
			t.Errorf("%s: code %d, %+v, %s", text, code, cfg.Retention, errs)
		}
	}
	if cfg, _, _, _ := parse(t); cfg.Retention != (Retention{DefaultRetention, DefaultRetention, DefaultRetention}) {
		t.Errorf("by default: %+v", cfg.Retention)
	}
	t.Setenv("PAWL_RETENTION", "completed=2h")
	if cfg, code, _, errs := parse(t); code != ExitDone || cfg.Retention.Completed != 2*time.Hour {
		t.Errorf("from the environment: %+v, %s", cfg.Retention, errs)
	}
}

func TestEveryFormOfARedisURLIsReadByTheClient(t *testing.T) {
	for raw, want := range map[string]string{
		"redis://h:1/2":                                  "| redis://h:1/2",
		"rediss://u:p@h:1?read_timeout=2s":               "| rediss://u:p@h:1?read_timeout=2s",
		"unix:///run/redis.sock?db=1":                    "| unix:///run/redis.sock?db=1",
		"redis+cluster://h:1":                            "cluster| redis://h:1",
		"redis+cluster://u:p@a:1,b:2?max_retries=3":      "cluster| redis://u:p@a:1?max_retries=3&addr=b%3A2",
		"redis://a:1,b:2,c:3":                            "cluster| redis://a:1?addr=b%3A2&addr=c%3A3",
		"redis://a:1,redis://u:p@b:2":                    "cluster| redis://a:1?addr=b%3A2",
		"rediss+sentinel://a:1,b:2/3?master_name=m":      "sentinel| rediss://a:1/3?master_name=m&addr=b%3A2",
		"redis+sentinel://[::1]:1,[::2]:2?master_name=m": "sentinel| redis://[::1]:1?master_name=m&addr=%5B%3A%3A2%5D%3A2",
	} {
		kind, u, err := normalise(raw)
		if got := kind + "| " + u; err != nil || got != want {
			t.Errorf("%s:\n got %s, %v\nwant %s", raw, got, err, want)
		}
		rdb, err := Redis{RedisURL: URL(raw)}.client(nil)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestInvalidRedisURLIsNamedWithoutItsPassword(t *testing.T) {
	for _, raw := range []string{
		"h:6379", "u:geheim@h:6379", "http://h", "redis+what://h", "redis://u:geheim@h:port", "redis+sentinel://u:geheim@h:1",
		"redis://u:geheim@h:1?no_such=1", "redis://u:geheim@h:1/db",
	} {
		_, err := Redis{RedisURL: URL(raw)}.OpenRedis(t.Context(), discard())
		if err == nil || strings.Contains(err.Error(), "geheim") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// closedPort returns an address without a listener.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func TestUnreachableServerIsOneLineWithItsNameAndAddress(t *testing.T) {
	_ = Log{}.Open(io.Discard)
	addr := closedPort(t)
	_, err := Redis{RedisURL: URL("redis://u:geheim@" + addr)}.OpenRedis(t.Context(), discard())
	oneLine(t, err, "Redis", addr, "refused", "PING")
	_, err = NATS{NATSURL: URL("nats://u:geheim@" + addr)}.OpenNATS(discard())
	oneLine(t, err, "NATS", addr, "tried")
}

func oneLine(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, p := range append(parts, "") {
		if text := err.Error(); !strings.Contains(text, p) || strings.Contains(text, "\n") || strings.Contains(text, "geheim") {
			t.Errorf("want one line with %q: %s", p, text)
		}
	}
}

func startRedis(t *testing.T) *embedded.Redis {
	t.Helper()
	r, err := embedded.StartRedis(t.Context(), embedded.RedisOptions{Dir: t.TempDir(), Kind: embedded.RedisServer})
	if errors.Is(err, embedded.ErrNoRedisServer) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestEvictingRedisIsRefusedWithTheReason(t *testing.T) {
	r := startRedis(t)
	rdb, err := Redis{RedisURL: URL(r.URL())}.OpenRedis(t.Context(), discard())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rdb.Close() }()
	if err := rdb.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err(); err != nil {
		t.Fatal(err)
	}
	_, err = Redis{RedisURL: URL(r.URL())}.OpenRedis(t.Context(), discard())
	if !evicts(err) {
		t.Fatalf("%v", err)
	}
	oneLine(t, err, r.URL(), "allkeys-lru")

	t.Run("the policy is read from INFO if CONFIG is forbidden", func(t *testing.T) {
		if err := acl(t, rdb, "quiet", "-config"); err != nil {
			t.Fatal(err)
		}
		_, err := Redis{RedisURL: URL(as("quiet", r.URL()))}.OpenRedis(t.Context(), discard())
		if !evicts(err) {
			t.Errorf("%v", err)
		}
	})
	t.Run("a Redis that does not report its policy is used with a warning", func(t *testing.T) {
		if err := acl(t, rdb, "mute", "-config", "-info"); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		mute, err := Redis{RedisURL: URL(as("mute", r.URL()))}.OpenRedis(t.Context(), slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		_ = mute.Close()
		if !strings.Contains(log.String(), "maxmemory-policy") || strings.Contains(log.String(), "geheim") {
			t.Errorf("log: %s", log.String())
		}
	})
}

func acl(t *testing.T, rdb redis.UniversalClient, user string, rules ...string) error {
	t.Helper()
	return rdb.ACLSetUser(t.Context(), user, append([]string{"on", ">geheim", "~*", "+@all"}, rules...)...).Err()
}

func as(user, url string) string { return strings.Replace(url, "//", "//"+user+":geheim@", 1) }

func TestUnreadableCertificatesAreNamed(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, r := range []Redis{
		{RedisURL: "redis://h:1", RedisCA: "/no/such.pem"},
		{RedisURL: "redis://h:1", RedisCA: empty},
		{RedisURL: "redis+cluster://h:1", RedisCert: empty, RedisKey: empty},
	} {
		_, err := r.OpenRedis(t.Context(), discard())
		oneLine(t, err, "Redis at redis", ".pem")
	}
	for _, n := range []NATS{{NATSURL: "nats://h", NATSCA: empty}, {NATSURL: "nats://h", NATSNKey: empty}} {
		_, err := n.OpenNATS(discard())
		oneLine(t, err, "NATS at nats://h", "empty.pem")
	}
}

func evicts(err error) bool {
	var e *redisx.EvictionError
	return errors.As(err, &e)
}
