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
// The grace period begins when the activity's context is done, for any reason: the activity was cancelled, its lease was lost, or the
// worker is stopping (which shortens the period to the time that Stop has left). An activity that has not returned by the end of the
// period is abandoned:
//
//	running ──context done──▶ grace period ──returns──▶ stopped
//	                               │
//	                               └─expired─▶ abandoned ──returns──▶ removed
//
// The worker frees the slot of an abandoned activity and drops its result. Go cannot end a goroutine from outside, so the goroutine uses
// memory until it returns. The worker logs its stack, counts it, and becomes unready if there are too many. With a period of zero or
// less, the activity is abandoned as soon as its context is done.
func (b ActivityBinding) WithGrace(d time.Duration) ActivityBinding {
	a := author.ActivityOf(b)
	d = max(d, 0)
	a.Grace = &d
	return ActivityBinding{author.BindActivity(a)}
}

// GraceExpired returns a channel that is closed when the grace period of the activity has expired and its worker no longer waits. That is
// the last moment to release what would outlive the activity, such as a program that it has started. The channel is nil if ctx is not the
// context of an activity.
func GraceExpired(ctx context.Context) <-chan struct{} { return author.GraceExpired(ctx) }
