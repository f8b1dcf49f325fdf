//go:build chaos

package chaos

import (
	"context"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/redistest"
)

// clock is the wall clock of every redis-server that is started after it: clock/clock.c adds the offset that stands in a file. Go
// programs read the time without the C library, so that the fleets keep the machine's.
type clock struct{ file string }

func newClock(t *testing.T) *clock {
	t.Helper()
	dir := t.TempDir()
	lib := filepath.Join(dir, "clock.so")
	if out, err := exec.Command("gcc", "-O2", "-shared", "-fPIC", "-o", lib, "clock/clock.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc clock.c: %v\n%s", err, out)
	}
	c := &clock{file: filepath.Join(dir, "offset")}
	c.step(t, 0)
	t.Setenv("LD_PRELOAD", lib)
	t.Setenv("CHAOS_CLOCK", c.file)
	return c
}

// step sets how far the clock is ahead of the machine's.
func (c *clock) step(t *testing.T, by time.Duration) {
	t.Helper()
	f, err := os.OpenFile(c.file, os.O_CREATE|os.O_WRONLY, 0o600) // in place: it is mapped
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(by)), 0); err != nil {
		t.Fatal(err)
	}
}

func TestClockOfRedisIsStepped(t *testing.T) {
	c := newClock(t)
	rdb := redistest.Start(t).Client(t)
	for _, by := range []time.Duration{0, 5 * time.Second, -5 * time.Second} {
		c.step(t, by)
		at, err := rdb.Time(context.Background()).Result()
		if err != nil {
			t.Fatal(err)
		}
		if off := time.Until(at) - by; off.Abs() > 2*time.Second {
			t.Errorf("a step of %v: the clock is %v off", by, off)
		}
	}
}
