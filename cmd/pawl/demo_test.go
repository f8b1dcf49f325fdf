package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/examples/audit"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/embedded"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/history"
)

// bigTree creates n packages that each take a while to inspect, and a broken one.
func bigTree(t *testing.T, n int) string {
	t.Helper()
	root := t.TempDir()
	body := strings.Repeat("func f() {\n\tif a && b {\n\t\tfor {\n\t\t}\n\t}\n}\n", 2_000)
	for i := range n {
		dir := filepath.Join(root, fmt.Sprintf("p%04d", i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		src := "package p\n\n" + body
		if i == n/2 {
			src = "package p\n\nfunc (\n"
		}
		if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(src), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// runDemo runs the demonstration as a process, which must succeed.
func runDemo(t *testing.T, root, out string) (got demoResult, stderr string) {
	t.Helper()
	cmd := exec.Command(program(t), "demo", "--dir", root, "--out", out, "--json")
	var progress strings.Builder
	cmd.Stderr = &progress
	stdout, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	lines := strings.Split(strings.TrimSpace(string(stdout)), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &got); err != nil {
		t.Fatal(err)
	}
	return got, progress.String()
}

func TestDemoLosesAWorkerAndReportsEveryPackage(t *testing.T) {
	const n = 300
	root, tmp := bigTree(t, n), tmpDir(t)
	got, stderr := runDemo(t, root, t.TempDir())
	if got.Packages != n || got.Files != n || got.Failed != 0 || got.Activities < n+3 || got.ElapsedMS <= 0 {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(stderr, "Killed worker-") {
		t.Errorf("no worker was killed:\n%s", stderr)
	}
	if strings.Count(stderr, "took over") != got.Retried {
		t.Errorf("%d retried, but:\n%s", got.Retried, stderr)
	}
	b, err := os.ReadFile(got.Report)
	if err != nil {
		t.Fatal(err)
	}
	var r audit.Report
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Packages) != n || r.Totals.Problems != 1 || len(r.Packages[n/2].Problems) != 1 {
		t.Errorf("%d packages, %d problems", len(r.Packages), r.Totals.Problems)
	}
	nothingIn(t, tmp)
}

func TestDemoChecksTheReportDirectoryBeforeItStarts(t *testing.T) {
	out := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(out, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := command(t, "demo", "--dir", bigTree(t, 1), "--out", out)
	if code != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, out) {
		t.Errorf("code %d, %q, %q", code, stdout, stderr)
	}
}

func TestInterruptedDemoLeavesNoProcessAndIsResumedByTheNext(t *testing.T) {
	if !embedded.RedisInstalled() {
		t.Skip("Redis in memory: nothing to resume")
	}
	const n = 300
	root, out, tmp := bigTree(t, n), t.TempDir(), tmpDir(t)
	cmd := exec.Command(program(t), "demo", "--dir", root, "--out", out)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stderr)
	var before []string
	for line := ""; !strings.HasPrefix(line, "Killed"); { // at 30 of 100 packages
		if line, err = lines.ReadString('\n'); err != nil {
			t.Fatalf("%v after %s", err, line)
		}
		before = append(before, line)
	}
	at := func(text string) int {
		return slices.IndexFunc(before, func(line string) bool { return strings.HasPrefix(line, text) })
	}
	if watch := at("Watch it in a browser: http://127.0.0.1:"); at("Starting NATS") != 0 || watch < 1 || at("Auditing") < watch {
		t.Errorf("%q", before)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(lines)
	if err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // the exit code is checked
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(string(rest), "of 300; the same command resumes there") {
		t.Errorf("code %d\n%s", code, rest)
	}
	nothingIn(t, tmp)

	got, again := runDemo(t, root, out)
	if got.Packages != n || got.Failed != 0 {
		t.Errorf("%+v\n%s", got, again)
	}
	var resumed int
	_, after, _ := strings.Cut(again, "resuming at ")
	if _, err := fmt.Sscanf(after, "%d of 300\n", &resumed); err != nil || resumed < n*killAfter/100 {
		t.Errorf("%v, resumed at %d:\n%s", err, resumed, again)
	}
	nothingIn(t, tmp)
}

func TestDemoReportsTheEndOfAllWorkers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tmp := tmpDir(t)
	t.Setenv("PATH", t.TempDir()) // no Redis server
	c := &demoCmd{Log: settings.Log{LogLevel: "info", LogFormat: "text"}, Out: t.TempDir()}
	var errs bytes.Buffer
	d, err := c.start(ctx, streams{io.Discard, &errs})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range d.workers {
		if err := w.Kill(); err != nil {
			t.Error(err)
		}
	}
	_, err = d.audit(ctx, bigTree(t, 3), t.TempDir(), 3)
	if err == nil || !strings.Contains(err.Error(), "all workers have ended") {
		t.Errorf("%v", err)
	}
	if !strings.Contains(errs.String(), "an interrupted audit starts over") {
		t.Errorf("the loss of the state is not reported:\n%s", errs.String())
	}
	if err := d.stop(); err != nil {
		t.Error(err)
	}
	nothingIn(t, tmp)
}

func TestInterruptedStartOfTheDemoIsOneLine(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte("package p\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var errs strings.Builder
	code := run(ctx, []string{"demo", "--dir", dir, "--out", t.TempDir()}, streams{io.Discard, &errs})
	if code != 1 || !strings.HasSuffix(errs.String(), "\npawl: interrupted before the audit began\n") {
		t.Errorf("code %d, %s", code, errs.String())
	}
}

// The second demonstration also kills a worker, and finds packages that were held by the worker that the first one killed.
func TestDemoCountsOnlyTakeoversFromTheKilledWorker(t *testing.T) {
	var out strings.Builder
	d := &demo{watch: newWatch(io.Discard), progress: term.NewProgress(&out, 2, "packages"), killed: "worker-2"}
	d.lost = []string{"bytes"}
	for id, pkg := range map[uint64]string{2: "bytes", 3: "sort"} {
		in, err := author.Input(audit.InspectPackage).Encode(audit.InspectRequest{Package: pkg})
		if err != nil {
			t.Fatal(err)
		}
		d.scheduled[id] = &history.ActivityScheduled{Name: audit.InspectPackage.Name(), Payload: in}
		d.settle(id, "worker-1", 2)
	}
	if d.taken != 1 || d.inspected != 2 || out.String() != "  worker-1 took over bytes from worker-2\n" {
		t.Errorf("%d of %d: %s", d.taken, d.inspected, out.String())
	}
}
