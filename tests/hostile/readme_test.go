package hostile

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/internal/doctest"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/tests/stack"
)

// TestReadmeLinesRunAJobWithoutGo runs the lines of the README that turn the stock binaries into a job runner, exactly as
// they are written. Only the program that they run is replaced, by one that returns its input.
func TestReadmeLinesRunAJobWithoutGo(t *testing.T) {
	build(t)
	if err := stack.GoBuild("-o", programs, "./cmd/pawl"); err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```\n(orchestrator &\n.*?)```").FindStringSubmatch(doctest.Read(t, "../../README.md"))
	if block == nil {
		t.Fatal("the README has no such lines")
	}
	dir := t.TempDir()
	program := "#!/bin/sh\ntest \"$1\" = resize.py && cat\n"
	if err := os.WriteFile(filepath.Join(dir, "python3"), []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	server, nats := redistest.Start(t), stack.StartNATS(t, stack.Binaries{NATS: filepath.Join(programs, "natsd")}, stack.SyncInterval)
	env := []string{"PATH=" + dir + ":" + programs + ":" + os.Getenv("PATH"), "HOME=" + dir, "PAWL_NATS=" + nats.URL(), "PAWL_REDIS=redis://" + server.Addr, "PAWL_PARTITIONS=4"}
	fleet := stack.NewFleet(t, "default", 4, server.Client(t), env...)
	out := ""
	for line := range strings.Lines(strings.TrimSpace(block[1])) {
		if line = strings.TrimSpace(line); strings.HasSuffix(line, " &") {
			fleet.Process(strings.Fields(line)[0], "/bin/sh", []string{"-c", "exec " + strings.TrimSuffix(line, " &")})
			continue
		}
		if fleet.Client == nil {
			fleet.Join(nats.Client(), client.Options{}) // waits for the orchestrator, for which a command waits only a few seconds
		}
		ctx, stop := context.WithTimeout(t.Context(), within)
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", line)
		cmd.Env = slices.Concat(os.Environ(), env)
		got, err := cmd.CombinedOutput()
		stop()
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, got)
		}
		if strings.HasPrefix(line, "pawl run ") {
			out = string(got)
		}
	}
	if !json.Valid([]byte(out)) || !strings.Contains(out, "a.png") {
		t.Errorf("result of the job: %s", out)
	}
	poll.Until(t, within, "the schedule has its next time", func() bool {
		s, err := fleet.Client.DescribeSchedule(t.Context(), "thumbnails")
		return err == nil && !s.Next.IsZero()
	})
	for _, p := range fleet.Processes {
		p.Stop()
	}
}
