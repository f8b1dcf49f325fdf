// Package doctest checks that the code shown in documentation exists in the tested sources.
package doctest

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Read returns the concatenated contents of files.
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

// RequireShown requires that the Go blocks of a Markdown page appear in the code, character by character. Each paragraph of a block is compared
// separately, because the code may have more between two of them. The page must have at least minBlocks blocks, so that a page without
// any does not pass.
func RequireShown(tb testing.TB, page string, minBlocks int, code string) {
	tb.Helper()
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(blocks) < minBlocks {
		tb.Fatalf("only %d blocks of Go, want at least %d", len(blocks), minBlocks)
	}
	for _, b := range blocks {
		for part := range strings.SplitSeq(strings.TrimSpace(b[1]), "\n\n") {
			if !strings.Contains(code, part) {
				tb.Errorf("not in the code:\n%s", part)
			}
		}
	}
}
