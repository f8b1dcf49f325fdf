// Package fleet is the two fleet programs, as the fleet binaries run them and as the
// command line runs them in child processes. Its code is what a user's own fleet is
// made of, with another registry.
package fleet

import (
	"fmt"
	"io"
	"os"

	"go.uber.org/fx"

	"github.com/pawlrun/pawl/examples"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/pawlfx"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// Orchestrator is the settings of the orchestrator program.
type Orchestrator struct {
	settings.Fleet
	settings.Orchestrator

	TraceCore string `name:"trace-core" env:"PAWL_TRACE_CORE" placeholder:"FILE" help:"Write every message of a partition and its effects to a file; for development."`

	UI bool `name:"ui" env:"PAWL_UI" help:"Serve the console; at 127.0.0.1:7295 unless --http has another address."`
}

// DefaultUI is where a console is served unless an address is given.
const DefaultUI = "127.0.0.1:7295"

// HTTPFlag is the setting of the address, in errors.
const HTTPFlag = "--http (PAWL_HTTP)"

// Run runs the program until a signal, and gives its exit code. opts are added to it.
func (o Orchestrator) Run(errw io.Writer, opts ...fx.Option) int {
	if !o.Examples {
		return empty(errw, "orchestrations", "orchestrator.New(cfg, Fulfil.Do(fulfil))")
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
	return pawlfx.Run(o.Log.Open(errw),
		connections(o.Fleet),
		pawlfx.Orchestrations(examples.Orchestrations),
		pawlfx.Orchestrator(cfg),
		HTTP(o.HTTP, o.HTTPAccess),
		fx.Options(opts...),
	)
}

// Config is what the settings say, without connections.
func (o Orchestrator) Config() orchestrator.Config {
	return orchestrator.Config{
		Namespace: o.Namespace.Namespace, Partitions: o.Partitions, Replicas: o.Replicas, InputsMaxBytes: int64(o.InputsMax), Look: o.Reconcile,
		Retention: orchestrator.Retention(o.Retention), FailDiverged: o.FailDiverged, ReplyPrefixes: o.Replies,
		Limits: replay.Limits{Depth: o.MaxDepth},
	}
}

// Worker is the settings of the worker program.
type Worker struct {
	settings.Fleet
	settings.Worker

	Name string `name:"name" env:"PAWL_NAME" placeholder:"NAME" help:"Name of the worker, unique in the namespace. Made up if not given."`
}

// Run runs the program until a signal, and gives its exit code. opts are added to it.
func (w Worker) Run(errw io.Writer, opts ...fx.Option) int {
	if !w.Examples {
		return empty(errw, "activities", "worker.New(cfg, Charge.Do(svc.charge))")
	}
	return pawlfx.Run(w.Log.Open(errw),
		connections(w.Fleet),
		pawlfx.Activities(examples.Activities),
		pawlfx.Worker(w.Config()),
		HTTP(w.HTTP, w.HTTPAccess),
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
		pawlfx.HTTPTriggers(a.Triggers))
}

func connections(f settings.Fleet) fx.Option { return pawlfx.Connections(f.DialNATS, f.DialRedis) }

func empty(w io.Writer, what, how string) int {
	_, _ = fmt.Fprintf(w, "no %s are registered in this binary: start it with --examples, or build your own, which is a few lines: %s (see the README)\n", what, how)
	return settings.ExitUsage
}
