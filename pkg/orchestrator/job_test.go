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
func TestJobTakesTheScriptsAndMessagesOfAnOrchestrationWithOneActivity(t *testing.T) {
	s := newStand(t)
	hello := pawl.NewOrchestration[string, string]("hello")
	s.orchestrate(orchestrator.Config{ReconcileInterval: 10 * time.Second}, hello.Do(func(ctx *pawl.Context, name string) (string, error) {
		return greet.Call(ctx, name)
	}))
	s.work(worker.Config{LeaseTTL: 10 * time.Second}, greet.Do(doGreet))
	const instances = 200
	var scripts, messages [2]float64
	kinds := [2]struct{ orchestration, input string }{{"hello", `"x"`}, {"pawl.job", `{"activity":"greet","input":"x"}`}}
	for i := -1; i < instances; i++ { // in turn, so that what else the processes do and the load of the machine add to both alike
		for n := range kinds {
			k := (i + 1 + n) % len(kinds) // each is the first as often, as what follows an end may be counted for the next instance
			kind := kinds[k]
			from, in := s.redisCalls("evalsha"), s.natsIn()
			id := fmt.Sprintf("%s-%d", kind.orchestration, i)
			s.start(kind.orchestration, id, kind.input)
			s.ended(id)
			if i >= 0 { // the first is a warm-up
				scripts[k] += float64(s.redisCalls("evalsha")-from) / instances
				messages[k] += float64(s.natsIn()-in) / instances
			}
		}
	}
	t.Logf("scripts %.2f and %.2f, messages into NATS %.2f and %.2f", scripts[0], scripts[1], messages[0], messages[1])
	if scripts[1] > scripts[0]+0.5 || messages[1] > messages[0]+0.5 {
		t.Errorf("a job costs %.2f scripts and %.2f messages, and not %.2f and %.2f", scripts[1], messages[1], scripts[0], messages[0])
	}
}
