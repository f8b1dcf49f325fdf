// Package doctest holds pages of documentation to the code that they show.
package doctest

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Read gives the contents of files, one behind the other.
func Read(t testing.TB, files ...string) string {
	t.Helper()
	var all strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}

// Shown demands that what the page's Go blocks show stands in the code, to the letter:
// each paragraph, for the code may have more between two of them. least is how many
// blocks there must be, so that a page of which none is found does not pass.
func Shown(t testing.TB, page string, least int, code string) {
	t.Helper()
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(blocks) < least {
		t.Fatalf("only %d blocks of Go, want at least %d", len(blocks), least)
	}
	for _, b := range blocks {
		for part := range strings.SplitSeq(strings.TrimSpace(b[1]), "\n\n") {
			if !strings.Contains(code, part) {
				t.Errorf("not in the code:\n%s", part)
			}
		}
	}
}
