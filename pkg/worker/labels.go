package worker

import (
	"context"
	"runtime/pprof"

	"github.com/pawlrun/pawl/internal/stacks"
)

// Profiler labels of an activity's goroutines. Goroutines that it starts have the same.
const (
	labelActivity = "activity"
	labelInstance = "instance"
	labelTask     = "task" // unique: one run of one activity
)

// withLabels sets the labels of this goroutine and of the returned context.
func withLabels(ctx context.Context, activity, instance, task string) context.Context {
	ctx = pprof.WithLabels(ctx, pprof.Labels(labelActivity, activity, labelInstance, instance, labelTask, task))
	pprof.SetGoroutineLabels(ctx)
	return ctx
}

// clearLabels removes the labels of this goroutine: goroutines that are started after the activity are the worker's.
func clearLabels() { pprof.SetGoroutineLabels(context.Background()) }

// stacksOf returns, by token, the stacks of the activities' goroutines, including those that they have started.
func stacksOf(tasks []*task) map[string]string {
	found := stacks.ByLabel(labelTask, "pkg/worker.(*task).run") // without the worker's goroutine, which waits for the activity's
	for _, t := range tasks {
		if found[t.token] == "" {
			found[t.token] = "not found: the activity may have set profiler labels of its own"
		}
	}
	return found
}
