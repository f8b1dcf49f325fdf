package pawl

import (
	"context"
	"time"

	"github.com/pawlrun/pawl/internal/author"
)

// DefaultGrace is the default grace period of an activity.
const DefaultGrace = 10 * time.Second

// WithGrace sets the grace period of the activity. It overrides worker.Config.Grace:
//
//	worker.New(cfg, Encode.Do(svc.encode).WithGrace(time.Minute))
//
// The grace period begins when the context is done, for any reason: the activity was cancelled, its lease was lost, or the worker
// stops (which shortens the period to the time that the worker's Stop has left). An activity that has not returned at its end is
// abandoned:
//
//	running ──context done──▶ grace period ──returns──▶ stopped
//	                               │
//	                               └─expired─▶ abandoned ──returns──▶ removed
//
// The worker frees the slot of an abandoned activity and drops its result. Go cannot end a goroutine from outside, so it uses memory
// until it returns: the worker logs its stack, counts it, and is unready if there are too many. With a period of zero or less
// the activity is abandoned as soon as its context is done.
func (b ActivityBinding) WithGrace(d time.Duration) ActivityBinding {
	a := author.ActivityOf(b)
	d = max(d, 0)
	a.Grace = &d
	return ActivityBinding{author.BindActivity(a)}
}

// GraceExpired returns a channel that is closed when the grace period of the activity has expired and its worker no longer waits:
// the last moment to release what would outlive the activity, such as a program that it has started. It is nil in a context that is
// not an activity's.
func GraceExpired(ctx context.Context) <-chan struct{} { return author.GraceExpired(ctx) }
