//go:build chaos

package chaos

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// program is the binary of tests/fleet of an earlier commit.
type program struct {
	path string // empty: no earlier commit
	from string // the commit, or why none runs
}

// previous builds tests/fleet of the commit $PREVIOUS, by default of the previous commit. There is none without the history
// of the repository, as in a shallow clone, or if the formats have changed since.
func previous(t *testing.T) program {
	t.Helper()
	ref := cmp.Or(os.Getenv("PREVIOUS"), "HEAD~1")
	commit, err := git("rev-parse", "--short", "--verify", ref+"^{commit}")
	if err != nil {
		return program{from: "none: " + err.Error()}
	}
	then, err := git("show", ref+":tests/chaos/formats.txt")
	if err != nil {
		then = "1" // formats.txt did not exist yet
	}
	now, err := os.ReadFile("formats.txt")
	if err != nil {
		t.Fatal(err)
	}
	if number(then) != number(string(now)) {
		return program{from: fmt.Sprintf("none: the formats have changed since %s", commit)}
	}
	src := t.TempDir()
	p := program{path: filepath.Join(src, "fleet-before"), from: commit}
	archive, err := git("archive", ref)
	if err != nil {
		return program{from: "none: " + err.Error()}
	}
	tar := exec.Command("tar", "-x")
	tar.Dir, tar.Stdin = src, strings.NewReader(archive)
	build := exec.Command("go", "build", "-trimpath", "-o", p.path, "./tests/fleet")
	build.Dir = src
	for _, cmd := range []*exec.Cmd{tar, build} {
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Logf("%v: %v\n%s", cmd.Args, err, out)
			return program{from: fmt.Sprintf("none: %s could not be built", commit)}
		}
	}
	return p
}

// number returns the first line.
func number(text string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return first
}

// git runs a command in the repository. Its error is a single line.
func git(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = filepath.Join("..", "..")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		return "", fmt.Errorf("git %s: %s", args[0], cmp.Or(line, err.Error()))
	}
	if args[0] == "archive" {
		return string(out), nil
	}
	return strings.TrimSpace(string(out)), nil
}

// exchange restarts a member with the other of the two programs.
func (h *harness) exchange(m *member) {
	path := h.previous.path
	if m.before.Load() {
		path = h.binary
	}
	m.before.Store(!m.before.Load())
	m.SetProgram(path)
	h.recordf("%s becomes %s", m.name, filepath.Base(path))
	h.restart(m)
}

// Orchestrators and workers of the previous commit run next to those of this commit in one namespace. Each is upgraded,
// rolled back and upgraded again while the clients work.
func TestPreviousCommitRunsInTheSameNamespace(t *testing.T) {
	before := previous(t)
	if before.path == "" {
		t.Logf("no previous program: %s", before.from)
		return
	}
	t.Logf("the previous commit is %s", before.from)
	t.Setenv("CHAOS_SUMMARY", "") // it belongs to the campaign
	bin, fleet, cli := build(t, t.TempDir(), upgrade)
	h := newHarness(t, uint64(time.Now().Unix()), fleet, cli, before, startServers(t, bin, upgrade))
	for range 3 {
		for _, m := range h.members[:orchestrators+workers] {
			h.progress() // a member must have started before it is exchanged
			h.exchange(m)
		}
	}
	h.progress()
	sum := summary{Topology: upgrade, Previous: before.from, ByFault: map[string]int{"exchange": 3 * (orchestrators + workers)}}
	h.judge(context.Background(), &sum)
}
