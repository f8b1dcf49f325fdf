package worker

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
)

// Profiler labels of an activity's goroutines. Goroutines that it starts have the same.
const (
	labelActivity = "activity"
	labelInstance = "instance"
	labelTask     = "task" // unique: one run of one activity
)

const (
	maxStack  = 8 << 10 // bytes of the stacks of one activity in a log line
	notFound  = "not found: the activity may have set profiler labels of its own"
	ownFrames = "pkg/worker.(*task).run" // in the worker's goroutine, which waits for the activity's
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
	var buf bytes.Buffer
	found := make(map[string]string, len(tasks))
	for _, t := range tasks {
		found[t.token] = notFound
	}
	if err := pprof.Lookup("goroutine").WriteTo(&buf, 1); err != nil {
		return found
	}
	for group := range strings.SplitSeq(buf.String(), "\n\n") {
		token := labelOf(group)
		was, wanted := found[token]
		if !wanted || strings.Contains(group, ownFrames) {
			continue
		}
		if was == notFound {
			was = ""
		}
		if len(was) < maxStack {
			found[token] = was + frames(group)
		}
	}
	return found
}

// labelOf returns the task's label of a group of goroutines in the profile:
//
//	1 @ 0x43e5c6 0x46b2f1
//	# labels: {"activity":"charge-card", "instance":"order-42", "task":"w-1"}
//	#	0x46b2f0	main.f+0x30	/src/main.go:12
func labelOf(group string) string {
	_, rest, ok := strings.Cut(group, "\n# labels: {")
	if !ok {
		return ""
	}
	_, rest, ok = strings.Cut(rest, fmt.Sprintf("%q:\"", labelTask))
	if !ok {
		return ""
	}
	token, _, _ := strings.Cut(rest, `"`)
	return token
}

// frames returns the calls of a group, innermost first, one per line.
func frames(group string) string {
	var b strings.Builder
	count, _, _ := strings.Cut(group, " @")
	fmt.Fprintf(&b, "%s goroutine(s) at\n", strings.TrimSpace(count))
	for line := range strings.SplitSeq(group, "\n") {
		f := strings.Fields(line)
		if len(f) < 4 || f[0] != "#" || !strings.HasPrefix(f[1], "0x") || b.Len() > maxStack {
			continue
		}
		call, _, _ := strings.Cut(f[2], "+0x")
		fmt.Fprintf(&b, "  %s %s\n", call, f[3])
	}
	return b.String()
}
