package aof_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/pawlrun/pawl/internal/aof"
	"github.com/pawlrun/pawl/internal/redistest"
)

// An operator must decide about a file that contains other bytes than were written, because all data may follow the damage.
func TestDamagedFileIsLeftAsItIs(t *testing.T) {
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	if err := s.Client(t).Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	logs, err := filepath.Glob(filepath.Join(s.Dir, "appendonlydir", "*.incr.aof"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	good, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Replace(good, []byte("$3"), []byte("x3"), 1)
	if err := os.WriteFile(logs[0], bad, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := aof.Repair(t.Context(), "redis-server", s.Dir); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(logs[0]); err != nil || !bytes.Equal(got, bad) {
		t.Fatalf("%q, %v", got, err)
	}
}
