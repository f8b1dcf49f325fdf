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

// goFiles returns the contents of the files of the module with a suffix, by path.
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

// A page names a test as `Test…` or `Test…/case`. The case is a name in a table in the directory of the test, or the name of
// a file in its testdata.
func TestEveryNamedTestExists(t *testing.T) {
	files := goFiles(t, "_test.go")
	for page, least := range map[string]int{
		"crash-points.md": 100, "conformance.md": 40, "security.md": 8, "guarantees.md": 4, "fault-campaign.md": 1, "operations/encryption.md": 2,
	} {
		t.Run(page, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join("..", "docs", page))
			if err != nil {
				t.Fatal(err)
			}
			named := regexp.MustCompile("`(Test[A-Za-z0-9]+)(?:/([^`]+))?`").FindAllStringSubmatch(string(b), -1)
			if len(named) < least {
				t.Fatalf("only %d names", len(named))
			}
			for _, n := range named {
				if !exists(files, n[1], n[2]) {
					t.Errorf("the page names %s, which does not exist", strings.Trim(n[0], "`"))
				}
			}
			for line := range strings.Lines(string(b)) {
				if (page == "crash-points.md" || page == "conformance.md") && strings.HasPrefix(line, "| ") && !strings.Contains(line, "**") && !strings.Contains(line, "held by") && !strings.Contains(line, "`Test") {
					t.Errorf("nothing holds this row:\n%s", line)
				}
			}
		})
	}
}

// Trap: go test succeeds if its pattern matches no test, for example after a test was renamed.
func TestEveryPatternOfACommandSelectsATest(t *testing.T) {
	var tests strings.Builder
	for _, code := range goFiles(t, "_test.go") {
		tests.WriteString(code)
	}
	commands := goFiles(t, ".md")
	for _, file := range []string{"../Makefile", "../.ci/run", "../.github/workflows/ci.yml"} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		commands[file] = string(b)
	}
	found := 0
	for file, text := range commands {
		for _, run := range regexp.MustCompile(`-run[ =]'?((?:Test|Example|Benchmark)[A-Za-z0-9|]*)`).FindAllStringSubmatch(text, -1) {
			found++
			for name := range strings.SplitSeq(run[1], "|") {
				if !strings.Contains(tests.String(), "\nfunc "+name) {
					t.Errorf("%s: no test begins with %s", file, name)
				}
			}
		}
	}
	if found < 3 {
		t.Errorf("only %d patterns", found)
	}
}

// Each setting of the stores has a promise, which is verified by a topology of the fault campaign or by a test, or it has no
// promise.
func TestEverySettingOfTheStoresHasItsTest(t *testing.T) {
	page, err := os.ReadFile("../docs/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	harness, err := os.ReadFile("chaos/servers_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## Settings of Redis and NATS")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := regexp.MustCompile(`(?m)^\| ([^|]+) \| [^|]+ \| ([^|]+) \| ([^|]+) \|$`).FindAllStringSubmatch(table, -1)
	if len(rows) < 20 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows[1:] {
		setting, promise, held := row[1], row[2], row[3]
		named := regexp.MustCompile("`([A-Za-z0-9]+)`").FindAllStringSubmatch(held, -1)
		for _, n := range named {
			if !strings.HasPrefix(n[1], "Test") && !strings.Contains(string(harness), `= "`+n[1]+`"`) {
				t.Errorf("%s: there is no campaign %s", setting, n[1])
			}
		}
		if len(named) == 0 && held != "all campaigns" && !strings.Contains(promise, "not supported") && !strings.Contains(promise, "may be lost") {
			t.Errorf("%s: nothing holds its promise", setting)
		}
	}
}

// exists reports whether a test exists and, if a case is given, the case.
func exists(files map[string]string, test, want string) bool {
	for path, code := range files {
		if !strings.Contains(code, "func "+test+"(t *testing.T)") {
			continue
		}
		for _, below := range []string{"", "*"} {
			if files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "testdata", below, want+".txt")); err == nil && len(files) > 0 {
				return true
			}
		}
		for beside, code := range files {
			if filepath.Dir(beside) == filepath.Dir(path) && strings.Contains(code, strconv.Quote(want)) || want == "" {
				return true
			}
		}
	}
	return false
}

// A crash point at which no test kills a process tests nothing.
func TestEveryCrashPointIsPartOfACampaign(t *testing.T) {
	var campaigns strings.Builder
	for path, code := range goFiles(t, "_test.go") {
		if dir := filepath.Base(filepath.Dir(path)); dir == "crash" || dir == "limits" {
			campaigns.WriteString(code)
		}
	}
	found := 0
	for path, code := range goFiles(t, ".go") {
		for _, here := range regexp.MustCompile(`failpoint\.Here\(("[a-z.-]+")\)`).FindAllStringSubmatch(code, -1) {
			found++
			if !strings.Contains(campaigns.String(), here[1]) {
				t.Errorf("%s: no process is killed at %s", path, here[1])
			}
		}
	}
	if found < 10 {
		t.Fatalf("only %d crash points found", found)
	}
}
