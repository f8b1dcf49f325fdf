package orchestrator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// A job is an orchestration that calls one activity: it costs what one that an author has written costs.
func TestJobCostsTheScriptsAndMessagesOfAnOrchestrationThatCallsOneActivity(t *testing.T) {
	s := newStand(t)
	hello := pawl.NewOrchestration[string, string]("hello")
	s.orchestrate(orchestrator.Config{Look: 10 * time.Second}, hello.Do(func(ctx *pawl.Context, name string) (string, error) {
		return greet.Call(ctx, name)
	}))
	s.work(worker.Config{LeaseTTL: 10 * time.Second}, greet.Do(doGreet))
	const instances = 200
	cost := func(orchestration, input string) (scripts, messages float64) {
		s.start(orchestration, orchestration+"-warm-up", input)
		s.ended(orchestration + "-warm-up")
		from, in, began := s.redisCalls("evalsha"), s.natsIn(), time.Now()
		for i := range instances { // one after the other, so that no script is for two of them
			id := fmt.Sprintf("%s-%d", orchestration, i)
			s.start(orchestration, id, input)
			s.ended(id)
		}
		background := 20 * time.Since(began).Seconds()
		per := func(n int64) float64 { return (float64(n) - background) / instances }
		return per(s.redisCalls("evalsha") - from), per(s.natsIn() - in)
	}
	helloScripts, helloMessages := cost("hello", `"x"`)
	jobScripts, jobMessages := cost("pawl.job", `{"activity":"greet","input":"x"}`)
	t.Logf("scripts %.2f and %.2f, messages into NATS %.2f and %.2f", helloScripts, jobScripts, helloMessages, jobMessages)
	if jobScripts > helloScripts+0.3 || jobMessages > helloMessages+0.3 {
		t.Errorf("a job costs %.2f scripts and %.2f messages, and not %.2f and %.2f", jobScripts, jobMessages, helloScripts, helloMessages)
	}
}
