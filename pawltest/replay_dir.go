package pawltest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pawlrun/pawl"
)

// ReplayDir is Replay of every history in a directory, each in a subtest: the files NAME.json written by pawl export and NAME.jsonl
// written by pawl history --json. A directory without any fails the test.
func ReplayDir(t *testing.T, dir string, bindings ...pawl.Binding) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if exports, more := filepath.Glob(filepath.Join(dir, "*.json")); more == nil {
		files = append(files, exports...)
	}
	if err != nil || len(files) == 0 {
		t.Fatalf("no history (*.json, *.jsonl) in %s: %v", dir, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			exported, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			Replay(t, exported, bindings...)
		})
	}
}
