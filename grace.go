package pawl

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/pkg/history"
)

// DefaultGrace is how long an activity may clean up, unless its binding or its worker
// says otherwise.
const DefaultGrace = 10 * time.Second

// WithGrace gives the activity d to clean up, instead of what its worker gives all of them
// (DefaultGrace, unless the worker's Config says otherwise):
//
//	worker.New(cfg, Encode.Do(svc.encode).WithGrace(time.Minute))
//
// The grace counts from the moment the context is done, for whichever reason: the activity
// was cancelled, its lease was lost, or the worker stops (then it is shortened to what the
// worker's Stop has time for). An activity that has not returned when it is over is
// abandoned:
//
//	runs ──context done──▶ cleans up ──returns──▶ stopped
//	                           │
//	                           └─grace over─▶ abandoned ──returns after all──▶ forgotten
//
// Its place in the worker is free then, whatever it does, and what it returns is dropped.
// Go can not end a goroutine from outside, so it costs memory, and whatever it does, until
// it returns: the worker logs its stack, counts it, and is not ready any more if there are
// too many. Zero or less: it is abandoned at once.
func (b ActivityBinding) WithGrace(d time.Duration) ActivityBinding {
	d = max(d, 0)
	run := b.run
	b.run = func(ctx context.Context, in history.Payload) (history.Payload, error) {
		if l := leashOf(ctx); l != nil {
			l.grace.Store(int64(d))
			info := Info(ctx)
			info.Grace = d
			ctx = WithInfo(ctx, info)
		}
		return run(ctx, in)
	}
	return b
}

// GraceOver is closed when the activity's grace is over and its worker no longer waits for
// it: the last moment to let go of what would outlive the activity, such as a program that
// it has started. In a context that is not an activity's it is nil, and so never ready.
func GraceOver(ctx context.Context) <-chan struct{} {
	if l := leashOf(ctx); l != nil {
		return l.over
	}
	return nil
}

// Leash is what a running activity and its worker know of one another's patience: how
// long the grace is, and that it is over. It is for Pawl's own packages, and for tests of an
// activity's function. Its methods are safe for concurrent use.
type Leash struct {
	grace atomic.Int64
	over  chan struct{}
	once  sync.Once
}

type leashKey struct{}

func leashOf(ctx context.Context) *Leash {
	l, _ := ctx.Value(leashKey{}).(*Leash)
	return l
}

// WithLeash gives a context for an activity that has the grace of its Info, unless its
// binding says otherwise.
func WithLeash(ctx context.Context) (context.Context, *Leash) {
	l := &Leash{over: make(chan struct{})}
	l.grace.Store(int64(Info(ctx).Grace))
	return context.WithValue(ctx, leashKey{}, l), l
}

// Grace is the activity's grace. Before the activity's function has begun it may still be the worker's own.
func (l *Leash) Grace() time.Duration { return time.Duration(l.grace.Load()) }

// Cut says that the grace is over. Cutting twice is harmless.
func (l *Leash) Cut() { l.once.Do(func() { close(l.over) }) }
