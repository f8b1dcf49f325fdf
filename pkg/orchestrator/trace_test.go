package orchestrator_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/orchestrator"
)

// The trace has each message with its effects below it, in their order.
func TestTraceHasEveryMessageAboveItsEffects(t *testing.T) {
	s := newStand(t)
	var out bytes.Buffer // read behind Stop
	o := s.orchestrate(orchestrator.Config{Trace: &out, Look: 10 * time.Second}, hello.Do(func(*pawl.Context, string) (string, error) { return "", nil }))
	s.start("hello", "t-1", `"x"`)
	s.ended("t-1")
	s.stop(o)
	rest := out.String()
	for _, line := range []string{
		" inputs ingested\n", "   run turn t-1\n", " turn done t-1 (turning)\n", "   commit t-1: 2 events, head \"\" to ", " commit answered t-1 (committing)\n", "   answer clients\n",
	} {
		_, behind, ok := strings.Cut(rest, line)
		if !ok {
			t.Fatalf("%q is not in the rest of the trace:\n%s", line, out.String())
		}
		rest = behind
	}
}
