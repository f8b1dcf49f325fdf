package outage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	firstPause   = 50 * time.Millisecond
	lastPause    = time.Second
	attemptLimit = 5 * time.Second
)

// Await repeats an attempt to use the dependency until it succeeds, until it fails with an error that is not transient, or
// until ctx ends, with backoff from 50 ms to 1 s. The timeout of each attempt is 5 s. A nil Reporter waits, but reports nothing.
//
// Errors: that of the attempt, or the cause of ctx joined with the latest transient error.
func (r *Reporter) Await(ctx context.Context, d Dependency, operation string, transient func(error) bool, attempt func(context.Context) error) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := within(ctx, attempt)
		switch {
		case err == nil:
			r.Succeeded(d)
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%s: %s: %w (last: %w)", d, operation, context.Cause(ctx), err)
		case !transient(err):
			return err
		}
		r.Failed(d, operation, err)
		if !Sleep(ctx, pause/2+rand.N(pause/2+1)) {
			return fmt.Errorf("%s: %s: %w (last: %w)", d, operation, context.Cause(ctx), err)
		}
	}
}

// Sleep waits for d. It returns false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func within(ctx context.Context, attempt func(context.Context) error) error {
	ctx, stop := context.WithTimeout(ctx, attemptLimit)
	defer stop()
	return attempt(ctx)
}
