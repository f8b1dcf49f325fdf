package main_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const finding = "late.go:17:14: when.Late reaches time.Now (when.go:9) via when.hour, which returns another time at every replay; use pawl.Now(ctx) [time]"

// run returns the output of the command and its exit status.
func run(t *testing.T, name string, args ...string) (out string, code int) {
	t.Helper()
	b, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit != nil {
		code = exit.ExitCode()
	}
	return string(b), code
}

func TestFindingsAreTheSameUnderGoVetAndStandalone(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "pawlvet")
	if out, code := run(t, "go", "build", "-o", bin, "."); code != 0 {
		t.Fatal(out)
	}
	for _, c := range []struct {
		what string
		args []string
		pkg  string
		code int
		want int
	}{
		{"go vet, something found", []string{"go", "vet", "-vettool=" + bin}, "./testdata/late", 1, 1},
		{"go vet, nothing found", []string{"go", "vet", "-vettool=" + bin}, "./testdata/late/when", 0, 0},
		{"alone, something found", []string{bin}, "./testdata/late", 3, 1},
		{"alone, nothing found", []string{bin}, "./testdata/late/when", 0, 0},
		{"alone, no such package", []string{bin}, "./testdata/none", 1, 0},
	} {
		out, code := run(t, c.args[0], append(slices.Clone(c.args[1:]), c.pkg)...)
		if n := strings.Count(out, finding); n != c.want || code != c.code {
			t.Errorf("%s: exit status %d, the finding %d times:\n%s", c.what, code, n, out)
		}
	}
}
