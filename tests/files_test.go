package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTrackedFilesAreSources checks that no build artifact is committed. A screenshot is the largest permitted file.
func TestTrackedFilesAreSources(t *testing.T) {
	const largest = 512 << 10
	out, err := exec.CommandContext(t.Context(), "git", "-C", "..", "ls-files", "-z").Output()
	if err != nil {
		t.Skip("no checkout of git: ", err)
	}
	names := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	for _, name := range names {
		info, err := os.Lstat(filepath.Join("..", filepath.FromSlash(name)))
		if err == nil && info.Size() > largest { // a file that is deleted but not committed does not exist
			t.Errorf("%s has %d bytes", name, info.Size())
		}
	}
	if len(names) < 100 {
		t.Errorf("%d files: not those of the project", len(names))
	}
}
