package pawlfx

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/fx"
)

// HTTP serves, at a TCP address such as ":7295" or "127.0.0.1:0":
//
//	/healthz   200 while the process runs
//	/readyz    200 when every fleet in the program is ready and not stopping, else 503 with what is missing, a line each
//	/metrics   what Prometheus reads
//
// An empty address serves nothing. An address in use is an error of the start.
func HTTP(addr string) fx.Option {
	if addr == "" {
		return fx.Options()
	}
	return fx.Module("pawl.http",
		fx.Provide(func(lc fx.Lifecycle, log *slog.Logger, metrics prometheus.Gatherer) *status {
			s := &status{log: log}
			s.server = &http.Server{Handler: s.routes(metrics), ReadHeaderTimeout: 5 * time.Second}
			lc.Append(fx.StartStopHook(func(ctx context.Context) error { return s.start(ctx, addr) }, s.stop))
			return s
		}),
		fx.Invoke(func(*status) {}),
	)
}

// status is the server. start and stop are called once each, in this order; checks are
// added before.
type status struct {
	checks   []func() error
	log      *slog.Logger
	server   *http.Server
	stopping atomic.Bool
	served   chan struct{}
}

// watch adds a check to /readyz.
func (s *status) watch(ready func() error) { s.checks = append(s.checks, ready) }

func (s *status) routes(metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux
}

func (s *status) readyz(w http.ResponseWriter, _ *http.Request) {
	var missing []error
	if s.stopping.Load() {
		missing = append(missing, errors.New("stopping"))
	}
	for _, ready := range s.checks {
		missing = append(missing, ready())
	}
	if err := errors.Join(missing...); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ready")
}

func (s *status) start(ctx context.Context, addr string) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("pawlfx: serve health and metrics: %w", err)
	}
	s.served = make(chan struct{})
	go func() {
		defer close(s.served)
		if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("the HTTP server for health and metrics has ended", "error", err)
		}
	}()
	s.log.Info("serving /healthz, /readyz and /metrics", "address", l.Addr().String())
	return nil
}

func (s *status) stop(ctx context.Context) error {
	err := s.server.Shutdown(ctx)
	<-s.served
	return err
}
