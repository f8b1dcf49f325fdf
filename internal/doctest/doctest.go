// Package doctest holds pages of documentation to the code that they show.
package doctest

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Read gives the contents of files, one behind the other.
func Read(tb testing.TB, files ...string) string {
	tb.Helper()
	var all strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			tb.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}

// Shown demands that what the page's Go blocks show stands in the code, to the letter:
// each paragraph, for the code may have more between two of them. least is how many
// blocks there must be, so that a page of which none is found does not pass.
func Shown(tb testing.TB, page string, least int, code string) {
	tb.Helper()
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(blocks) < least {
		tb.Fatalf("only %d blocks of Go, want at least %d", len(blocks), least)
	}
	for _, b := range blocks {
		for part := range strings.SplitSeq(strings.TrimSpace(b[1]), "\n\n") {
			if !strings.Contains(code, part) {
				tb.Errorf("not in the code:\n%s", part)
			}
		}
	}
}
