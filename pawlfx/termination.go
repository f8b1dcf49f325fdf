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

// termination ends the program after a signal or a shutdown through fx. When the context of a start ends, fx abandons the start, and stops the
// other components while it is still running. To avoid that, the termination cancels only the starts of the orchestrator and the worker, and
// fx waits for them.
type termination struct {
	ctx     context.Context //nolint:containedctx // lifetime of the program; its cause is a terminated
	trigger func(fx.ShutdownSignal)
}

// context returns a context that ends when the program has to stop, or never if the program is not run by Run.
func (t *termination) context() context.Context {
	if t == nil {
		return context.Background()
	}
	return t.ctx
}

// cancels returns a start function whose context also ends when the program has to stop.
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

// newTermination returns a termination that is triggered by the next signal. fx itself handles signals only from the start of the program,
// which begins after the connections are opened. stop waits for the goroutine.
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

// signal returns the signal that terminated the program. ok is false if there was none.
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
