package pawltest_test

import (
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawltest"
)

func TestOrchestrationCodeThatBlocksFailsTheTestWithItsStack(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	blocks := pawl.NewOrchestration[pawl.None, pawl.None]("blocks")
	r := &recorder{TB: t}
	ended := make(chan struct{})
	go func() { // ended by Fatalf
		defer close(ended)
		env := pawltest.New(r, blocks.Do(func(ctx *pawl.Context, _ pawl.None) (pawl.None, error) {
			<-release
			return pawl.None{}, nil
		}))
		_, _ = pawltest.Run(env, blocks, pawl.None{})
	}()
	<-ended
	r.clean()
	wantText(t, r.output, "orchestration code blocks", "blocked_test.go:")
}
