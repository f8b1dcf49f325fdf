package pawlfx

import (
	"context"
	"log/slog"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/fx"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/queue"
	"github.com/pawlrun/pawl/pkg/worker"
)

const (
	groupOrchestrations = `group:"pawl.orchestrations,flatten"`
	groupActivities     = `group:"pawl.activities,flatten"`
)

// Orchestrations registers bindings with the Orchestrator of the program. The constructor
// is a function whose parameters come from the container, and which returns
// []pawl.OrchestrationBinding and optionally an error.
func Orchestrations(constructor any) fx.Option {
	return fx.Provide(fx.Annotate(constructor, fx.ResultTags(groupOrchestrations)))
}

// Activities registers bindings with the Worker of the program. The constructor
// is a function whose parameters come from the container, and which returns
// []pawl.ActivityBinding and optionally an error.
func Activities(constructor any) fx.Option {
	return fx.Provide(fx.Annotate(constructor, fx.ResultTags(groupActivities)))
}

// Payloads supplies the codec of the program to its orchestrator, its worker and its HTTP API. nil is no codec.
func Payloads(c *pawlcodec.Codec) fx.Option {
	if c == nil {
		return fx.Options()
	}
	return fx.Supply(c)
}

// connected contains the dependencies of both an orchestrator and a worker.
type connected struct {
	fx.In

	Lifecycle   fx.Lifecycle
	NATS        *nats.Conn
	Redis       redis.UniversalClient
	Logger      *slog.Logger          `optional:"true"`
	Metrics     prometheus.Registerer `optional:"true"`
	Codec       *pawlcodec.Codec      `optional:"true"`
	Local       *queue.Local          `optional:"true"`
	Status      *status               `optional:"true"` // constructed first, and so started first and stopped last
	Termination *termination          `optional:"true"`
}

// run starts and stops an orchestrator or a worker with the program, and includes it in /readyz.
func (c connected) run(ready func() error, start, stop func(context.Context) error) {
	if c.Status != nil {
		c.Status.watch(ready)
	}
	c.Lifecycle.Append(fx.StartStopHook(c.Termination.cancels(start), func(ctx context.Context) error {
		if c.Status != nil {
			c.Status.stopping.Store(true)
		}
		return stop(ctx)
	}))
}

// Orchestrator runs an *orchestrator.Orchestrator with the bindings of Orchestrations.
// Connections, logger and metrics that cfg does not set come from the container.
func Orchestrator(cfg orchestrator.Config) fx.Option {
	type params struct {
		fx.In

		Common   connected
		Bindings []pawl.OrchestrationBinding `group:"pawl.orchestrations"`
	}
	return fx.Module("pawl.orchestrator",
		fx.Provide(
			func(p params) (*orchestrator.Orchestrator, error) {
				fill(&cfg.NATS, p.Common.NATS)
				fill(&cfg.Redis, p.Common.Redis)
				fill(&cfg.Logger, p.Common.Logger)
				fill(&cfg.Metrics, p.Common.Metrics)
				fill(&cfg.Local, p.Common.Local)
				fill(&cfg.Codec, p.Common.Codec)
				o, err := orchestrator.New(cfg, p.Bindings...)
				if err == nil {
					p.Common.run(o.Ready, o.Start, o.Stop)
					if p.Common.Status != nil {
						p.Common.Status.serveAPI(p.Common.Lifecycle, cfg.NATS, client.Options{Namespace: cfg.Namespace, Codec: cfg.Codec})
					}
				}
				return o, err
			},
		),
		fx.Invoke(func(*orchestrator.Orchestrator) {}),
	)
}

// Worker runs a *worker.Worker with the bindings of Activities. Connections, logger
// and metrics that cfg does not set come from the container.
func Worker(cfg worker.Config) fx.Option {
	type params struct {
		fx.In

		Common   connected
		Bindings []pawl.ActivityBinding `group:"pawl.activities"`
		// Before is constructed, and so started, before the worker, which waits for the namespace.
		Before *orchestrator.Orchestrator `optional:"true"`
	}
	return fx.Module("pawl.worker",
		fx.Provide(
			func(p params) (*worker.Worker, error) {
				fill(&cfg.NATS, p.Common.NATS)
				fill(&cfg.Redis, p.Common.Redis)
				fill(&cfg.Logger, p.Common.Logger)
				fill(&cfg.Metrics, p.Common.Metrics)
				fill(&cfg.Local, p.Common.Local)
				fill(&cfg.Codec, p.Common.Codec)
				w, err := worker.New(cfg, p.Bindings...)
				if err == nil {
					p.Common.run(w.Ready, w.Start, w.Stop)
				}
				return w, err
			},
		),
		fx.Invoke(func(*worker.Worker) {}),
	)
}

// fill sets a field that has its zero value.
func fill[T comparable](dst *T, v T) {
	var zero T
	if *dst == zero {
		*dst = v
	}
}

// Connections provides the connections that the functions open, and closes them after
// their users have stopped. The functions may have parameters from the container, such as
// a *slog.Logger and the context.Context that ends when the program has to stop. They return a *nats.Conn and a
// redis.UniversalClient, and optionally an error.
func Connections(openNATS, openRedis any) fx.Option {
	return fx.Module("pawl.connections",
		fx.Provide(
			fx.Annotate(openNATS, fx.OnStop(func(_ context.Context, nc *nats.Conn) { nc.Close() })),
			fx.Annotate(openRedis, fx.OnStop(func(_ context.Context, rdb redis.UniversalClient) error { return rdb.Close() })),
		),
	)
}
