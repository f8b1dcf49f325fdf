package orchestrator_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// script runs one of the scripts of docs/operations/backup.md, and returns what it prints.
func script(t *testing.T, name string, args ...string) string {
	t.Helper()
	var out, problem strings.Builder
	cmd := exec.Command("../../scripts/"+name, args...)
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v: %s", name, err, problem.String())
	}
	return strings.TrimSpace(out.String())
}

// TestRestoredCopyContinuesWithTheInputsAfterIt rehearses docs/operations/backup.md: inputs accepted after the copy are applied again from INPUTS.
func TestRestoredCopyContinuesWithTheInputsAfterIt(t *testing.T) {
	s := newOwnHarness(t)
	if err := s.redis.ConfigSet(s.ctx(), "repl-diskless-sync-delay", "0").Err(); err != nil { // how long a copy waits for further replicas
		t.Fatal(err)
	}
	approve := pawl.NewOrchestration[string, string]("approve")
	approved := pawl.NewEvent[string]("approved")
	fleet := func() (stop func()) {
		o := s.orchestrate(orchestrator.Config{OwnerTTL: 2 * time.Second}, approve.Do(func(ctx *pawl.Context, in string) (string, error) {
			if _, err := greet.Call(ctx, in); err != nil {
				return "", err
			}
			return approved.Receive(ctx)
		}))
		w := s.work(worker.Config{}, greet.Do(doGreet))
		return func() { s.stop(w); s.stop(o) }
	}
	waiting := func(id string) {
		s.until(id+" waits", func() bool { return s.describe(id).Events == 3 })
	}
	stop := fleet()
	s.start("approve", "before", `"x"`)
	s.start("approve", "ended", `"x"`)
	s.event("approved", "ended", `"early"`)
	s.ended("ended")
	waiting("before")
	file := script(t, "backup.sh", "redis://"+s.server.Addr, t.TempDir())
	s.event("approved", "before", `"after the copy"`)
	s.start("approve", "after", `"x"`)
	s.ended("before")
	waiting("after")
	stop()

	s.server.Kill()
	script(t, "restore.sh", file, s.server.Dir)
	s.server.Restart(t)
	fleet()
	s.event("approved", "after", `"at last"`)
	for id, want := range map[string]string{"before": `"after the copy"`, "ended": `"early"`, "after": `"at last"`} {
		if d := s.ended(id); string(d.Result.Data) != want {
			t.Errorf("%s ends with %s, want %s", id, d.Result.Data, want)
		}
	}
}
