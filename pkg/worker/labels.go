package worker

import (
	"context"
	"runtime/pprof"

	"github.com/pawlrun/pawl/internal/stacks"
)

// Profiler labels of an activity's goroutine. Goroutines that it starts have the same labels.
const (
	labelActivity = "activity"
	labelInstance = "instance"
	labelTask     = "task" // unique per run of an activity
)

// withLabels sets the labels on the calling goroutine and in the returned context.
func withLabels(ctx context.Context, activity, instance, task string) context.Context {
	ctx = pprof.WithLabels(ctx, pprof.Labels(labelActivity, activity, labelInstance, instance, labelTask, task))
	pprof.SetGoroutineLabels(ctx)
	return ctx
}

// clearLabels removes the labels from the calling goroutine: goroutines that it starts after the activity has returned belong to the
// worker.
func clearLabels() { pprof.SetGoroutineLabels(context.Background()) }

// stacksOf returns the stacks of the activities' goroutines and of the goroutines that they started, keyed by the token of the task.
func stacksOf(tasks []*task) map[string]string {
	found := stacks.ByLabel(labelTask, "pkg/worker.(*task).run") // excludes the worker's goroutine, which waits for that of the activity
	for _, t := range tasks {
		if found[t.token] == "" {
			found[t.token] = "not found: the activity may have set profiler labels of its own"
		}
	}
	return found
}
