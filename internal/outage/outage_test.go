package outage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pawlrun/pawl/internal/outage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errRefused = errors.New("connection refused")

// output is a buffer that two goroutines use.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

// take returns what was written since the last call.
func (o *output) take() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.b.Reset()
	return o.b.String()
}

// running returns a Reporter that runs until the end of the test, and a function that returns its lines.
func running(t *testing.T) (*outage.Reporter, func() []string) {
	t.Helper()
	var b output
	r := outage.New(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return r, func() []string {
		synctest.Wait()
		out := strings.Split(strings.TrimSuffix(b.take(), "\n"), "\n")
		if out[0] == "" {
			return nil
		}
		return out
	}
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("line %d:\n got %s\nwant %s", i, got[i], want[i])
		}
	}
}

func TestOutageOfManyPartitionsIsOneLineAStateChangeAndOneAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, log := running(t)
		r.Succeeded(outage.Redis)
		r.Succeeded(outage.Redis)
		wantLines(t, log())
		time.Sleep(900 * time.Millisecond) // not at the same time as the reporter's own tick
		for second := range 90 {
			for part := range 64 {
				r.Failed(outage.Redis, []string{"commit", "renew"}[part%2], fmt.Errorf("second %d: %w", second, errRefused))
			}
			time.Sleep(time.Second)
		}
		r.Succeeded(outage.Redis)
		time.Sleep(10 * time.Second)
		wantLines(t, log(),
			`level=WARN msg="redis unavailable" operation=commit error="second 0: connection refused"`,
			`level=WARN msg="redis still unavailable" outage=1m0s failed=3904 operations="commit 1952, renew 1952" error="second 60: connection refused"`,
			`level=INFO msg="redis available again" outage=1m30s failed=5760 operations="commit 2880, renew 2880"`)
	})
}

func TestOutageIsNotOverWhileAPartStillFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, log := running(t)
		r.Succeeded(outage.NATS)
		for range 50 {
			r.Failed(outage.NATS, "publish", errRefused)
			time.Sleep(time.Second)
			r.Succeeded(outage.NATS)
		}
		if got := log(); len(got) != 1 {
			t.Errorf("%s", strings.Join(got, "\n"))
		}
	})
}

func TestOutageOfAFlappingDependencyEndsAfterALongerTimeWithoutFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, log := running(t)
		r.Succeeded(outage.NATS)
		for range 120 { // ten minutes
			r.Failed(outage.NATS, "publish", errRefused)
			time.Sleep(time.Second)
			r.Succeeded(outage.NATS)
			time.Sleep(4 * time.Second)
		}
		if got := len(log()); got > 14 {
			t.Errorf("%d lines in ten minutes", got)
		}
	})
}

func TestUnusedDependencyIsNotReportedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, log := running(t)
		r.Succeeded(outage.Redis)
		r.Failed(outage.Redis, "claim", errRefused)
		log()
		time.Sleep(time.Hour)
		if got := log(); len(got) > 1 {
			t.Errorf("%s", strings.Join(got, "\n"))
		}
	})
}

func TestAwaitLogsOneLineAStateChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, log := running(t)
		begun := time.Now()
		attempts := 0
		err := r.Await(t.Context(), outage.NATS, "open namespace", func(error) bool { return true }, func(context.Context) error {
			attempts++
			if time.Since(begun) < 80*time.Second {
				if r.Waiting() == nil && attempts > 1 {
					t.Error("not reported as waiting")
				}
				return errRefused
			}
			return nil
		})
		if err != nil || r.Waiting() != nil {
			t.Errorf("%v, %v", err, r.Waiting())
		}
		if limit := 170; attempts > limit {
			t.Errorf("%d attempts in 80 s, want at most %d", attempts, limit)
		}
		got := log()
		if len(got) != 3 || !strings.Contains(got[0], `msg="waiting for nats" operation="open namespace"`) ||
			!strings.Contains(got[1], `msg="still waiting for nats" outage=1m0s`) || !strings.Contains(got[2], `level=INFO msg="connected to nats" waited=1m2`) {
			t.Errorf("%s", strings.Join(got, "\n"))
		}
	})
}

func TestAwaitEndsWithAPermanentErrorAndWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, log := running(t)
		errWrong := errors.New("wrong password")
		transient := func(err error) bool { return !errors.Is(err, errWrong) }
		if err := r.Await(t.Context(), outage.Redis, "ping", transient, func(context.Context) error { return errWrong }); err != errWrong {
			t.Errorf("%v", err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		err := r.Await(ctx, outage.Redis, "ping", transient, func(context.Context) error { return errRefused })
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errRefused) {
			t.Errorf("%v", err)
		}
		if err := (*outage.Reporter)(nil).Await(t.Context(), outage.Redis, "ping", transient, func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
		if got := log(); len(got) != 1 {
			t.Errorf("%s", strings.Join(got, "\n"))
		}
	})
}

func TestRepeatedLineIsSummedUpOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, log := running(t)
		base := r.Logger()
		time.Sleep(900 * time.Millisecond)
		for i := range 130 * 64 { // 130 s of 64 partitions
			l := base.With("partition", i%64)
			l.Warn("inputs could not be ingested", "error", errRefused)
			l.Debug("passes")
			r.Logger().Info("passes", "of-no-instance", i)
			if i%64 == 63 {
				time.Sleep(time.Second)
			}
		}
		got := log()
		var warned []string
		for _, l := range got {
			if strings.Contains(l, "WARN") {
				warned = append(warned, l)
			}
		}
		wantLines(t, warned,
			`level=WARN msg="inputs could not be ingested" partition=0 error="connection refused"`,
			`level=WARN msg="inputs could not be ingested" partition=63 error="connection refused" repeated=3903`,
			`level=WARN msg="inputs could not be ingested" partition=63 error="connection refused" repeated=3840`)
		if others := len(got) - len(warned); others != 2*130*64 {
			t.Errorf("%d lines that are not limited", others)
		}
	})
}

// After an outage thousands of activities may be dispatched again, or found to have lost their leases.
func TestInformationAboutInstancesAndPartitionsIsSummedUpOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, log := running(t)
		for i := range 1000 {
			l := r.Logger().With("partition", i%64)
			l.Info("activity dispatched again", "instance", fmt.Sprint("i-", i))
			l.Info("partition acquired")
		}
		if got := log(); len(got) != 11 {
			t.Errorf("%d lines:\n%s", len(got), strings.Join(got, "\n"))
		}
		time.Sleep(61 * time.Second)
		if got := strings.Join(log(), "\n"); !strings.Contains(got, "repeated=990") || !strings.Contains(got, "repeated=999") {
			t.Error(got)
		}
	})
}

// The deadlock of a limit must not be counted as a repetition of the deadlock of another limit.
func TestLinesOfDifferentLimitsPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, log := running(t)
		for _, name := range []string{"hall", "annex", "hall"} {
			r.Logger().With("partition", 3).Error("limit deadlocked", "limit", name)
		}
		if got := log(); len(got) != 2 {
			t.Errorf("%s", strings.Join(got, "\n"))
		}
	})
}

func TestLinesOfDifferentInstancesPassUpToTenAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, log := running(t)
		for i := range 30 {
			r.Logger().With("instance", fmt.Sprint("i-", i)).Error("instance failed")
			r.Logger().Error("instance failed", "instance", fmt.Sprint("i-", i))
		}
		if got := log(); len(got) != 10 || !strings.Contains(got[9], "i-9") {
			t.Errorf("%s", strings.Join(got, "\n"))
		}
		time.Sleep(61 * time.Second)
		if got := log(); len(got) != 1 || !strings.Contains(got[0], "repeated=50") {
			t.Errorf("%s", strings.Join(got, "\n"))
		}
	})
}

func TestRepeatedLineIsWrittenAgainLaterWithoutRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b output
		log := outage.New(slog.New(slog.NewTextHandler(&b, nil))).Logger()
		for range 10 {
			log.Warn("peer misbehaves")
			time.Sleep(time.Minute)
		}
		if n := strings.Count(b.take(), "\n"); n < 3 || n > 5 {
			t.Errorf("%d lines in ten minutes", n)
		}
	})
}
