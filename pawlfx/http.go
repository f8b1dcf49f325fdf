package pawlfx

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/gateway"
	"github.com/pawlrun/pawl/pkg/client"
)

// apiPatience is how long a request of the API waits for an owner: a caller over HTTP, such as an autoscaler, asks again.
const apiPatience = 2 * time.Second

// HTTP serves, at a TCP address such as "127.0.0.1:7295":
//
//	/healthz   200 while the process runs
//	/readyz    200 when every fleet in the program is ready and not stopping, else 503 with what is missing, a line each
//	/metrics   what Prometheus reads
//	/          in a program that has an orchestrator: the console of its namespace, see docs/console.md
//	/api/v1/   in a program that has an orchestrator: the API of its namespace, see package gateway
//
// An address without a host, such as ":7295", is on the loopback interface; "0.0.0.0:7295" is on all. On a loopback address
// every client of the API is an admin; on another the API is served to the users of HTTPTokens only. Requests, connections
// and times are bounded as [gateway.NewServer] and [gateway.Listen] document. An empty address serves nothing. An address
// in use, and tokens that cannot be read, are errors of the start.
func HTTP(addr string, opts ...HTTPOption) fx.Option {
	if addr == "" {
		return fx.Options()
	}
	return fx.Module("pawl.http",
		fx.Provide(func(lc fx.Lifecycle, log *slog.Logger, metrics prometheus.Gatherer) *status {
			s := &status{log: log, metrics: metrics}
			for _, o := range opts {
				o(s)
			}
			lc.Append(fx.StartStopHook(func(ctx context.Context) error { return s.start(ctx, addr) }, s.stop))
			return s
		}),
		fx.Invoke(func(*status) {}),
	)
}

// HTTPOption is an option of HTTP.
type HTTPOption func(*status)

// HTTPTokens names the file of the users who may call the API: on each line a token of at least 16 characters, a role
// (viewer, operator or admin) and a name, separated by blanks. An empty name is no file.
func HTTPTokens(file string) HTTPOption {
	return func(s *status) { s.tokens = file }
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
	tokens   string                        // file; empty: none
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

func (s *status) handler(loopback bool) (http.Handler, error) {
	cfg := gateway.Config{Ready: s.ready, Metrics: s.metrics, Logger: s.log, Access: access.Policy{Loopback: loopback}}
	if s.tokens != "" {
		f, err := os.Open(s.tokens)
		if err != nil {
			return nil, fmt.Errorf("pawlfx: HTTP tokens: %w", err)
		}
		defer func() { _ = f.Close() }()
		if cfg.Access.Tokens, err = access.ReadTokens(f); err != nil {
			return nil, fmt.Errorf("pawlfx: %s: %w", s.tokens, err)
		}
	}
	if s.api {
		cfg.Client = s.client.Load
	}
	return gateway.New(cfg), nil
}

func (s *status) start(ctx context.Context, addr string) error {
	l, err := gateway.Listen(ctx, addr)
	if err != nil {
		return fmt.Errorf("pawlfx: serve health and metrics: %w", err)
	}
	at, isTCP := l.Addr().(*net.TCPAddr)
	loopback := isTCP && at.IP.IsLoopback()
	h, err := s.handler(loopback)
	if err != nil {
		_ = l.Close()
		return err
	}
	if s.api && !loopback && s.tokens == "" {
		s.log.Warn("http api is off: the address is not a loopback address and there are no tokens", "address", l.Addr().String())
	}
	s.server = gateway.NewServer(h, s.log)
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
