package pawltest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pawlrun/pawl/pawltest"
)

func TestEveryHistoryOfADirectoryIsReplayed(t *testing.T) {
	dir := t.TempDir()
	for days, file := range map[int]string{1: "one.jsonl", 3: "three.jsonl"} {
		env := reminders(t)
		if _, err := pawltest.Run(env, remind, days); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), env.Export(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pawltest.ReplayDir(t, dir, remind.Do(reminder))
}
