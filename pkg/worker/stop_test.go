//go:build unix

package worker_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/exec"
	"github.com/pawlrun/pawl/pkg/cancel"
)

// program is an activity that runs an external program, which writes its process id to a file when it is ready.
type program struct {
	file string
	err  chan error
}

func newProgram(t *testing.T) *program {
	return &program{file: filepath.Join(t.TempDir(), "pid"), err: make(chan error, 1)}
}

func (p *program) do(script string) pawl.ActivityBinding {
	return pawl.NewActivity[pawl.None, string]("program").Do(func(ctx context.Context, _ pawl.None) (string, error) {
		cmd := exec.Command("sh", "-c", script)
		cmd.Env = append(os.Environ(), "READY="+p.file)
		out, err := cmd.Run(ctx)
		p.err <- err
		return out.Stdout, err
	})
}

// pid waits until the program is ready, and returns its process id.
func (p *program) pid(o *owner) int {
	o.Helper()
	var pid int
	o.until("the program is ready", func() bool {
		b, _ := os.ReadFile(p.file)
		var err error
		pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
		return err == nil && strings.HasSuffix(string(b), "\n")
	})
	return pid
}

func TestStopTerminatesProgramsAndOtherWorkersContinueAtOnce(t *testing.T) {
	o := newOwner(t)
	p := newProgram(t)
	cfg := o.config()
	cfg.Drain, cfg.LeaseTTL = time.Millisecond, time.Hour
	w := o.worker(cfg, p.do(`trap 'exit 0' TERM; echo $$ >"$READY"; while :; do sleep 0.02; done`))
	task := o.send("program", nothing)
	pid := p.pid(o)
	o.must(o.stop(w, 20*time.Second))
	if err := syscall.Kill(-pid, 0); err == nil {
		t.Fatal("a process of the program is left")
	}
	if err := <-p.err; !strings.Contains(err.Error(), "worker-stopping") {
		t.Fatal(err)
	}
	if l := o.lease(task); l["n"] != "0" || l["t"] != "" {
		t.Fatalf("lease %v", l)
	}
	second := newProgram(t)
	o.start(o.config(), second.do(`echo again`))
	o.publish(task) // as the owner reconciles
	if c := o.completed(task); c.Claims != 1 {
		t.Fatalf("claims %d", c.Claims)
	}
}

// The grace period is ten seconds, and Stop has three.
func TestStopWithADeadlineShortensGracePeriodsAndKillsPrograms(t *testing.T) {
	o := newOwner(t)
	p := newProgram(t)
	cfg := o.config()
	cfg.LeaseTTL = time.Hour
	w := o.worker(cfg, p.do(`trap '' TERM; (sleep 1000; true) & echo $$ >"$READY"; sleep 1000; sleep 1000`))
	task := o.send("program", nothing)
	pid := p.pid(o)
	begun := time.Now()
	err := o.stop(w, 3*time.Second)
	if took := time.Since(begun); took < time.Second || took > 3*time.Second*slower {
		t.Errorf("stopped after %s", took)
	}
	if err != nil && !strings.Contains(err.Error(), "program (activity 1") { // it may return just after Stop has given up
		t.Fatal(err)
	}
	o.until("no process of the program is left", func() bool { return syscall.Kill(-pid, 0) != nil })
	if l := o.lease(task); l["n"] != "0" || l["t"] != "" {
		t.Fatalf("lease %v", l)
	}
	<-p.err
}

func TestStopWaitsForTheGracePeriod(t *testing.T) {
	o := newOwner(t)
	cfg := o.config()
	cfg.Drain, cfg.LeaseTTL, cfg.Grace = time.Millisecond, time.Hour, time.Minute
	started, cleaned := make(signal), make(signal)
	causes := make(chan error, 1)
	w := o.worker(cfg, pawl.NewActivity[pawl.None, string]("clean").Do(func(ctx context.Context, _ pawl.None) (string, error) {
		close(started)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		<-cleaned
		return "", ctx.Err()
	}))
	task := o.send("clean", nothing)
	o.wait("start", started)
	stopped := make(chan error, 1)
	go func() { stopped <- w.Stop(context.Background()) }()
	if c, ok := (<-causes).(*pawl.Cancelled); !ok || c.Reason != cancel.WorkerStopping {
		t.Fatal(c)
	}
	select {
	case err := <-stopped:
		t.Fatalf("stopped before the cleanup had ended: %v", err)
	case <-time.After(1500 * time.Millisecond): // a Stop that does not wait would have returned
	}
	if l := o.lease(task); l["t"] == "" {
		t.Fatal("its lease was released during the cleanup")
	}
	close(cleaned)
	o.must(<-stopped)
	if l := o.lease(task); l["n"] != "0" || l["t"] != "" {
		t.Fatalf("lease %v", l)
	}
}

func TestStopNamesActivitiesAbandonedEarlierWithoutWaiting(t *testing.T) {
	o := newOwner(t)
	d := newUncancellable()
	cfg := o.config()
	cfg.Grace, cfg.LeaseTTL = time.Millisecond, time.Hour
	w := o.worker(cfg, d.do("uncancellable"))
	task := o.send("uncancellable", nothing)
	o.wait("start", d.started)
	o.revoke(w, task)
	o.until("abandoned", func() bool { return len(w.Abandoned()) == 1 })
	if err := w.Stop(context.Background()); err == nil || !strings.Contains(err.Error(), "uncancellable (activity 1") {
		t.Fatal(err)
	}
	close(d.release)
	o.wait("return", d.returned)
	o.until("no activity is abandoned", func() bool { return len(w.Abandoned()) == 0 })
}
