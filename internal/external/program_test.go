//go:build unix

package external

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/exec"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/poll"
)

func shell(script string) Activity { return Activity{Exec: Command{"sh", "-c", script}} }

func TestProgramReceivesItsInputAndACleanEnvironmentAndItsOutputIsTheResult(t *testing.T) {
	t.Setenv("PAWL_REDIS", "redis://secret")
	t.Setenv("TOKEN", "t-1")
	a := shell(`read -r in; echo "working on $in" >&2; printf '{"in":%s,"env":"%s %s %s %s"}\n' "$in" "$PAWL_KEY" "$PAWL_ATTEMPT" "$ADDED" "$PAWL_REDIS"`)
	a.Env = map[string]string{"ADDED": "with $TOKEN"}
	got := call(t.Context(), t, a, `"film"`)
	if got.failure != nil || got.result != `{"in":"film","env":"key-1 2 with t-1 "}` {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(got.log, `line="working on \"film\""`) || !strings.Contains(got.log, "instance=i-1") {
		t.Errorf("log: %s", got.log)
	}
	if got := call(t.Context(), t, shell(`cat`), ""); got.failure != nil || got.result != "null" {
		t.Errorf("without input and output: %+v", got)
	}
}

func TestTraceOfTheInstanceIsPassedOn(t *testing.T) {
	script := shell(`printf '"%s %s %s%s"' "$TRACEPARENT" "$TRACESTATE" "$TENANT" "$PAWL_SPAN"`)
	if got := call(t.Context(), t, script, ""); got.result != `"`+traceparent+` a=b "` {
		t.Errorf("%+v", got)
	}
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	if got := call(trace.ContextWithSpanContext(t.Context(), span), t, script, ""); !strings.Contains(got.result, `"00-01000000000000000000000000000000-0200000000000000-00 a=b`) {
		t.Errorf("with a span of the worker: %+v", got)
	}
	a := served(t, func(w http.ResponseWriter, r *http.Request) {
		h := r.Header
		_, _ = fmt.Fprintf(w, "%q", strings.Join([]string{h.Get("Traceparent"), h.Get("Tracestate"), h.Get("Pawl-Header-Tenant"), h.Get("Tenant"), h.Get("Pawl-Span")}, " "))
	})
	if got := call(t.Context(), t, a, ""); got.result != `"`+traceparent+` a=b acme  "` {
		t.Errorf("%+v", got)
	}
}

func TestExitCodeOrErrorObjectOfAProgramIsItsFailure(t *testing.T) {
	failed := call(t.Context(), t, shell("echo the reason >&2; exit 3"), "").failure
	if e := exec.ExitErrorOf(failed); e == nil || e.ExitCode != 3 || failed.Permanent || failed.Message != "sh: exit code 3: the reason" {
		t.Errorf("%+v", failed)
	}
	if f := call(t.Context(), t, shell("exit 65"), "").failure; f == nil || !f.Permanent {
		t.Errorf("%+v", f)
	}
	custom := shell("exit 65")
	custom.Permanent = []int{2}
	if f := call(t.Context(), t, custom, "").failure; f == nil || f.Permanent {
		t.Errorf("%+v", f)
	}
	for _, retryable := range []bool{true, false} {
		wantDescribed(t, call(t.Context(), t, shell("echo '"+declined(t, retryable)+"'; exit 1"), "").failure, !retryable)
	}
	reserved := call(t.Context(), t, shell(`echo '{"error":{"message":"x","code":"pawl.cancelled"}}'; exit 1`), "").failure
	if errors.Is(reserved, context.Canceled) {
		t.Errorf("a program has claimed a code of Pawl: %+v", reserved)
	}
	if f := call(t.Context(), t, Activity{Exec: Command{"/no/such/program"}}, "").failure; f == nil || f.Permanent || !strings.Contains(f.Message, "no such file") {
		t.Errorf("%+v", f)
	}
}

func TestResultOfAProgramIsBoundedAndMustBeJSON(t *testing.T) {
	if f := call(t.Context(), t, shell("head -c 3000000 /dev/zero | tr '\\0' 1"), "").failure; !errors.Is(f, pawl.ErrTooLarge) || !f.Permanent {
		t.Errorf("%+v", f)
	}
	if f := call(t.Context(), t, shell("echo resized"), "").failure; !errors.Is(f, pawl.ErrUndecodable) || !f.Permanent || !strings.Contains(f.Message, "resized") {
		t.Errorf("%+v", f)
	}
	long := call(t.Context(), t, shell("head -c 100000 /dev/zero | tr '\\0' x >&2"), "")
	if long.failure != nil || len(long.log) > 2*maxLine {
		t.Errorf("%+v, log of %d bytes", long.failure, len(long.log))
	}
}

func TestFailedProgramIsRepeatedInPlaceAndItsTimeoutIsAFailure(t *testing.T) {
	file := filepath.Join(t.TempDir(), "attempts")
	a := shell(`echo >> "` + file + `"; [ $(wc -l < "` + file + `") -ge 3 ] && echo '"third"'`)
	a.Retry = &Retry{Attempts: 3, Initial: 1}
	if got := call(t.Context(), t, a, ""); got.failure != nil || got.result != `"third"` {
		t.Errorf("%+v", got)
	}
	slow := shell("exec sleep 1000")
	slow.Timeout = 1e8
	if f := call(t.Context(), t, slow, "").failure; !errors.Is(f, pawl.ErrTimeout) || f.Permanent {
		t.Errorf("%+v", f)
	}
}

// The promise is 50 ms for a program that obeys SIGTERM. The best of several attempts counts, because other tests use the cores as well.
func TestProcessGroupOfACancelledProgramIsGoneAtOnceIfItObeysAndAfterTheGracePeriodIfNot(t *testing.T) {
	const promise, grace = 50 * time.Millisecond, time.Second
	best := time.Hour
	for try := 0; try < 100 && best > promise; try++ {
		best = min(best, timeToEnd(t, `sleep 1000 & echo $$ > "$READY"; wait`, time.Minute))
	}
	t.Logf("a group that obeys: %s", best)
	if best > promise {
		t.Errorf("a group that obeys SIGTERM was gone after %s", best)
	}
	if took := timeToEnd(t, `trap '' TERM; echo $$ > "$READY"; while :; do sleep 0.02; done`, grace); took < grace*8/10 || took > 15*time.Second {
		t.Errorf("a group that ignores SIGTERM was gone after %s of a grace period of %s", took, grace)
	}
}

// timeToEnd cancels a program after it has written its process id to $READY, and returns the time until its process group is gone.
func timeToEnd(t *testing.T, script string, grace time.Duration) time.Duration {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "ready")
	a := shell(script)
	a.Env = map[string]string{"READY": ready}
	ctx, stop := cancellable(t)
	ctx, _ = author.WithGracePeriod(pawl.WithInfo(ctx, pawl.ActivityInfo{Grace: grace}))
	done := make(chan called, 1)
	go func() { done <- call(ctx, t, a, "") }()
	group := 0
	poll.Until(t, time.Minute, "the program is ready", func() bool {
		b, _ := os.ReadFile(ready)
		group, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		return group > 0
	})
	at := time.Now()
	stop()
	got := <-done
	took := time.Since(at)
	if left := members(group); !errors.Is(got.failure, context.Canceled) || len(left) > 0 {
		t.Fatalf("%+v; of the group: %v", got.failure, left)
	}
	return took
}

// members returns the processes of a group without zombies: the init process of a container may not reap orphans.
func members(group int) (left []string) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		b, _ := os.ReadFile(file)
		_, rest, _ := strings.Cut(string(b), ") ")
		if f := strings.Fields(rest); len(f) > 2 && f[2] == strconv.Itoa(group) && f[0] != "Z" && f[0] != "X" {
			left = append(left, string(b))
		}
	}
	return left
}
