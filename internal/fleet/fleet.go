// Package fleet implements the orchestrator and the worker program. The fleet binaries run them, and the command line
// runs them in child processes. A user's own fleet consists of the same code, with other registrations.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"go.uber.org/fx"

	"github.com/pawlrun/pawl/examples"
	"github.com/pawlrun/pawl/internal/external"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/telemetry"
	"github.com/pawlrun/pawl/pawlfx"
	"github.com/pawlrun/pawl/pawlotel"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// Orchestrator holds the settings of the orchestrator program.
type Orchestrator struct {
	settings.Fleet
	settings.Orchestrator

	TraceCore string `name:"trace-core" env:"PAWL_TRACE_CORE" placeholder:"FILE" help:"Write every message of a partition and its effects to a file; for development."`

	Replay []string `name:"replay" type:"existingfile" sep:"none" placeholder:"FILE" help:"Check that the code fits the history in a file that \"pawl export\" wrote, and exit with 0 or 1. Repeatable."`

	UI bool `name:"ui" env:"PAWL_UI" help:"Serve the console; at 127.0.0.1:7295 unless --http has another address."`
}

// DefaultUI is the address of the console unless --http sets another one.
const DefaultUI = "127.0.0.1:7295"

// HTTPFlag names the setting of the HTTP address in errors.
const HTTPFlag = "--http (PAWL_HTTP)"

// usage reports an error of the settings, and returns the exit code for it.
func usage(errw io.Writer, err error) int {
	_, _ = fmt.Fprintln(errw, err)
	return settings.ExitUsage
}

// Run runs the program, with additional options, until a signal, and returns its exit code.
func (o Orchestrator) Run(errw io.Writer, opts ...fx.Option) int {
	settings.RelaxGC()
	if o.Examples {
		opts = append(opts, pawlfx.Orchestrations(examples.Orchestrations))
	}
	if len(o.Replay) > 0 {
		return o.replay(errw, opts)
	}
	if o.UI && o.HTTP == "" {
		o.HTTP = DefaultUI
	}
	cfg := o.Config()
	if o.TraceCore != "" {
		f, err := os.Create(o.TraceCore)
		if err != nil {
			return usage(errw, err)
		}
		defer func() { _ = f.Close() }()
		cfg.Trace = f
	}
	log := o.Log.Open(errw)
	codec, err := o.Codec(log)
	if err != nil {
		return usage(errw, err)
	}
	traces, err := telemetry.Open(context.Background(), "pawl-orchestrator", log)
	if err == nil {
		cfg.Tracer, err = pawlotel.NewTracer(traces)
	}
	if err != nil {
		return usage(errw, err)
	}
	defer traces.Close()
	return pawlfx.Run(log,
		connections(o.Fleet),
		pawlfx.Payloads(codec),
		pawlfx.Orchestrator(cfg),
		HTTP(o.HTTP, o.HTTPAccess),
		pawlfx.Profiles(o.Pprof, pawlfx.ProfilesSetting("--pprof (PAWL_PPROF)")),
		fx.Options(opts...),
	)
}

// replay checks the code against exported histories.
func (o Orchestrator) replay(errw io.Writer, opts []fx.Option) int {
	codec, err := o.Codec(o.Log.Open(errw))
	if err != nil {
		return usage(errw, err)
	}
	return pawlfx.Replay(errw, o.Replay, append(opts, pawlfx.Payloads(codec))...)
}

// Config returns the configuration of an orchestrator, without connections.
func (o Orchestrator) Config() orchestrator.Config {
	return orchestrator.Config{
		Namespace: o.Namespace.Namespace, Partitions: o.Partitions, Replicas: o.Replicas, InputsMaxBytes: int64(o.InputsMax), ObjectsMaxBytes: int64(o.ObjectsMax), ReconcileInterval: o.Reconcile,
		Retention: orchestrator.Retention(o.Retention), FailDiverged: o.FailDiverged, ReplyPrefixes: o.Replies,
		Limits: orchestrator.Limits{Depth: o.MaxDepth},
	}
}

// External holds the settings of activities that are programs or HTTP endpoints.
type External struct {
	Exec       []string `name:"exec" sep:"none" placeholder:"NAME=COMMAND" help:"Activity that runs a program: the input is its standard input, the result its standard output, in JSON. Repeatable."`
	Post       []string `name:"post" sep:"none" placeholder:"NAME=URL" help:"Activity that POSTs the input, in JSON, and whose result is the response. Repeatable."`
	Private    bool     `name:"post-private" help:"Let --post connect to loopback, private and link-local addresses."`
	Activities string   `name:"activities" env:"PAWL_ACTIVITIES" type:"existingfile" placeholder:"FILE" help:"YAML file of such activities with their queues, concurrency, timeouts and retries."`
}

// Read returns the activities from the flags and the file.
func (e External) Read() (c external.Config, err error) {
	if e.Activities != "" {
		if c, err = external.Read(e.Activities); err != nil {
			return c, fmt.Errorf("--activities: %w", err)
		}
	}
	for _, arg := range e.Exec {
		if err := c.AddExec(arg); err != nil {
			return c, fmt.Errorf("--exec %w", err)
		}
	}
	for _, arg := range e.Post {
		if err := c.AddHTTP(arg, e.Private); err != nil {
			return c, fmt.Errorf("--post %w", err)
		}
	}
	return c, nil
}

// AfterApply rejects invalid activities.
func (e External) AfterApply() error {
	c, err := e.Read()
	if err == nil {
		_, err = c.Bindings(slog.New(slog.DiscardHandler))
	}
	return err
}

// Worker holds the settings of the worker program.
type Worker struct {
	settings.Fleet
	settings.Worker
	External

	Name string `name:"name" env:"PAWL_NAME" placeholder:"NAME" help:"Name of the worker, unique in the namespace. Made up if not given."`
}

// Run runs the program, with additional options, until a signal, and returns its exit code.
func (w Worker) Run(errw io.Writer, opts ...fx.Option) int {
	settings.RelaxGC()
	c, err := w.External.Read()
	if err == nil && !w.Examples && len(c.Activities) == 0 {
		err = errors.New("no activities are registered in this binary: give it some with --exec, --post or --activities, start it with --examples, " +
			"or build your own, which is a few lines: worker.New(cfg, Charge.Do(svc.charge)) (see the README)")
	}
	if err != nil {
		return usage(errw, err)
	}
	log := w.Log.Open(errw)
	if w.Examples {
		opts = append(opts, pawlfx.Activities(examples.Activities))
	}
	cfg := w.Config()
	cfg.QueueConcurrency = c.Concurrency()
	codec, err := w.Codec(log)
	if err != nil {
		return usage(errw, err)
	}
	traces, err := telemetry.Open(context.Background(), "pawl-worker", log)
	if err != nil {
		return usage(errw, err)
	}
	defer traces.Close()
	if traces.Enabled() {
		cfg.Interceptors = []worker.Interceptor{pawlotel.WorkerInterceptor(traces)}
		log = slog.New(pawlotel.LogHandler(log.Handler()))
	}
	return pawlfx.Run(log,
		connections(w.Fleet),
		pawlfx.Payloads(codec),
		pawlfx.Activities(c.Bindings),
		pawlfx.Worker(cfg),
		HTTP(w.HTTP, w.HTTPAccess),
		pawlfx.Profiles(w.Pprof, pawlfx.ProfilesSetting("--pprof (PAWL_PPROF)")),
		fx.Options(opts...),
	)
}

// Config returns the configuration of a worker, without connections.
func (w Worker) Config() worker.Config {
	return worker.Config{
		Namespace: w.Namespace.Namespace, Name: w.Name, LeaseTTL: w.LeaseTTL, Concurrency: w.Concurrency, Drain: w.Drain,
		Grace: w.Grace, MaxAbandoned: w.MaxAbandoned, ReplyPrefixes: w.Replies,
	}
}

// HTTP serves HTTP at an address, with these access settings. With an empty address it serves nothing.
func HTTP(addr string, a settings.HTTPAccess) fx.Option {
	return pawlfx.HTTP(addr, pawlfx.HTTPSetting(HTTPFlag), pawlfx.HTTPTokens(a.Tokens), pawlfx.HTTPOIDC(a.OIDCIssuer, a.OIDCAudience, a.OIDCRoles),
		pawlfx.HTTPSignIn(a.OIDCClient, a.OIDCSecret),
		pawlfx.HTTPTriggers(a.Triggers))
}

func connections(f settings.Fleet) fx.Option { return pawlfx.Connections(f.DialNATS, f.DialRedis) }
