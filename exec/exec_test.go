//go:build unix

package exec_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/exec"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pkg/cancel"
)

func shell(script string) exec.Cmd { return exec.Command("sh", "-c", script) }

func TestRunPassesInputAndReturnsOutput(t *testing.T) {
	dir := t.TempDir()
	cmd := shell(`cat; echo "$GREETING from $(pwd)" >&2`)
	cmd.Stdin, cmd.Env, cmd.Dir = strings.NewReader("input"), append(os.Environ(), "GREETING=hello"), dir
	out, err := cmd.Run(context.Background())
	if err != nil || out.Stdout != "input" || out.StdoutOmitted != 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	if resolved, _ := filepath.EvalSymlinks(dir); out.Stderr != "hello from "+dir+"\n" && out.Stderr != "hello from "+resolved+"\n" {
		t.Fatalf("%q", out.Stderr)
	}

	file := filepath.Join(dir, "in")
	if err := os.WriteFile(file, []byte("from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd = shell("cat")
	cmd.Stdin = f
	if out, err := cmd.Run(context.Background()); err != nil || out.Stdout != "from a file" {
		t.Fatalf("%+v, %v", out, err)
	}
}

func TestRunIgnoresInputThatTheProgramDoesNotRead(t *testing.T) {
	cmd := shell("head -c 3")
	cmd.Stdin = strings.NewReader(strings.Repeat("abc", 1<<20))
	if out, err := cmd.Run(context.Background()); err != nil || out.Stdout != "abc" {
		t.Fatalf("%+v, %v", out, err)
	}
}

func TestOutputBeyondTheLimitIsReadAndOmitted(t *testing.T) {
	cmd := shell("head -c 1000000 /dev/zero | tr '\\0' x; echo end")
	cmd.OutputLimit = 1000
	out, err := cmd.Run(context.Background())
	if err != nil || out.StdoutOmitted != 1_000_004-1000 || !strings.HasSuffix(out.Stdout, "xend\n") || !strings.Contains(out.Stdout, "[... 999004 bytes omitted ...]") {
		t.Fatalf("cut %d: %q, %v", out.StdoutOmitted, out.Stdout, err)
	}
}

func TestExitErrorSurvivesHistory(t *testing.T) {
	_, failed := shell("echo some words >&2; echo the reason >&2; exit 3").Run(context.Background())
	_, killed := shell("kill -9 $$").Run(context.Background())
	for _, times := range []int{0, 1, 2} {
		err := throughHistory(failed, times)
		e := exec.ExitErrorOf(err)
		if e == nil || e.Program != "sh" || e.ExitCode != 3 || e.Signal != "" || e.Stderr != "some words\nthe reason\n" {
			t.Errorf("%d times through history: %+v", times, e)
		}
		if !errors.Is(err, exec.ErrExit) || errors.Is(err, context.Canceled) || err.Error() != "sh: exit code 3: the reason" {
			t.Errorf("%d times through history: %v", times, err)
		}
		e = exec.ExitErrorOf(throughHistory(killed, times))
		if e == nil || e.ExitCode != -1 || e.Signal != "killed" || e.Error() != "sh: ended by signal: killed" {
			t.Errorf("%d times through history: %+v", times, e)
		}
	}
	if exec.ExitErrorOf(throughHistory(errors.New("x"), 1)) != nil || exec.ExitErrorOf(nil) != nil {
		t.Error("found where there is none")
	}
}

func TestRunReportsAProgramThatCannotBeStarted(t *testing.T) {
	_, err := exec.Command("no-such-program-as-this").Run(context.Background())
	if err == nil || !strings.Contains(err.Error(), "run no-such-program-as-this: ") || exec.ExitErrorOf(err) != nil {
		t.Fatal(err)
	}
	cmd := shell("true")
	cmd.Dir = "/no/such/directory"
	if _, err := cmd.Run(context.Background()); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}

// activity returns a context like that of a worker, and the functions that cancel it and end its grace period.
func activity(grace time.Duration) (ctx context.Context, stop, expire func()) {
	ctx, end := context.WithCancelCause(context.Background())
	ctx, expire = author.WithGracePeriod(pawl.WithInfo(ctx, pawl.ActivityInfo{Grace: grace}))
	return ctx, func() { end(&pawl.Cancelled{Reason: cancel.LostSelect, Text: "too slow"}) }, expire
}

// throughHistory encodes and decodes an error several times, as when it is recorded in histories.
func throughHistory(err error, times int) error {
	for range times {
		err = &pawl.Failure{Failure: *author.ToFailure(err)}
	}
	return err
}

type result struct {
	out  exec.Output
	err  error
	took time.Duration // since the cancellation
}

// cancelled runs a script, cancels it once it has touched $READY, and returns the result.
func cancelled(t *testing.T, script string, grace time.Duration, expired bool) result {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "ready")
	cmd := shell(script)
	cmd.Env = append(os.Environ(), "READY="+ready, mark(t))
	ctx, stop, expire := activity(grace)
	done := make(chan result, 1)
	go func() {
		out, err := cmd.Run(ctx)
		done <- result{out: out, err: err}
	}()
	poll.Until(t, time.Minute, "the script is ready", func() bool {
		_, err := os.Stat(ready)
		return err == nil
	})
	at := time.Now()
	stop()
	if expired {
		expire()
	}
	select {
	case r := <-done:
		r.took = time.Since(at)
		var c *pawl.Cancelled
		if !errors.As(r.err, &c) || c.Reason != cancel.LostSelect || !errors.Is(r.err, context.Canceled) {
			t.Fatalf("the error is %v, not the cause", r.err)
		}
		assertNoneLeft(t)
		return r
	case <-time.After(time.Minute):
		t.Fatal("the program does not end")
		return result{}
	}
}

func TestCancelledProgramGetsSIGTERMAndRunReturnsTheCause(t *testing.T) {
	r := cancelled(t, `trap 'echo bye; exit 0' TERM; touch "$READY"; while :; do sleep 0.02; done`, time.Minute, false)
	if r.out.Stdout != "bye\n" || r.took > 15*time.Second {
		t.Fatalf("%+v", r)
	}
}

func TestProgramThatIgnoresSIGTERMIsKilledWithinTheGracePeriod(t *testing.T) {
	const grace = time.Second
	r := cancelled(t, `trap '' TERM; (sleep 1000; true) & echo here; touch "$READY"; sleep 1000; sleep 1000`, grace, false)
	if r.out.Stdout != "here\n" || r.took < grace/2 || r.took > 15*time.Second {
		t.Fatalf("%+v", r)
	}
}

func TestGracePeriodAppliesToTheGroupAfterTheProgramHasEnded(t *testing.T) {
	r := cancelled(t, `(trap 'sleep 0.3; echo cleaned up; exit' TERM; touch "$READY"; while :; do sleep 0.02; done) & wait`, time.Minute, false)
	if r.out.Stdout != "cleaned up\n" || r.took > 15*time.Second {
		t.Fatalf("%+v", r)
	}
}

func TestProgramIsKilledWhenTheGracePeriodExpiresEarly(t *testing.T) {
	r := cancelled(t, `trap '' TERM; touch "$READY"; while :; do sleep 0.02; done`, time.Hour, true)
	if r.took > 15*time.Second {
		t.Fatalf("%+v", r)
	}
}

func TestProgramWithoutGracePeriodIsKilledAtOnce(t *testing.T) {
	r := cancelled(t, `trap '' TERM; touch "$READY"; while :; do sleep 0.02; done`, 0, false)
	if r.took > 15*time.Second {
		t.Fatalf("%+v", r)
	}
}

func TestRunStartsNothingInACancelledContext(t *testing.T) {
	ctx, stop, _ := activity(time.Minute)
	stop()
	file := filepath.Join(t.TempDir(), "started")
	_, err := exec.Command("touch", file).Run(ctx)
	var c *pawl.Cancelled
	if _, missing := os.Stat(file); !errors.As(err, &c) || missing == nil {
		t.Fatalf("%v; started: %v", err, missing == nil)
	}
}
