package tests

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// goFiles gives the Go files of the module whose names end so, by path.
func goFiles(t *testing.T, suffix string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, suffix) {
			return err
		}
		b, err := os.ReadFile(path)
		files[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A name is `Test…`, or `Test…/case` with the case as the table in its file has it.
func TestEveryTestThatThePageNamesExists(t *testing.T) {
	page, err := os.ReadFile("../docs/crash-points.md")
	if err != nil {
		t.Fatal(err)
	}
	files := goFiles(t, "_test.go")
	exists := func(test, want string) bool {
		for _, code := range files {
			if strings.Contains(code, "func "+test+"(t *testing.T)") && (want == "" || strings.Contains(code, strconv.Quote(want))) {
				return true
			}
		}
		return false
	}
	named := regexp.MustCompile("`(Test[A-Za-z0-9]+)(?:/([^`]+))?`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 100 {
		t.Fatalf("only %d names", len(named))
	}
	for _, n := range named {
		if !exists(n[1], n[2]) {
			t.Errorf("the page names %s, which does not exist", strings.Trim(n[0], "`"))
		}
	}
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| ") && !strings.Contains(line, "**") && !strings.Contains(line, "held by") && !strings.Contains(line, "`Test") {
			t.Errorf("nothing holds this row:\n%s", line)
		}
	}
}

// A crash point that nobody is killed at is no test of anything.
func TestEveryCrashPointInTheCodeIsOneOfTheCampaigns(t *testing.T) {
	campaign, err := os.ReadFile("crash/point_test.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for path, code := range goFiles(t, ".go") {
		for _, here := range regexp.MustCompile(`failpoint\.Here\(("[a-z.-]+")\)`).FindAllStringSubmatch(code, -1) {
			found++
			if !strings.Contains(string(campaign), here[1]) {
				t.Errorf("%s: nobody is killed at %s", path, here[1])
			}
		}
	}
	if found < 10 {
		t.Fatalf("only %d crash points found", found)
	}
}
