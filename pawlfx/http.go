package pawlfx

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"

	"github.com/pawlrun/pawl/internal/console"
	"github.com/pawlrun/pawl/internal/gateway"
	"github.com/pawlrun/pawl/pkg/client"
)

// apiTimeout is the maximum time for which a request of the API waits for an owner. It is short, because HTTP clients such as autoscalers retry.
const apiTimeout = 2 * time.Second

// HTTP serves, at a TCP address such as "127.0.0.1:7295":
//
//	/healthz   200 while the process runs
//	/readyz    200 when the orchestrator and the worker of the program are ready and not stopping, otherwise 503 with a line per reason
//	/metrics   metrics for Prometheus
//	/          in a program with an orchestrator: the console of its namespace, see docs/console.md
//	/api/v1/   in a program with an orchestrator: the API of its namespace, see package gateway
//
// An address without a host, such as ":7295", is on the loopback interface; "0.0.0.0:7295" is on all interfaces. On a loopback address
// every client of the API is an admin, unless there are users. On other addresses the API is served only to users: those of HTTPTokens and of
// HTTPOIDC. [gateway.NewServer] and [gateway.Listen] document the limits of requests, connections and times. With an empty address, HTTP
// serves nothing. An address in use, and tokens that cannot be read, are errors of the start.
func HTTP(addr string, opts ...HTTPOption) fx.Option {
	if addr == "" {
		return fx.Options()
	}
	return fx.Module("pawl.http",
		fx.Provide(func(in httpParams) *status {
			s := &status{log: in.Log, metrics: in.Metrics, faults: in.Faults}
			for _, o := range opts {
				o(s)
			}
			in.Lifecycle.Append(fx.StartStopHook(func(ctx context.Context) error { return s.start(ctx, addr) }, s.stop))
			return s
		}),
		fx.Invoke(func(*status) {}),
	)
}

type httpParams struct {
	fx.In

	Lifecycle fx.Lifecycle
	Log       *slog.Logger
	Metrics   prometheus.Gatherer
	Faults    *console.Faults `optional:"true"` // supplied by pawl dev
}

// HTTPOption is an option of HTTP.
type HTTPOption func(*status)

// HTTPTokens sets the file of the users of the API. Each line contains a token of at least 16 characters, a role
// (viewer, operator or admin) and a name, separated by white space. An empty name is no file.
func HTTPTokens(file string) HTTPOption {
	return func(s *status) { s.options.TokensFile = file }
}

// HTTPOIDC accepts tokens that an OpenID Connect issuer has signed for an audience. roleClaim is the claim of a token that lists its
// roles, such as realm_access.roles; empty is "roles". A role is viewer, operator or admin, optionally with the prefix pawl-. Without an
// issuer the option has no effect.
func HTTPOIDC(issuer, audience, roleClaim string) HTTPOption {
	return func(s *status) {
		s.options.OIDC.Issuer, s.options.OIDC.Audience, s.options.OIDC.RoleClaim = issuer, audience, roleClaim
	}
}

// HTTPSignIn lets browsers sign in to the console at the issuer of HTTPOIDC. client is a client id that is registered there; secretFile
// contains its secret and is read at every sign-in. Without a client the option has no effect, and without a file there is no secret.
func HTTPSignIn(client, secretFile string) HTTPOption {
	return func(s *status) { s.options.OIDC.Client, s.options.OIDC.SecretFile = client, secretFile }
}

// HTTPTriggers sets the file that configures the effects of CloudEvents and webhooks; see docs/http-api.md. An empty name is no file.
func HTTPTriggers(file string) HTTPOption {
	return func(s *status) { s.options.TriggersFile = file }
}

// HTTPSetting sets the name of the setting that contains the address, such as a flag, for the error of an address in use.
func HTTPSetting(name string) HTTPOption {
	return func(s *status) { s.options.Setting = name }
}

// status is the HTTP server. start and stop are called once each, in this order; watch and
// serveAPI are called before.
type status struct {
	checks   []func() error
	log      *slog.Logger
	metrics  prometheus.Gatherer
	faults   *console.Faults
	options  gateway.Options
	server   *gateway.Server
	stopping atomic.Bool
	api      bool
	client   atomic.Pointer[client.Client] // client of the API; nil while the orchestrator does not run
}

// watch adds a check to /readyz.
func (s *status) watch(ready func() error) { s.checks = append(s.checks, ready) }

// serveAPI serves the API of a namespace. Its hooks follow those of the orchestrator in the lifecycle: the API is available from the
// orchestrator's start, which creates the namespace, until before its stop.
func (s *status) serveAPI(lc fx.Lifecycle, nc *nats.Conn, o client.Options) {
	s.api = true
	o.OwnerTimeout, o.Logger = apiTimeout, s.log
	lc.Append(fx.StartStopHook(func(ctx context.Context) error {
		c, err := client.New(ctx, nc, o)
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

func (s *status) start(ctx context.Context, addr string) (err error) {
	s.options.Addr = addr
	s.options.Config = gateway.Config{Ready: s.ready, Metrics: s.metrics, Faults: s.faults, Logger: s.log}
	if s.api {
		s.options.Client = s.client.Load
	}
	if s.server, err = gateway.Open(ctx, s.options); err != nil {
		return fmt.Errorf("pawlfx: serve HTTP: %w", err)
	}
	console := ""
	if s.api {
		console = s.server.URL()
	}
	s.log.Info("serving health and metrics over HTTP", "address", s.server.Addr(), "api", s.api, "console", console)
	return nil
}

func (s *status) stop(ctx context.Context) error { return s.server.Stop(ctx) }
