package pawlfx

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/dig"
	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"

	"github.com/pawlrun/pawl/pkg/queue"
)

const (
	startTimeout = time.Minute     // for programs that fx itself runs
	stopTimeout  = 2 * time.Minute // orchestrators and workers have shorter timeouts
)

// Run starts a program, waits until it has to stop (SIGINT, SIGTERM or an
// fx.Shutdowner), stops it, and returns the code for os.Exit: 0, or 1 if it could not be
// started or stopped, in which case the error is logged on one line. The start has no timeout, because
// a worker waits for its namespace. A signal ends it, even while it is connecting.
// A second signal ends the process at once.
func Run(log *slog.Logger, opts ...fx.Option) int {
	t, stopSignals := newTermination()
	defer stopSignals()
	app := New(log, append(slices.Clip(opts), fx.Supply(t))...)
	if err := app.Err(); err != nil {
		if end, ok := t.signal(); ok {
			log.Info("stopping", "reason", end.String())
			return end.ExitCode
		}
		log.Error("start failed", "error", dig.RootCause(err))
		return 1
	}
	shutdown := app.Wait()
	err := begin(app, t, shutdown)
	if err == nil {
		notifySystemd(log, systemdReady)
		t.wait(shutdown)
		notifySystemd(log, systemdStopping)
	}
	defer exitOnSignal()()
	end, signalled := t.signal()
	if signalled {
		log.Info("stopping", "reason", end.String())
	}
	stopping, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	stopErr := app.Stop(stopping)
	switch {
	case !signalled:
		log.Error("start failed", "error", dig.RootCause(err))
		return 1
	case stopErr != nil:
		log.Error("stopped with errors", "error", stopErr)
		return 1
	}
	return end.ExitCode
}

// begin starts the program. If the program has to stop meanwhile, the start ends with an error.
func begin(app *fx.App, t *termination, shutdown <-chan fx.ShutdownSignal) error {
	started := make(chan error, 1)
	go func() { started <- app.Start(context.Background()) }()
	select {
	case err := <-started:
		return err
	case s := <-shutdown:
		t.trigger(s)
	case <-t.ctx.Done():
	}
	return <-started
}

// exitOnSignal ends the process at the next signal, until stop is called.
func exitOnSignal() (stop func()) {
	again, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-again:
			os.Exit(1)
		case <-done:
		}
	})
	return func() {
		signal.Stop(again)
		close(done)
		wg.Wait()
	}
}

// New returns a program without running it. It contains the options, the logger, and a registry
// with the metrics of the process.
func New(log *slog.Logger, opts ...fx.Option) *fx.App {
	return fx.New(
		fx.Supply(log),
		fx.Provide(newRegistry, newContext, queue.NewLocal),
		fx.WithLogger(func() fxevent.Logger { return quiet{log} }),
		fx.StartTimeout(startTimeout),
		fx.StopTimeout(stopTimeout),
		fx.Options(opts...),
	)
}

func newContext(p struct {
	fx.In

	Termination *termination `optional:"true"`
},
) context.Context {
	return p.Termination.context()
}

func newRegistry() (*prometheus.Registry, prometheus.Registerer, prometheus.Gatherer, error) {
	r := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := r.Register(c); err != nil {
			return nil, nil, nil, err
		}
	}
	return r, r, r, nil
}

// quiet logs all events of fx at debug level. Errors are returned, and logged by Run.
type quiet struct{ log *slog.Logger }

// LogEvent implements fxevent.Logger.
func (q quiet) LogEvent(e fxevent.Event) {
	if !q.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	l := fxevent.SlogLogger{Logger: q.log}
	l.UseLogLevel(slog.LevelDebug)
	l.UseErrorLevel(slog.LevelDebug)
	l.LogEvent(e)
}
