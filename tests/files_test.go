package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTrackedFilesAreSources holds that no build result is committed: a screenshot is the largest file that is.
func TestTrackedFilesAreSources(t *testing.T) {
	const largest = 512 << 10
	out, err := exec.CommandContext(t.Context(), "git", "-C", "..", "ls-files", "-z").Output()
	if err != nil {
		t.Skip("no checkout of git: ", err)
	}
	names := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	for _, name := range names {
		info, err := os.Lstat(filepath.Join("..", filepath.FromSlash(name)))
		if err == nil && info.Size() > largest { // a file that is about to be deleted is none
			t.Errorf("%s has %d bytes", name, info.Size())
		}
	}
	if len(names) < 100 {
		t.Errorf("%d files: not those of the project", len(names))
	}
}
