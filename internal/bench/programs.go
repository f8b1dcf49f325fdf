package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/fx"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/examples"
	members "github.com/pawlrun/pawl/internal/fleet"
	"github.com/pawlrun/pawl/internal/process"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/telemetry"
	"github.com/pawlrun/pawl/internal/tracing"
	"github.com/pawlrun/pawl/pawlfx"
	"github.com/pawlrun/pawl/pawlotel"
	"github.com/pawlrun/pawl/pkg/worker"
)

// Programs are the hidden commands of the processes of a fleet. Each runs until its standard input ends.
type Programs struct {
	NATS   natsProgram   `cmd:"" name:"serve-bench-nats" hidden:"" help:"Run a NATS server until standard input ends."`
	Member memberProgram `cmd:"" name:"serve-bench" hidden:"" help:"Run an orchestrator or a worker until standard input ends."`
}

// unhintedUser is a NATS user that may not subscribe to hints.
// A worker with this user behaves as if all of its hints were lost; the worker itself is unchanged.
const unhintedUser = "unhinted"

// codeless is the role of an orchestrator without code, whose turns are decided by others.
const codeless = "codeless"

// natsProgram runs a NATS server with JetStream, alone or in a cluster.
type natsProgram struct {
	Dir     string   `required:"" help:"Directory of the store."`
	Port    int      `required:"" help:"TCP port on 127.0.0.1."`
	Name    string   `default:"nats" help:"Name of the server."`
	Cluster int      `help:"TCP port for the other servers of a cluster."`
	Routes  []string `help:"Addresses of all servers of the cluster."`
}

// Run runs the server.
func (c *natsProgram) Run(ctx context.Context) error {
	ctx, cancel := process.UntilStdinClosed(ctx)
	defer cancel()
	const anonymous = "anonymous"
	o := &server.Options{
		ServerName: c.Name, Host: "127.0.0.1", Port: c.Port, JetStream: true, StoreDir: filepath.Clean(c.Dir), NoSigs: true,
		NoAuthUser: anonymous,
		Users: []*server.User{{Username: anonymous}, {
			Username: unhintedUser, Password: unhintedUser,
			Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Deny: []string{"pawl.*.hint.>"}}},
		}},
	}
	if c.Cluster != 0 {
		o.NoAuthUser, o.Users = "", nil
		o.Cluster = server.ClusterOpts{Name: "pawl-bench", Host: "127.0.0.1", Port: c.Cluster}
		o.Routes = server.RoutesFromStr("nats://" + strings.Join(c.Routes, ",nats://"))
	}
	s, err := server.NewServer(o)
	if err != nil {
		return fmt.Errorf("nats-server: %w", err)
	}
	s.Start()
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

// memberProgram runs an orchestrator or a worker with the examples and the code of the benchmarks.
type memberProgram struct {
	settings.Fleet
	settings.Orchestrator
	settings.Worker

	Role string `arg:"" enum:"orchestrator,codeless,worker,both,floor" help:"Role of the process."`
	Name string `help:"Name of the worker."`

	TracesTo string `help:"URL of an OpenTelemetry collector, which receives a tenth of the traces."`

	traces *telemetry.Provider
	tracer tracing.Tracer
}

// Run runs the member.
func (c *memberProgram) Run(ctx context.Context) error {
	settings.RelaxGC()
	if c.Role == "floor" {
		return c.floorWorker(ctx)
	}
	log := c.Log.Open(os.Stderr)
	if err := c.openTraces(ctx, log); err != nil {
		return err
	}
	defer c.traces.Close()
	role := c.worker()
	switch c.Role {
	case "orchestrator", codeless:
		role = c.orchestrator()
	case "both": // with the cores of two processes
		runtime.GOMAXPROCS(2 * process.CPUShare())
		role = fx.Options(c.orchestrator(), role)
	}
	return settings.Exit(pawlfx.Run(log,
		pawlfx.Connections(c.DialNATS, c.DialRedis), role,
		fx.Invoke(func(program fx.Shutdowner) {
			process.OnStdinClosed(func() { _ = program.Shutdown() }) // fails only if the program is stopping already
		})))
}

// openTraces opens the provider with which the stock binaries export their traces.
func (c *memberProgram) openTraces(ctx context.Context, log *slog.Logger) (err error) {
	if c.TracesTo != "" {
		for name, value := range map[string]string{
			"OTEL_EXPORTER_OTLP_ENDPOINT": c.TracesTo, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
			"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1",
		} {
			if err := os.Setenv(name, value); err != nil {
				return err
			}
		}
	}
	if c.traces, err = telemetry.Open(ctx, "pawl-bench", log); err != nil || !c.traces.Enabled() {
		return err
	}
	c.tracer, err = pawlotel.NewTracer(c.traces)
	return err
}

func (c *memberProgram) orchestrator() fx.Option {
	cfg := members.Orchestrator{Fleet: c.Fleet, Orchestrator: c.Orchestrator}.Config()
	cfg.Tracer = c.tracer
	return fx.Options(
		pawlfx.Orchestrations(func() []pawl.OrchestrationBinding {
			if c.Role == codeless {
				return nil
			}
			return slices.Concat(examples.Orchestrations(), []pawl.OrchestrationBinding{holdAll.Do(holdN)}, growthOrchestrations(), newLimitPrograms().orchestrations(), scheduleOrchestrations(), batchOrchestrations(), updateOrchestrations(), listOrchestrations(), changeOrchestrations())
		}),
		fx.Invoke(serveMemory),
		pawlfx.Orchestrator(cfg))
}

func (c *memberProgram) worker() fx.Option {
	cfg := members.Worker{Fleet: c.Fleet, Worker: c.Worker, Name: c.Name}.Config()
	if c.traces.Enabled() {
		cfg.Interceptors = []worker.Interceptor{pawlotel.WorkerInterceptor(c.traces)}
	}
	return fx.Options(
		pawlfx.Activities(func(nc *nats.Conn) ([]pawl.ActivityBinding, error) {
			h, b := holder{nc: nc}, newBarrier()
			all := slices.Concat(examples.Activities(), []pawl.ActivityBinding{hold.Do(h.hold)}, growthActivities(), newLimitPrograms().activities(b), changeActivities())
			return all, errors.Join(serve(nc, goroutinesSubject, func(string) any { return runtime.NumGoroutine() }), b.serve(nc))
		}),
		pawlfx.Worker(cfg))
}
