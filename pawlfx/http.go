package pawlfx

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"

	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/gateway"
)

// apiPatience is how long a request of the API waits for an owner: a caller over HTTP, such as an autoscaler, asks again.
const apiPatience = 2 * time.Second

// HTTP serves, at a TCP address such as "127.0.0.1:7295":
//
//	/healthz   200 while the process runs
//	/readyz    200 when every fleet in the program is ready and not stopping, else 503 with what is missing, a line each
//	/metrics   what Prometheus reads
//	/api/v1/   in a program that has an orchestrator: the API of its namespace, see package gateway
//
// An address without a host, such as ":7295", is on the loopback interface; "0.0.0.0:7295" is on all. There is no
// authentication: every client that reaches the address is answered. Requests, connections and times are bounded as
// [gateway.NewServer] and [gateway.Listen] document. An empty address serves nothing. An address in use is an error of the start.
func HTTP(addr string) fx.Option {
	if addr == "" {
		return fx.Options()
	}
	return fx.Module("pawl.http",
		fx.Provide(func(lc fx.Lifecycle, log *slog.Logger, metrics prometheus.Gatherer) *status {
			s := &status{log: log, metrics: metrics}
			lc.Append(fx.StartStopHook(func(ctx context.Context) error { return s.start(ctx, addr) }, s.stop))
			return s
		}),
		fx.Invoke(func(*status) {}),
	)
}

// status is the server. start and stop are called once each, in this order; checks, and
// what says whether there is an API, are added before.
type status struct {
	checks   []func() error
	log      *slog.Logger
	metrics  prometheus.Gatherer
	server   *http.Server
	stopping atomic.Bool
	api      bool
	client   atomic.Pointer[client.Client] // of the API; nil while the orchestrator does not run
	served   chan struct{}
}

// watch adds a check to /readyz.
func (s *status) watch(ready func() error) { s.checks = append(s.checks, ready) }

// serveAPI has the API of a namespace served from the start of what is in the lifecycle already, which makes the
// namespace, until before its stop.
func (s *status) serveAPI(lc fx.Lifecycle, nc *nats.Conn, namespace string) {
	s.api = true
	lc.Append(fx.StartStopHook(func(ctx context.Context) error {
		c, err := client.New(ctx, nc, client.Options{Namespace: namespace, Patience: apiPatience, Logger: s.log})
		if err != nil {
			return fmt.Errorf("pawlfx: serve the API: %w", err)
		}
		s.client.Store(c)
		return nil
	}, func() {
		if c := s.client.Swap(nil); c != nil {
			c.Close()
		}
	}))
}

func (s *status) ready() error {
	var missing []error
	if s.stopping.Load() {
		missing = append(missing, errors.New("stopping"))
	}
	for _, ready := range s.checks {
		missing = append(missing, ready())
	}
	return errors.Join(missing...)
}

func (s *status) handler() http.Handler {
	cfg := gateway.Config{Ready: s.ready, Metrics: s.metrics, Logger: s.log}
	if s.api {
		cfg.Client = s.client.Load
	}
	return gateway.New(cfg)
}

func (s *status) start(ctx context.Context, addr string) error {
	l, err := gateway.Listen(ctx, addr)
	if err != nil {
		return fmt.Errorf("pawlfx: serve health and metrics: %w", err)
	}
	s.server = gateway.NewServer(s.handler(), s.log)
	s.served = make(chan struct{})
	go func() {
		defer close(s.served)
		if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("the HTTP server for health and metrics has ended", "error", err)
		}
	}()
	s.log.Info("serving health and metrics over HTTP", "address", l.Addr().String(), "api", s.api)
	return nil
}

func (s *status) stop(ctx context.Context) error {
	err := s.server.Shutdown(ctx)
	<-s.served
	return err
}
