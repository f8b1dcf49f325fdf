// Package generic is generic.
package generic

import (
	"time"

	"github.com/pawlrun/pawl"
)

type box[T any] struct{ v T }

func (b *box[T]) stamp() time.Time { return time.Now() } // want stamp:`reaches time\.Now`

func (b *box[T]) value() T { return b.v }

func stamped[T any](v T) (T, time.Time) { // want stamped:`reaches generic\.box\.stamp → time\.Now`
	b := box[T]{v}
	return b.value(), b.stamp()
}

// twice makes an orchestration of any activity.
func twice[In any](a pawl.Activity[In, In]) pawl.Binding {
	return pawl.NewOrchestration[In, In]("twice").Do(func(ctx *pawl.Context, in In) (In, error) {
		in, _ = stamped(in)     // want `generic\.stamped reaches time\.Now \(generic\.go:12\) via generic\.box\.stamp`
		in, _ = stamped[In](in) // want `generic\.stamped reaches time\.Now`
		b := &box[In]{in}
		_ = b.stamp() // want `generic\.box\.stamp reaches time\.Now`
		return a.Call(ctx, b.value())
	})
}

// flow is an orchestration bound by its method.
type flow[T any] struct{ step pawl.Activity[T, T] }

func (f flow[T]) run(ctx *pawl.Context, in T) (T, error) {
	time.Sleep(1) // want `time\.Sleep `
	return f.step.Call(ctx, in)
}

var _ = []pawl.Binding{
	twice(pawl.NewActivity[int, int]("n")),
	pawl.NewOrchestration[string, string]("flow").Do(flow[string]{}.run),
}
