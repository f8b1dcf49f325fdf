package worker

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pkg/history"
)

// The activity would run with the zero value of its input. The input is stored compressed, in a few bytes, and waits until
// memory for its decoded size is available.
func TestActivityThatIsCancelledBeforeItsInputIsReadDoesNotRun(t *testing.T) {
	c, err := sealing.New(sealing.Options{Store: true, Compress: true})
	if err != nil {
		t.Fatal(err)
	}
	input, _ := c.SealStored(sealing.ByClient, history.Payload{Type: history.TypeJSON, Data: []byte(strings.Repeat("0", 1<<20))})
	synctest.Test(t, func(t *testing.T) {
		w := &Worker{tasks: newTaskSet(), cfg: Config{Codec: (*pawlcodec.Codec)(c)}}
		w.handler = func(context.Context, *Call, history.Payload) (history.Payload, *history.Failure) {
			t.Error("the activity has run")
			return history.Payload{}, nil
		}
		if !w.tasks.large.TryAcquire(largeInputs - 512<<10) {
			t.Fatal("no memory is available")
		}
		task := &task{w: w}
		task.task.Payload = input
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan *history.Failure, 1)
		go func() {
			_, failure := task.handle(ctx)
			ended <- failure
		}()
		synctest.Wait() // until the task waits for memory
		if len(ended) > 0 {
			t.Error("the task has not waited")
		}
		cancel()
		if failure := <-ended; failure == nil {
			t.Error("the task has not failed")
		}
		if !w.tasks.large.TryAcquire(512 << 10) {
			t.Error("the task has reserved memory")
		}
	})
}
