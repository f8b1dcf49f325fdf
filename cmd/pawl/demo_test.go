package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/examples/audit"
	"github.com/pawlrun/pawl/internal/settings"
)

// bigTree has n packages that take a while each, and one that is broken.
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

func TestTheDemonstrationLosesAWorkerAndReportsEveryPackageAllTheSame(t *testing.T) {
	const n = 300
	root, out, tmp := bigTree(t, n), t.TempDir(), tmpDir(t)
	code, stdout, stderr := command(t, "demo", "--dir", root, "--out", out, "--json")
	if code != 0 {
		t.Fatalf("code %d\n%s", code, stderr)
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	var got demoResult
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &got); err != nil {
		t.Fatal(err)
	}
	if got.Packages != n || got.Files != n || got.Failed != 0 || got.Activities < n+3 || got.ElapsedMS <= 0 {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(stderr, "Killed worker-") {
		t.Errorf("nobody was killed:\n%s", stderr)
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

func TestADemonstrationThatCanNotWriteItsReportSaysSoBeforeItBegins(t *testing.T) {
	out := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(out, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := command(t, "demo", "--dir", bigTree(t, 1), "--out", out)
	if code != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, out) {
		t.Errorf("code %d, %q, %q", code, stdout, stderr)
	}
}

func TestAnInterruptedDemonstrationLeavesNothing(t *testing.T) {
	root, tmp := bigTree(t, 300), tmpDir(t)
	cmd := exec.Command(os.Args[0], "demo", "--dir", root, "--out", t.TempDir())
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for b := make([]byte, 1); !strings.Contains(said.String(), "Auditing"); { // it is under way
		if _, err := stderr.Read(b); err != nil {
			t.Fatalf("%v after %s", err, said.String())
		}
		said.Write(b)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, stderr); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // the code tells
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("code %d", code)
	}
	nothingIn(t, tmp)
}

func TestADemonstrationWhoseWorkersAllEndSaysSo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tmp := tmpDir(t)
	c := &demoCmd{Log: settings.Log{LogLevel: "info", LogFormat: "text"}}
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
	if err := d.stop(); err != nil {
		t.Error(err)
	}
	nothingIn(t, tmp)
}
