package settings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/internal/embedded"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/poll"
)

// passwords generates passwords of letters that occur nowhere else in the texts, with characters between them that are reserved in URLs.
func passwords() *rapid.Generator[string] {
	piece := rapid.StringMatching(`[À-Ö]{3}[JQXZ]{4}`)
	between := rapid.SampledFrom([]string{"", "/", "?", "#", "@", ":", ",", "%", "%zz", "%2F", "[", " ", "&", "=", "\\", ";", "//", ",nats://", "\""})
	return rapid.Custom(func(t *rapid.T) string {
		return piece.Draw(t, "part") + between.Draw(t, "between") + piece.Draw(t, "part")
	})
}

// part matches a part of such a password, also escaped.
var part = regexp.MustCompile(`[À-Ö]|%C3|[JQXZ]{3}`)

// Trap: a password in an error, because the URL did not parse.
func TestNoErrorLogOrDumpShowsAPassword(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		password := passwords().Draw(t, "password")
		if rapid.Bool().Draw(t, "escaped") {
			password = url.QueryEscape(password)
		}
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		raw := strings.ReplaceAll(rapid.SampledFrom([]string{
			"nats://u:%s@h:1", "nats://%s@h:1", "redis://u:%s@h:1/0", "redis://u:%s@h:1/db?x=1", "rediss+cluster://u:%s@h:1,h:2",
			"redis+sentinel://h:1?master_name=m&password=%s", "redis+sentinel://h:1?passwd=%s", "unix://u:%s@/run/r", "u:%s@h:1", "redis://u:%s",
		}).Draw(t, "form"), "%s", password)
		var cfg fleet
		var errs bytes.Buffer
		flag := rapid.SampledFrom([]string{"--nats", "--redis", "--no-such"}).Draw(t, "flag")
		_, _ = Parse(&cfg, "fleet", "", []string{flag + "=" + raw}, io.Discard, &errs)
		cfg.NATSURL, cfg.RedisURL = URL(raw), URL(raw)
		js, _ := json.Marshal(cfg)
		logger.Info("settings", "cfg", cfg, "nats", cfg.NATSURL)
		if rdb, err := cfg.DialRedis(logger); err == nil {
			_ = rdb.Close()
		} else {
			fmt.Fprintln(&errs, err)
		}
		for what, text := range map[string]string{
			"error": errs.String(), "json": string(js), "%v": fmt.Sprintf("%v", cfg), "%+v": fmt.Sprintf("%+v", &cfg), "%#v": fmt.Sprintf("%#v", cfg), "log": log.String(),
		} {
			if part.MatchString(text) {
				t.Fatalf("%s with %s=%s:\n%s", what, flag, raw, text)
			}
		}
	})
}

func TestHelpShowsNoPasswordOfTheEnvironment(t *testing.T) {
	t.Setenv("PAWL_NATS", "nats://u:geheim@h:1")
	t.Setenv("PAWL_REDIS", "redis://u:geheim@h:1")
	if _, _, out, errs := parse(t, "--help"); strings.Contains(out+errs, "geheim") {
		t.Error(out, errs)
	}
}

func secret(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "password")
	rewrite(t, path, text)
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func rewrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestImplausiblePasswordFilesAreRefused(t *testing.T) {
	good := secret(t, "geheim\n", 0o600)
	for want, args := range map[string][]string{
		"no such file":           {"--redis-password-file", "/no/such/file"},
		"is empty":               {"--redis-password-file", secret(t, "\n", 0o600)},
		"more than one line":     {"--nats-password-file", secret(t, "geheim\ngeheim\n", 0o600)},
		"needs --redis-password": {"--redis-user", "u"},
		"needs --nats-password":  {"--nats-user", "u"},
		"give it once":           {"--nats-password-file", good, "--nats", "nats://u:geheim@h"},
		"both in the URL":        {"--redis-password-file", good, "--redis", "redis://:geheim@h"},
		"give one of":            {"--nats-password-file", good, "--nats-creds", good},
	} {
		if _, code, _, errs := parse(t, args...); code != ExitUsage || !strings.Contains(errs, want) || strings.Contains(errs, "geheim") {
			t.Errorf("%v: code %d, %q, want %q", args, code, errs, want)
		}
	}
	if _, code, _, errs := parse(t, "--redis-password-file", good, "--redis-user", "u", "--nats-user", "u", "--nats-password-file", good,
		"--redis", "redis+sentinel://u:sentinels@h:1?master_name=m"); code != ExitDone {
		t.Error(errs)
	}
}

func TestInsecureSettingsAreLoggedOnceAtStart(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(slog.NewTextHandler(&b, nil))
	r := Redis{RedisURL: "rediss://127.0.0.1:1?skip_verify=true", RedisPass: secret(t, "geheim", 0o644)}
	if err := r.AfterApply(); err != nil {
		t.Fatal(err)
	}
	rdb, err := r.DialRedis(log)
	if err != nil {
		t.Fatal(err)
	}
	_ = rdb.Close()
	if text := b.String(); strings.Count(text, "\n") != 2 || strings.Count(text, "skip_verify") != 1 || strings.Count(text, "accessible to all") != 1 || strings.Contains(text, "geheim") {
		t.Error(text)
	}
	b.Reset()
	rdb, err = Redis{RedisURL: "rediss://127.0.0.1:1", RedisPass: secret(t, "geheim", 0o640)}.DialRedis(log)
	if err != nil {
		t.Fatal(err)
	}
	_ = rdb.Close()
	if b.Len() > 0 {
		t.Error(b.String())
	}
}

func TestReplacedRedisPasswordIsUsedForTheNextConnection(t *testing.T) {
	srv, err := embedded.StartRedis(t.Context(), embedded.RedisOptions{Dir: t.TempDir(), Kind: embedded.RedisMemory})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Stop() })
	path := secret(t, "old\n", 0o600)
	c := &secretFile{path: path, log: discard()}
	provide := c.provider("u")
	for _, want := range []string{"old", "new"} {
		rewrite(t, path, want)
		if user, got, err := provide(t.Context()); user != "u" || got != want || err != nil {
			t.Errorf("%s %s %v, want %s", user, got, err, want)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, got, err := provide(t.Context()); got != "new" || err != nil {
		t.Errorf("without the file: %s %v, want the former password", got, err)
	}
}

// The operator replaces the password on the server, which disconnects the client, and only then in the file: the client retries
// until the server accepts it.
func TestNATSConnectionOutlastsAReplacedPassword(t *testing.T) {
	for name, tc := range map[string]struct {
		user string
		set  func(*server.Options, string)
	}{
		"user and password": {"u", func(o *server.Options, s string) { o.Username, o.Password = "u", s }},
		"token":             {"", func(o *server.Options, s string) { o.Authorization = s }},
	} {
		t.Run(name, func(t *testing.T) {
			var opts server.Options
			srv := natstest.Start(t, func(o *server.Options) { tc.set(o, "old"); opts = *o })
			path, refused := secret(t, "old\n", 0o600), make(chan struct{}, 1000)
			nc, err := NATS{NATSURL: URL(srv.ClientURL()), NATSUser: tc.user, NATSPass: path}.dial(t.Context(), discard(), slog.LevelDebug, slog.LevelDebug,
				nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) { refused <- struct{}{} }))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(natstest.Closer(nc))
			next := opts
			tc.set(&next, "new")
			if err := srv.ReloadOptions(&next); err != nil {
				t.Fatal(err)
			}
			for range 3 { // by default, nats.go closes the connection after the second
				<-refused
			}
			rewrite(t, path, "new")
			poll.Until(t, time.Minute, "connected with the new password", nc.IsConnected)
		})
	}
}
