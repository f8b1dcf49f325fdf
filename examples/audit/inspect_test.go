package audit

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func inspectAll(t *testing.T, root string) (Page, []Summary) {
	t.Helper()
	list, err := List(root)
	if err != nil {
		t.Fatal(err)
	}
	var all []Summary
	for _, pkg := range list.Packages {
		all = append(all, Inspect(root, pkg))
	}
	return list, all
}

func TestInspectCountsFilesAndNamesBrokenOnes(t *testing.T) {
	_, all := inspectAll(t, sample(t))
	got, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "sample.golden", append(got, '\n'))
}

func TestComplexityGrowsByOneWithEachBranch(t *testing.T) {
	for body, want := range map[string]int{
		"":                                       1,
		"if a {}":                                2,
		"if a {} else if b {}":                   3,
		"for {}":                                 2,
		"for range a {}":                         2,
		"switch { case a: case b, c: default: }": 3,
		"select { case <-a: default: }":          2,
		"switch a.(type) { case int: }":          2,
		"_ = a && b || c":                        3,
		"_ = func() { if a {} }":                 2,
		"go f(); defer g(); return":              1,
	} {
		root := tree(t, map[string]string{"a.go": "package a\nfunc f() {\n" + body + "\n}\n"})
		s := Inspect(root, ".")
		if s.Complexity != want || len(s.Problems) != 0 {
			t.Errorf("%q: complexity %d, want %d; %v", body, s.Complexity, want, s.Problems)
		}
	}
}

func TestLinesAreCountedWithAndWithoutALastNewline(t *testing.T) {
	for src, want := range map[string]int{"": 0, "package a": 1, "package a\n": 1, "package a\n\n": 2, "package a\n// x": 2} {
		root := tree(t, map[string]string{"a.go": src})
		if got := Inspect(root, ".").Lines; got != want {
			t.Errorf("%q: %d lines, want %d", src, got, want)
		}
	}
}

func TestHugeFileIsCountedAndNamedAndNotParsed(t *testing.T) {
	line := strings.Repeat("x", 1023) + "\n"
	root := tree(t, map[string]string{"huge.go": strings.Repeat(line, MaxFileBytes>>10) + "last", "a.go": "package a\n"})
	s := Inspect(root, ".")
	if s.Files != 2 || s.Lines != MaxFileBytes>>10+2 {
		t.Errorf("%d files, %d lines", s.Files, s.Lines)
	}
	if len(s.Problems) != 1 || s.Problems[0].Path != "huge.go" || !strings.Contains(s.Problems[0].Text, "too large") {
		t.Errorf("problems: %v", s.Problems)
	}
}

func TestPipeNamedLikeAGoFileIsNotRead(t *testing.T) {
	root := tree(t, map[string]string{"a.go": "package a\n"})
	if err := syscall.Mkfifo(filepath.Join(root, "pipe.go"), 0o600); err != nil {
		t.Skip(err)
	}
	s := Inspect(root, ".")
	if len(s.Problems) != 1 || s.Problems[0].Path != "pipe.go" {
		t.Errorf("problems: %v", s.Problems)
	}
}

func TestMissingPackageIsNamed(t *testing.T) {
	s := Inspect(t.TempDir(), "missing")
	if s.Package != "missing" || s.Files != 0 || len(s.Problems) != 1 || s.Problems[0].Path != "missing" {
		t.Errorf("%+v", s)
	}
}

func TestSummaryOfTheWorstPackageFitsIntoAPayload(t *testing.T) {
	files := map[string]string{}
	for i := range 2 * maxProblems {
		files[fmt.Sprintf("%s%04d.go", strings.Repeat("n", 200), i)] = "package a\nfunc (" + strings.Repeat("(", 500)
	}
	s := Inspect(tree(t, files), ".")
	if len(s.Problems)+s.Unnamed != 2*maxProblems || s.Unnamed == 0 {
		t.Errorf("%d named, %d not", len(s.Problems), s.Unnamed)
	}
	if size := s.size(); size > 512<<10 {
		t.Errorf("%d bytes", size)
	}
}

func TestGoDistributionIsReadWithoutAProblem(t *testing.T) {
	if testing.Short() {
		t.Skip("reads a few thousand files")
	}
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Skipf("the Go distribution's source is not at hand: %v", err)
	}
	src := filepath.Join(strings.TrimSpace(string(root)), "src", "net")
	_, all := inspectAll(t, src)
	var sum Totals
	for _, s := range all {
		sum.Add(s)
		if len(s.Problems) > 0 {
			t.Errorf("%s: %v", s.Package, s.Problems)
		}
	}
	if sum.Packages < 20 || sum.Lines < 50_000 || sum.Exported < 500 || sum.Marks == 0 || len(sum.Offenders) != maxOffenders {
		t.Errorf("%+v", sum)
	}
}
