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
)

const (
	startPatience = time.Minute     // of programs that fx itself runs
	stopPatience  = 2 * time.Minute // fleets have their own, shorter bounds
)

// Run starts a program, waits until it is told to end (SIGINT, SIGTERM or an
// fx.Shutdowner), stops it, and gives the code for os.Exit: 0, or 1 if it could not be
// started or stopped; the error is logged, on one line. Starting takes as long as it
// needs, for a worker waits for its namespace; told to end meanwhile, also while the connections are made, it is given up. A
// second signal ends the process at once.
func Run(log *slog.Logger, opts ...fx.Option) int {
	u, untell := tellable()
	defer untell()
	app := New(log, append(slices.Clip(opts), fx.Supply(u))...)
	if err := app.Err(); err != nil {
		if end, ok := u.end(); ok {
			log.Info("stopping", "because", end.String())
			return end.ExitCode
		}
		log.Error("can not start", "error", dig.RootCause(err))
		return 1
	}
	shutdown := app.Wait()
	err := begin(app, u, shutdown)
	if err == nil {
		u.wait(shutdown)
	}
	defer impatience()()
	end, wasTold := u.end()
	if wasTold {
		log.Info("stopping", "because", end.String())
	}
	stopping, cancel := context.WithTimeout(context.Background(), stopPatience)
	defer cancel()
	stopErr := app.Stop(stopping)
	switch {
	case !wasTold:
		log.Error("can not start", "error", dig.RootCause(err))
		return 1
	case stopErr != nil:
		log.Error("stopped, but not in order", "error", stopErr)
		return 1
	}
	return end.ExitCode
}

// begin starts the program. If it is told to end meanwhile, the start is given up.
func begin(app *fx.App, u *untold, shutdown <-chan fx.ShutdownSignal) error {
	started := make(chan error, 1)
	go func() { started <- app.Start(context.Background()) }()
	select {
	case err := <-started:
		return err
	case said := <-shutdown:
		u.tell(said)
	case <-u.ctx.Done():
	}
	return <-started
}

// impatience ends the process at the next signal. What it gives takes that back.
func impatience() (stop func()) {
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

// New makes a program without running it: the options, the logger, and a metrics
// registry that has the process's own metrics already.
func New(log *slog.Logger, opts ...fx.Option) *fx.App {
	return fx.New(
		fx.Supply(log),
		fx.Provide(newRegistry, newContext),
		fx.WithLogger(func() fxevent.Logger { return quiet{log} }),
		fx.StartTimeout(startPatience),
		fx.StopTimeout(stopPatience),
		fx.Options(opts...),
	)
}

func newContext(p struct {
	fx.In

	Untold *untold `optional:"true"`
},
) context.Context {
	return p.Untold.context()
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

// quiet logs what fx does at debug level: errors are returned, and logged by Run.
type quiet struct{ log *slog.Logger }

// LogEvent is what fx calls.
func (q quiet) LogEvent(e fxevent.Event) {
	if !q.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	l := fxevent.SlogLogger{Logger: q.log}
	l.UseLogLevel(slog.LevelDebug)
	l.UseErrorLevel(slog.LevelDebug)
	l.LogEvent(e)
}
