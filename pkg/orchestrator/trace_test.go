package orchestrator_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/recording"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// The trace contains each message, followed by its effects in their order. Replaying the trace causes the same effects.
func TestTraceReplaysWithTheSameEffects(t *testing.T) {
	s := newHarness(t)
	limited := pawl.NewActivity[string, string]("limited", pawl.Concurrency(1))
	parent := pawl.NewOrchestration[string, string]("parent").Do(func(ctx *pawl.Context, in string) (string, error) {
		if err := pawl.Sleep(ctx, time.Millisecond); err != nil {
			return "", err
		}
		if err := shown.Set(ctx, 1); err != nil {
			return "", err
		}
		if _, err := limited.Call(ctx, in); err != nil {
			return "", err
		}
		return hello.Call(ctx, in)
	})
	var out bytes.Buffer // read after Stop
	bindings := []pawl.OrchestrationBinding{parent, counter.Do(count), hello.Do(callGreet)}
	o := s.orchestrate(orchestrator.Config{Trace: &out, ReconcileInterval: 10 * time.Second}, bindings...)
	s.work(worker.Config{}, greet.Do(doGreet), limited.Do(doGreet))
	for i := range 5 {
		s.start("parent", fmt.Sprint("t-", i), `"x"`)
	}
	s.start("counter", "c", `{}`)
	s.event("add", "c", `3`)
	s.publish(message.OutInput{Instance: "c", Kind: message.KindPurge, Force: true})
	for i := range 5 {
		s.ended(fmt.Sprint("t-", i))
	}
	s.stop(o)
	rest := out.String()
	for _, line := range []string{
		" inputs ingested\n", "   run turn t-1\n", " turn done t-1 (turning)\n", "   commit t-1: ", " commit answered t-1 (committing)\n", "   answer clients\n",
	} {
		_, after, ok := strings.Cut(rest, line)
		if !ok {
			t.Fatalf("%q is not in the rest of the trace:\n%s", line, out.String())
		}
		rest = after
	}
	programs, err := author.NewRegistry(bindings...)
	if err != nil {
		t.Fatal(err)
	}
	p := recording.Player{Programs: programs}
	if err := p.Play(out.String()); err != nil || p.Messages < 50 {
		t.Errorf("%d messages played: %v", p.Messages, err)
	}
}
