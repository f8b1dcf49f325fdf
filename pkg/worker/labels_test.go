package worker

import (
	"context"
	"runtime/pprof"
	"strings"
	"testing"
)

func TestProfileLabelsIdentifyActivities(t *testing.T) {
	started, release, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ctx := withLabels(context.Background(), "charge-card", `order-"42"`, "w-1")
		if v, ok := pprof.Label(ctx, "activity"); !ok || v != "charge-card" {
			t.Errorf("the context has the label %q", v)
		}
		go func() {
			close(started)
			<-release
		}()
		<-release
	}()
	<-started
	stack := stacksOf([]*task{{token: "w-1"}})["w-1"]
	if !strings.Contains(stack, "TestProfileLabelsIdentifyActivities") || strings.Count(stack, "goroutine(s) at") != 2 {
		t.Errorf("found %q", stack)
	}
	if got := stacksOf([]*task{{token: "w-2"}})["w-2"]; !strings.HasPrefix(got, "not found") {
		t.Errorf("found %q", got)
	}
	close(release)
	<-ended
}

// BenchmarkLabels measures the cost of the labels of one activity.
func BenchmarkLabels(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		withLabels(context.Background(), "charge-card", "order-42", "k4f7c2mzq8x1w0ab-1z")
	}
	clearLabels()
}
