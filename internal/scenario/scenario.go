// Package scenario runs tests from text files that contain commands and their expected output.
package scenario

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Run runs a subtest for every file that matches the pattern, and fails if there are fewer than atLeast. play returns the text of a file
// with the output of its commands; the subtest fails at the first line that differs. With the flag -update it writes the file instead.
func Run(t *testing.T, pattern string, atLeast int, play func(t *testing.T, text string) string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) < atLeast {
		t.Fatalf("%d files of %s, %v", len(files), pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(text))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			was, is := strings.Split(string(text), "\n"), strings.Split(got, "\n")
			for i := range max(len(was), len(is)) {
				if i >= len(was) || i >= len(is) || was[i] != is[i] {
					t.Fatalf("%s:%d: the first line that differs; the output is\n%s", file, i+1, got)
				}
			}
		})
	}
}

var update = flag.Bool("update", false, "write the output of scenarios into their files") //nolint:gochecknoglobals // a flag of tests
