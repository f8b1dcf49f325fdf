package pawlfx

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"go.uber.org/fx"
)

// termination is the end of the program by a signal or through fx. fx abandons a start whose context ends, and stops what it had
// started while that start still runs; so the termination ends the starts of the fleets, and fx waits for them.
type termination struct {
	ctx     context.Context //nolint:containedctx // of the whole program; its cause is a terminated
	trigger func(fx.ShutdownSignal)
}

// context returns a context that ends when the program has to stop; never, if Run does not run it.
func (t *termination) context() context.Context {
	if t == nil {
		return context.Background()
	}
	return t.ctx
}

// cancels returns a start that ends with an error when the program has to stop.
func (t *termination) cancels(start func(context.Context) error) func(context.Context) error {
	if t == nil {
		return start
	}
	return func(ctx context.Context) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		defer context.AfterFunc(t.ctx, stop)()
		return start(ctx)
	}
}

// terminated is the cause of the context of a termination.
type terminated struct{ fx.ShutdownSignal }

// Error names the signal.
func (t terminated) Error() string { return "terminated: " + t.String() }

// newTermination returns a termination by the next signal: fx handles signals only when it starts the program, which is after the
// connections are made. stop joins its goroutine.
func newTermination() (t *termination, stop func()) {
	ctx, end := context.WithCancelCause(context.Background())
	t = &termination{ctx: ctx, trigger: func(s fx.ShutdownSignal) { end(terminated{s}) }}
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case s := <-signals:
			t.trigger(fx.ShutdownSignal{Signal: s})
		case <-done:
		}
	})
	return t, func() {
		signal.Stop(signals)
		close(done)
		wg.Wait()
		end(nil)
	}
}

// signal returns the signal that ended the program; ok is false if there was none.
func (t *termination) signal() (s fx.ShutdownSignal, ok bool) {
	c, ok := errors.AsType[terminated](context.Cause(t.ctx))
	return c.ShutdownSignal, ok
}

// wait waits until the program has to stop, by a signal or through fx.
func (t *termination) wait(shutdown <-chan fx.ShutdownSignal) {
	select {
	case s := <-shutdown:
		t.trigger(s)
	case <-t.ctx.Done():
	}
}
