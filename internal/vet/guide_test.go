package vet

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func guide(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../docs/guide/determinism.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestTheGuidesCodeIsCompiledAndAnalysed(t *testing.T) {
	b, err := os.ReadFile("testdata/src/example.org/guide/guide.go")
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile(" *// want .*").ReplaceAllString(string(b), "")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(guide(t), -1)
	if len(blocks) < 4 {
		t.Fatalf("only %d blocks", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(code, b[1]) {
			t.Errorf("not in testdata:\n%s", b[1])
		}
	}
}

func TestTheGuideHasALineForEveryKindOfFinding(t *testing.T) {
	page := guide(t)
	for _, k := range kinds() {
		if !strings.Contains(page, "\n| `"+string(k)+"` |") {
			t.Errorf("nothing about %s", k)
		}
	}
}
