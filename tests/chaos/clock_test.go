//go:build chaos

package chaos

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/redistest"
)

// clock is a wall clock whose offset from the clock of the machine is in a file.
type clock struct{ file string }

func newClock(t *testing.T) *clock {
	t.Helper()
	c := &clock{file: filepath.Join(t.TempDir(), "offset")}
	c.step(t, 0)
	return c
}

// newRedisClock returns the clock of every redis-server that is started afterwards. clock/clock.c adds the offset. It does
// not affect Go programs, which read the time without the C library.
func newRedisClock(t *testing.T) *clock {
	t.Helper()
	lib := filepath.Join(t.TempDir(), "clock.so")
	if out, err := exec.Command("gcc", "-O2", "-shared", "-fPIC", "-o", lib, "clock/clock.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc clock.c: %v\n%s", err, out)
	}
	c := newClock(t)
	t.Setenv("LD_PRELOAD", lib)
	t.Setenv("CHAOS_CLOCK", c.file)
	return c
}

// steppedTime returns the build flags of a program whose package time adds an offset, for tests/fleet. The standard library
// is compiled again, once for each build cache.
func steppedTime(t *testing.T, dir string) []string {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	const now = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if !strings.Contains(string(text), now) {
		t.Fatalf("time.Now of this version of Go differs: %s", original)
	}
	stepped := strings.Replace(string(text), now, `// AheadBy makes Now be ahead by the nanoseconds in offset.
func AheadBy(offset *int64) { ahead = offset }

var ahead *int64

`+now+`	if ahead != nil {
		ns := int64(nsec) + *ahead
		sec, nsec = sec+ns/1e9, int32(ns%1e9)
		if nsec < 0 {
			sec, nsec = sec-1, nsec+1e9
		}
	}
`, 1)
	file, overlay := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json")
	replaced, err := json.Marshal(map[string]map[string]string{"Replace": {original: file}})
	if err == nil {
		err = errors.Join(os.WriteFile(file, []byte(stepped), 0o600), os.WriteFile(overlay, replaced, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	return []string{"-overlay", overlay, "-tags", "steppedclock"}
}

// step sets the offset of the clock.
func (c *clock) step(t *testing.T, by time.Duration) {
	t.Helper()
	f, err := os.OpenFile(c.file, os.O_CREATE|os.O_WRONLY, 0o600) // written in place, because it is mapped into memory
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(by)), 0); err != nil {
		t.Fatal(err)
	}
}

func TestClockOfRedisIsStepped(t *testing.T) {
	c := newRedisClock(t)
	rdb := redistest.Start(t).Client(t)
	for _, by := range []time.Duration{0, 5 * time.Second, -5 * time.Second} {
		c.step(t, by)
		before := time.Now()
		at, err := rdb.Time(context.Background()).Result()
		if err != nil {
			t.Fatal(err)
		}
		if at.Before(before.Add(by-time.Second)) || at.After(time.Now().Add(by+time.Second)) {
			t.Errorf("a step of %v: the clock shows %v between %v and %v", by, at, before, time.Now())
		}
	}
}
