package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/freeport"
	"github.com/pawlrun/pawl/internal/poll"
)

// asPawl is the variable that makes the test binary run as pawl.
const asPawl = "TEST_AS_PAWL"

// programs is the directory of the binary that program returns.
var programs string //nolint:gochecknoglobals // created and removed in TestMain

// TestMain lets commands start this binary as a child process in place of pawl.
func TestMain(m *testing.M) {
	if os.Getenv(asPawl) != "" {
		main()
		return
	}
	dir, err := os.MkdirTemp("", "pawl-cli-")
	if err == nil {
		err = os.Setenv(asPawl, "1") // for children
	}
	if err != nil {
		panic(err)
	}
	programs = dir
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// program returns the path of pawl, built without the race detector, which would make a stack of several processes four times as slow.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(programs, "pawl")
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, ".").CombinedOutput(); err != nil { // does nothing if the binary is up to date
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// command runs a command in this process.
func command(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var o, e bytes.Buffer
	code = run(ctx, args, streams{&o, &e})
	return code, o.String(), e.String()
}

// must runs a command that must succeed, and returns its output.
func must(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := command(t, args...)
	if code != 0 {
		t.Fatalf("pawl %s: code %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

// repeated runs a command until its outcome is the expected one, for at most a minute. It must have no further effect when it is repeated. A
// command waits half a second for the workers and a second for the state of an instance, and a busy machine may need longer.
func repeated(t *testing.T, args []string, expected func(code int, out, errs string) bool) {
	t.Helper()
	last, met := "", false
	defer func() {
		if !met {
			t.Log(last)
		}
	}()
	poll.Until(t, time.Minute, "pawl "+strings.Join(args, " "), func() bool {
		code, out, errs := command(t, args...)
		last = fmt.Sprintf("code %d, %q, %q", code, out, errs)
		return expected(code, out, errs)
	})
	met = true
}

// tmpDir sets the directory of temporary files to one in which the test can find leftovers.
func tmpDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	return dir
}

func nothingIn(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("leftovers: %v, %v", left, err)
	}
}

func TestUsageErrorExitsWithCodeTwo(t *testing.T) {
	empty := t.TempDir()
	for _, args := range [][]string{
		{}, {"nonsense"}, {"start"}, {"start", "hello", "bad id"}, {"start", "bad name!", "x"}, {"start", "hello", "x", "--input", "no json"},
		{"start", "hello", "x", "--event", "bad name!"}, {"start", "hello", "x", "--event", "=1"}, {"start", "hello", "x", "--event", "poke=no json"},
		{"start", "hello", "x", "--input", "-", "--event", "poke=-"}, {"start", "hello", "x", "--version", "no version"}, {"status", "a/b"}, {"status"},
		{"get", "a/b"}, {"send", "x", "bad event"}, {"cancel", ""}, {"list", "--status", "weird"}, {"bench", "weird"},
		{"demo", "--dir", empty}, {"demo", "--dir", ""}, {"demo", "--dir", filepath.Join(empty, "missing")}, {"get", "x", "--timeout", "1s"}, {"get", "x", "--wait", "--timeout=-1s"},
		{"purge"}, {"purge", "a/b"}, {"purge", "x", "--status", "failed"}, {"purge", "--status", "running"}, {"purge", "--force", "--older-than", "1h"},
		{"purge", "--older-than=-1h"}, {"purge", "x", "--timeout", "0s"}, {"dev", "--retention", "soon"}, {"dev", "--grace", "0s"}, {"serve-worker", "--max-abandoned", "0"},
		{"list", "--limit=-1"}, {"list", "--stalled", "--status", "running"}, {"list", "--where", "status = walking"}, {"purge", "--where", "code"}, {"list", "--namespace", "a.b"}, {"check", "--redis", "localhost"},
		{"pause", "x", "--action", "y"}, {"pause", "--action", "a|b"}, {"rewind", "x", "--to", "0"}, {"resume", "x", "--timeout", "0s"}, {"queue", "list", "a|b"}, {"schedule", "pause", "a/b"},
		{"dev", "--nats-port", "70000"}, {"dev", "--concurrency", "0"}, {"bench", "hello", "--in-flight", "0"}, {"serve-worker", "--lease-ttl", "1ms"},
	} {
		code, out, errs := command(t, args...)
		if code != 2 || out != "" && len(args) > 0 || errs == "" || strings.Contains(errs, "pawl: pawl:") {
			t.Errorf("%q: code %d, out %q, err %q", args, code, out, errs)
		}
	}
}

func TestUsageErrorIsJSONWithTheFlag(t *testing.T) {
	for _, args := range [][]string{{"list", "--json", "--status", "weird"}, {"get", "a/b", "--json"}, {"purge", "--json"}, {"policy", "set", "x", "--json"}} {
		code, out, errs := command(t, args...)
		var e struct{ Error string }
		if err := json.Unmarshal([]byte(errs), &e); code != 2 || out != "" || err != nil || e.Error == "" {
			t.Errorf("%q: code %d, out %q, err %q", args, code, out, errs)
		}
	}
}

func TestUsageErrorNamesTheHelpOfItsCommand(t *testing.T) {
	const alphabet = "1 to 100 characters of [A-Za-z0-9_.-] are allowed, no dot at an end or beside another"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"nonsense"}, "pawl: unexpected argument nonsense; see pawl --help\n"},
		{[]string{"start"}, "pawl: expected \"<orchestration>\"; see pawl start --help\n"},
		{[]string{"policy", "set", "debit", "--rate", "5"}, "pawl: --rate: \"5\": must be a number per window, such as 100/1s; see pawl policy set --help\n"},
		{[]string{"start", ""}, "pawl: bad name \"\": " + alphabet + "; see pawl start --help\n"},
		{[]string{"start", "hello", "x", "--event", "=1"}, "pawl: bad name \"\": " + alphabet + "; see pawl start --help\n"},
		{[]string{"run", ""}, "pawl: bad name \"\": " + alphabet + "; see pawl run --help\n"},
		{[]string{"list", "--limit=-1"}, "pawl: --limit must not be negative (got -1); see pawl list --help\n"},
	} {
		if code, _, errs := command(t, c.args...); code != 2 || errs != c.want {
			t.Errorf("%q: code %d, %q", c.args, code, errs)
		}
	}
}

func TestVersionFlagShowsTheProgramAndIsNoOptionOfStart(t *testing.T) {
	if out := must(t, "--version"); !strings.HasPrefix(out, "pawl ") || strings.Count(out, "\n") != 1 {
		t.Errorf("%q", out)
	}
	if code, out, errs := command(t, "start", "--version"); code != 2 || out != "" || !strings.Contains(errs, "--version") {
		t.Errorf("code %d, %q, %q", code, out, errs)
	}
}

func TestContextsSelectTheConnection(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("HOME", dir)
	must(t, "context", "add", "dev", "--set", "nats=nats://127.0.0.1:1")
	must(t, "context", "add", "prod", "--set", "nats=nats://u:secret@127.0.0.1:2", "--set", "namespace=shop")
	if out := must(t, "context", "list"); !strings.Contains(out, "*        dev") || !strings.Contains(out, "namespace=shop") || strings.Contains(out, "secret") {
		t.Errorf("%s", out)
	}
	server := func(want string, args ...string) {
		t.Helper()
		if _, _, errs := command(t, append([]string{"list"}, args...)...); !strings.Contains(errs, want) {
			t.Errorf("%q: %s", args, errs)
		}
	}
	server("127.0.0.1:1")
	must(t, "context", "use", "prod")
	server("127.0.0.1:2")
	server("127.0.0.1:3", "--nats", "nats://127.0.0.1:3")
	t.Setenv("PAWL_CONTEXT", "dev")
	server("127.0.0.1:1")
	t.Setenv("PAWL_CONTEXT", "none")
	if code, _, errs := command(t, "list"); code != 1 || errs != "pawl: PAWL_CONTEXT is none, which does not exist; see \"pawl context list\"\n" {
		t.Errorf("code %d, %s", code, errs)
	}
	if code, _, _ := command(t, "context", "use", "none"); code != 1 {
		t.Errorf("code %d", code)
	}
	file, err := contextsFile()
	if err := errors.Join(err, os.WriteFile(file, []byte("{"), 0o600)); err != nil {
		t.Fatal(err)
	}
	must(t, "version") // needs no context
	if code, _, errs := command(t, "list"); code != 1 || !strings.HasPrefix(errs, "pawl: read the contexts in ") {
		t.Errorf("code %d, %s", code, errs)
	}
}

// The files are those of the nats command line tool.
func TestContextOfTheNATSToolIsUsed(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, ".config"))
	of := func(text string) (flags map[string]string, err error) {
		t.Helper()
		file := filepath.Join(dir, ".config", "nats", "context", "shop.json")
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o750), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		return natsContext("shop", map[string]string{"nats-context": "shop"})
	}
	for text, want := range map[string]string{
		`{"url":"nats://a:1, tls://b:2","user":"u","password":"p@ss"}`: "nats://u:p%40ss@a:1,tls://u:p%40ss@b:2",
		`{"url":"a:1","token":"secret"}`:                               "nats://secret@a:1",
		`{"url":"nats://own:secret@a:1","user":"u"}`:                   "nats://own:secret@a:1",
		`{"user":"u","password":"p"}`:                                  "nats://u:p@127.0.0.1:4222",
		`{"url":"nats://a:1"}`:                                         "nats://a:1",
	} {
		if flags, err := of(text); err != nil || flags["nats"] != want {
			t.Errorf("%s: %q, %v", text, flags, err)
		}
	}
	flags, err := of(`{"creds":"/c","ca":"/ca","inbox_prefix":"_I","description":"shop"}`)
	if err != nil || flags["nats-creds"] != "/c" || flags["nats-ca"] != "/ca" || flags["nats-inbox-prefix"] != "_I" || len(flags) != 4 {
		t.Errorf("%q, %v", flags, err)
	}
	if _, err := of(`{"url":"nats://a:1","nsc":"nsc://op/acc/user"}`); err == nil || !strings.Contains(err.Error(), "nsc, which pawl does not support") {
		t.Error(err)
	}
	t.Setenv("XDG_CONFIG_HOME", "")
	if flags, err := of(`{"url":"nats://home:1"}`); err != nil || flags["nats"] != "nats://home:1" {
		t.Errorf("%q, %v", flags, err)
	}
	must(t, "context", "add", "tool", "--nats-context", "shop")
	if _, _, errs := command(t, "list"); !strings.Contains(errs, "home:1") {
		t.Error(errs)
	}
}

func TestCompletionVersionAndHelpAreShown(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if out := must(t, "completion", shell); !strings.Contains(out, "pawl complete -- ") {
			t.Errorf("%s: %s", shell, out)
		}
	}
	if out := must(t, "complete", "--", "policy"); !strings.Contains(out, "delete\n") || strings.Contains(out, "serve") {
		t.Errorf("%s", out)
	}
	if out := must(t, "version"); !strings.HasPrefix(out, "pawl ") {
		t.Errorf("%s", out)
	}
	if out := must(t, "help", "start"); !strings.Contains(out, "--event") {
		t.Errorf("%s", out)
	}
}

func TestUnreachableServerIsOneLineAndExitCodeOne(t *testing.T) {
	for _, args := range [][]string{
		{"start", "hello", "x", "--nats", "nats://127.0.0.1:1"},
		{"check", "--redis", "redis://127.0.0.1:1"},
	} {
		code, out, errs := command(t, args...)
		if code != 1 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "127.0.0.1:1") {
			t.Errorf("%q: code %d, out %q, err %q", args, code, out, errs)
		}
	}
}

func TestErrorOfAPortInUseNamesItsSetting(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, taken, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for server, ports := range map[string][]string{"nats": {"--nats-port", taken, "--redis-port", "0"}, "redis": {"--nats-port", "0", "--redis-port", taken}} {
		code, _, errs := command(t, append([]string{"dev", "--http", "", "--data", t.TempDir(), "--log-level", "error"}, ports...)...)
		want := "--" + server + "-port (PAWL_" + strings.ToUpper(server) + "_PORT) chooses another port\n"
		if code != 1 || !strings.HasPrefix(errs, "pawl: port "+taken+" for ") || !strings.HasSuffix(errs, want) {
			t.Errorf("%s: code %d, %s", server, code, errs)
		}
	}
}

func TestFleetWithoutExamplesReportsAdvice(t *testing.T) {
	if code, _, errs := command(t, "serve-worker"); code != 2 || !strings.Contains(errs, "--examples") || !strings.Contains(errs, "README") {
		t.Errorf("code %d, %q", code, errs)
	}
}

// dev runs `pawl dev` as a process and returns its addresses. The first line of its output contains the address of the console.
func dev(t *testing.T) (console, nats, redis string) {
	t.Helper()
	cmd := exec.Command(program(t), "dev", "--nats-port", "0", "--redis-port", "0", "--http", net.JoinHostPort("127.0.0.1", strconv.Itoa(freeport.Take(t))), "--partitions", "4",
		"--data", t.TempDir(), "--log-level", "warn")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("dev: %v\n%s", err, errs.String())
		}
	})
	lines := bufio.NewScanner(out)
	if lines.Scan() {
		console = strings.TrimSpace(strings.TrimPrefix(lines.Text(), "Console"))
	}
	for redis == "" && lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		switch name {
		case "NATS":
			nats = strings.TrimSpace(value)
		case "Redis":
			redis = strings.TrimSpace(value)
		}
	}
	if redis == "" {
		t.Fatalf("dev does not print its addresses: %s", errs.String())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the process
	return console, nats, redis
}

func TestInstanceIsStartedSentToListedShownAndCancelled(t *testing.T) {
	console, nats, redis := dev(t)
	at := func(args ...string) []string { return append(args, "--nats", nats) }
	eventually(t, "the namespace exists", func() bool { code, _, _ := command(t, at("list")...); return code == 0 })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, console, nil)
	if err != nil {
		t.Fatalf("the first line of dev has %q: %v", console, err)
	}
	page, err := http.DefaultClient.Do(req)
	if err != nil || page.StatusCode != http.StatusOK {
		t.Fatalf("the console at %q: %+v, %v", console, page, err)
	}
	_ = page.Body.Close()

	if out := must(t, at("start", "hello", "h-1", "--input", `"Ada"`, "--wait", "--timeout", "30s")...); out != "\"Hello, Ada!\"\n" {
		t.Errorf("start --wait: %q", out)
	}
	if out := must(t, at("get", "h-1")...); !strings.Contains(out, "completed") || !strings.Contains(out, "Hello, Ada!") {
		t.Errorf("get:\n%s", out)
	}
	if out := must(t, at("history", "h-1")...); !strings.Contains(out, "ActivityCompleted") || !strings.Contains(out, "greet") {
		t.Errorf("history:\n%s", out)
	}
	must(t, at("start", "fulfil-order", "order.1", "--input", `{"id":"o-1","item":"pen","quantity":1,"cents":990}`)...)
	idWithDots(t, console, nats, func() string {
		return must(t, at("get", "order.1", "--wait", "--json", "--timeout", "30s")...)
	})

	must(t, at("start", "event", "e-1")...)
	for within := time.Second; ; within *= 2 { // on a busy machine, the first command may be interrupted before it waits
		ctx, cancel := context.WithTimeout(t.Context(), within) // as by Ctrl-C
		var interrupted bytes.Buffer
		code := run(ctx, at("get", "e-1", "--wait"), streams{io.Discard, &interrupted})
		cancel()
		waited := strings.Contains(interrupted.String(), "e-1 continues")
		if code != 1 || !waited && within > 20*time.Second {
			t.Errorf("an interrupted wait: code %d, %s", code, interrupted.String())
		}
		if code != 1 || waited || within > 20*time.Second {
			break
		}
	}
	must(t, at("cancel", "e-1", "--reason", "no longer needed")...)
	code, out, errs := command(t, at("get", "e-1", "--wait", "--timeout", "30s")...)
	if code != 1 || out != "" || !strings.Contains(errs, "no longer needed") {
		t.Errorf("a cancelled instance: code %d, %q, %q", code, out, errs)
	}
	if code, out, errs := command(t, at("start", "event", "e-2", "--run-timeout", "300ms", "--wait", "--json")...); code != 1 || errs != "" ||
		!strings.Contains(out, `"status":"failed"`) || !strings.Contains(out, "pawl.run-timeout") {
		t.Errorf("an instance ended by a timeout: code %d, %q, %q", code, out, errs)
	}
	for line := range strings.Lines(must(t, at("history", "e-1", "--json")...)) {
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
	if out := must(t, at("list", "--where", "status = cancelled and started > -1h")...); !strings.Contains(out, "e-1") || strings.Contains(out, "h-1") {
		t.Error(out)
	}
	if out := must(t, at("list", "--status", "cancelled")...); !strings.Contains(out, "e-1") || strings.Contains(out, "h-1") {
		t.Errorf("list:\n%s", out)
	}
	must(t, at("start", "undeployed", "s-1")...)
	eventually(t, "s-1 is stalled", func() bool { return strings.Contains(must(t, at("list", "--stalled", "--json")...), `"s-1"`) })
	repeated(t, at("start", "undeployed", "s-1", "--wait", "--timeout", "2s"), func(code int, out, errs string) bool {
		return code == 1 && out == "" && strings.Contains(errs, "undeployed") && strings.Count(errs, "\n") == 1
	})
	if code, out, errs := command(t, at("history", "h-1", "--execution", "7")...); code != 1 || out != "" || !strings.Contains(errs, "no execution 7") {
		t.Errorf("a missing execution: code %d, %q, %q", code, out, errs)
	}
	if code, _, errs := command(t, at("get", "absent")...); code != 1 || errs != "pawl: there is no instance absent\n" {
		t.Errorf("get absent: code %d, %s", code, errs)
	}
	if out := must(t, "check", "--redis", redis); !strings.Contains(out, "0 findings") {
		t.Errorf("check: %s", out)
	}
	if out := must(t, "check", "--redis", redis, "--json"); !strings.Contains(out, `"findings":[]`) {
		t.Errorf("check --json: %s", out)
	}
	if code, out, errs := command(t, "check", "--redis", redis, "--namespace", "elsewhere"); code != 1 || out != "" || !strings.Contains(errs, "no namespace elsewhere") {
		t.Errorf("check of an unknown instance: code %d, %q, %q", code, out, errs)
	}
}

// idWithDots sends the event that order.1 waits for to its subject, and compares the outcome in the command line, in a subject and in
// the HTTP API.
func idWithDots(t *testing.T, console, url string, wait func() string) {
	t.Helper()
	nc, err := natsgo.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Request("pawl.default.to.order,1.event.approved", []byte(`{"by":"finance"}`), time.Minute); err != nil {
		t.Fatal(err)
	}
	outcomes := map[string][]byte{"get": []byte(wait())}
	m, err := nc.Request("pawl.default.result.order,1", nil, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	outcomes["subject"] = m.Data
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimRight(console, "/")+"/api/v1/instances/order.1/result", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if outcomes["http"], err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	for from, text := range outcomes {
		var got api.Outcome
		if err := json.Unmarshal(text, &got); err != nil || got.Instance != "order.1" || got.Status != "completed" || !strings.Contains(string(got.Result), `"cents":990`) {
			t.Errorf("%s: %s, %v", from, text, err)
		}
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	poll.Until(t, 60*time.Second, what, ok)
}
