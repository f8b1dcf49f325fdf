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

// untold lasts until the program is told to end. fx leaves a start behind whose context ends, and goes back what it had
// started when nobody waits for that any more; so it is the fleets that are told, and fx waits for them.
type untold struct {
	ctx  context.Context //nolint:containedctx // of the whole program; its cause is a told
	tell func(fx.ShutdownSignal)
}

// context is done when the program is told to end; never, if Run does not run it.
func (u *untold) context() context.Context {
	if u == nil {
		return context.Background()
	}
	return u.ctx
}

// heeding makes a start end, with an error, when the program is told to.
func (u *untold) heeding(start func(context.Context) error) func(context.Context) error {
	if u == nil {
		return start
	}
	return func(ctx context.Context) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		defer context.AfterFunc(u.ctx, stop)()
		return start(ctx)
	}
}

// told is the cause of the context of an untold that has been told to end.
type told struct{ fx.ShutdownSignal }

// Error names the signal.
func (t told) Error() string { return "told to end: " + t.String() }

// tellable gives an untold that the first signal from now on tells to end: fx takes signals only when it starts the program,
// which is after the connections are made. The function returned joins.
func tellable() (u *untold, stop func()) {
	ctx, end := context.WithCancelCause(context.Background())
	u = &untold{ctx: ctx, tell: func(s fx.ShutdownSignal) { end(told{s}) }}
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case s := <-signals:
			u.tell(fx.ShutdownSignal{Signal: s})
		case <-done:
		}
	})
	return u, func() {
		signal.Stop(signals)
		close(done)
		wg.Wait()
		end(nil)
	}
}

// end gives what has told the program to end; ok is false if nothing has.
func (u *untold) end() (s fx.ShutdownSignal, ok bool) {
	t, ok := errors.AsType[told](context.Cause(u.ctx))
	return t.ShutdownSignal, ok
}

// wait waits until the program is told to end, by a signal or through fx.
func (u *untold) wait(shutdown <-chan fx.ShutdownSignal) {
	select {
	case said := <-shutdown:
		u.tell(said)
	case <-u.ctx.Done():
	}
}
