// Package fleet is the two fleet programs, as the fleet binaries run them and as the
// command line runs them in child processes. Its code is what a user's own fleet is
// made of, with another registry.
package fleet

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"go.uber.org/fx"

	"github.com/pawlrun/pawl/examples"
	"github.com/pawlrun/pawl/internal/external"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/telemetry"
	"github.com/pawlrun/pawl/pawlfx"
	"github.com/pawlrun/pawl/pawlotel"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// Orchestrator is the settings of the orchestrator program.
type Orchestrator struct {
	settings.Fleet
	settings.Orchestrator

	TraceCore string `name:"trace-core" env:"PAWL_TRACE_CORE" placeholder:"FILE" help:"Write every message of a partition and its effects to a file; for development."`

	Replay []string `name:"replay" type:"existingfile" sep:"none" placeholder:"FILE" help:"Check that the code fits the history in a file that \"pawl export\" wrote, and exit with 0 or 1. Repeatable."`

	UI bool `name:"ui" env:"PAWL_UI" help:"Serve the console; at 127.0.0.1:7295 unless --http has another address."`
}

// DefaultUI is where a console is served unless an address is given.
const DefaultUI = "127.0.0.1:7295"

// HTTPFlag is the setting of the address, in errors.
const HTTPFlag = "--http (PAWL_HTTP)"

// Run runs the program until a signal, and gives its exit code. opts are added to it.
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
			_, _ = fmt.Fprintln(errw, err)
			return settings.ExitUsage
		}
		defer func() { _ = f.Close() }()
		cfg.Trace = f
	}
	log := o.Log.Open(errw)
	codec, err := o.Codec(log)
	if err != nil {
		_, _ = fmt.Fprintln(errw, err)
		return settings.ExitUsage
	}
	traces, err := telemetry.Open(context.Background(), "pawl-orchestrator", log)
	if err == nil {
		cfg.Tracer, err = pawlotel.NewTracer(traces)
	}
	if err != nil {
		_, _ = fmt.Fprintln(errw, err)
		return settings.ExitUsage
	}
	defer traces.Close()
	return pawlfx.Run(log,
		connections(o.Fleet),
		pawlfx.Payloads(codec),
		pawlfx.Orchestrator(cfg),
		HTTP(o.HTTP, o.HTTPAccess),
		pawlfx.Profiles(o.Pprof),
		fx.Options(opts...),
	)
}

// replay checks the code against exported histories.
func (o Orchestrator) replay(errw io.Writer, opts []fx.Option) int {
	codec, err := o.Codec(o.Log.Open(errw))
	if err != nil {
		_, _ = fmt.Fprintln(errw, err)
		return settings.ExitUsage
	}
	return pawlfx.Replay(errw, o.Replay, append(opts, pawlfx.Payloads(codec))...)
}

// Config is what the settings say, without connections.
func (o Orchestrator) Config() orchestrator.Config {
	return orchestrator.Config{
		Namespace: o.Namespace.Namespace, Partitions: o.Partitions, Replicas: o.Replicas, InputsMaxBytes: int64(o.InputsMax), ObjectsMaxBytes: int64(o.ObjectsMax), ReconcileInterval: o.Reconcile,
		Retention: orchestrator.Retention(o.Retention), FailDiverged: o.FailDiverged, ReplyPrefixes: o.Replies,
		Limits: replay.Limits{Depth: o.MaxDepth},
	}
}

// External has the activities of a worker that are programs and HTTP endpoints.
type External struct {
	Exec       []string `name:"exec" sep:"none" placeholder:"NAME=COMMAND" help:"Activity that runs a program: the input is its standard input, the result its standard output, in JSON. Repeatable."`
	Post       []string `name:"post" sep:"none" placeholder:"NAME=URL" help:"Activity that POSTs the input, in JSON, and whose result is the response. Repeatable."`
	Private    bool     `name:"post-private" help:"Let --post connect to loopback, private and link-local addresses."`
	Activities string   `name:"activities" env:"PAWL_ACTIVITIES" type:"existingfile" placeholder:"FILE" help:"YAML file of such activities with their queues, concurrency, timeouts and retries."`
}

// Read returns the activities of the flags and of the file.
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

// AfterApply rejects activities that are wrong.
func (e External) AfterApply() error {
	c, err := e.Read()
	if err == nil {
		_, err = c.Bindings(slog.New(slog.DiscardHandler))
	}
	return err
}

// Worker is the settings of the worker program.
type Worker struct {
	settings.Fleet
	settings.Worker
	External

	Name string `name:"name" env:"PAWL_NAME" placeholder:"NAME" help:"Name of the worker, unique in the namespace. Made up if not given."`
}

// Run runs the program until a signal, and gives its exit code. opts are added to it.
func (w Worker) Run(errw io.Writer, opts ...fx.Option) int {
	settings.RelaxGC()
	c, err := w.External.Read()
	if err != nil {
		_, _ = fmt.Fprintln(errw, err)
		return settings.ExitUsage
	}
	if !w.Examples && len(c.Activities) == 0 {
		_, _ = fmt.Fprintln(errw, "no activities are registered in this binary: give it some with --exec, --post or --activities, start it with --examples, "+
			"or build your own, which is a few lines: worker.New(cfg, Charge.Do(svc.charge)) (see the README)")
		return settings.ExitUsage
	}
	log := w.Log.Open(errw)
	if w.Examples {
		opts = append(opts, pawlfx.Activities(examples.Activities))
	}
	cfg := w.Config()
	cfg.QueueConcurrency = c.Concurrency()
	codec, err := w.Codec(log)
	if err != nil {
		_, _ = fmt.Fprintln(errw, err)
		return settings.ExitUsage
	}
	traces, err := telemetry.Open(context.Background(), "pawl-worker", log)
	if err != nil {
		_, _ = fmt.Fprintln(errw, err)
		return settings.ExitUsage
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
		pawlfx.Profiles(w.Pprof),
		fx.Options(opts...),
	)
}

// Config is what the settings say, without connections.
func (w Worker) Config() worker.Config {
	return worker.Config{
		Namespace: w.Namespace.Namespace, Name: w.Name, LeaseTTL: w.LeaseTTL, Concurrency: w.Concurrency, Drain: w.Drain,
		Grace: w.Grace, MaxAbandoned: w.MaxAbandoned, ReplyPrefixes: w.Replies,
	}
}

// HTTP serves at an address as the settings say; an empty one is nowhere.
func HTTP(addr string, a settings.HTTPAccess) fx.Option {
	return pawlfx.HTTP(addr, pawlfx.HTTPSetting(HTTPFlag), pawlfx.HTTPTokens(a.Tokens), pawlfx.HTTPOIDC(a.OIDCIssuer, a.OIDCAudience, a.OIDCRoles),
		pawlfx.HTTPSignIn(a.OIDCClient, a.OIDCSecret),
		pawlfx.HTTPTriggers(a.Triggers))
}

func connections(f settings.Fleet) fx.Option { return pawlfx.Connections(f.DialNATS, f.DialRedis) }
