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

// apiTimeout is the maximum time that a request of the API waits for an owner: HTTP clients, such as an autoscaler, retry.
const apiTimeout = 2 * time.Second

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
	Faults    *console.Faults `optional:"true"` // of pawl dev
}

// HTTPOption is an option of HTTP.
type HTTPOption func(*status)

// HTTPTokens names the file of the users who may call the API: on each line a token of at least 16 characters, a role
// (viewer, operator or admin) and a name, separated by blanks. An empty name is no file.
func HTTPTokens(file string) HTTPOption {
	return func(s *status) { s.options.TokensFile = file }
}

// HTTPOIDC accepts the tokens that an OpenID Connect issuer has signed for an audience. A claim of a token, such as roles or
// realm_access.roles, lists its roles: viewer, operator or admin, also as pawl-viewer. An empty claim is roles. Without an
// issuer the option has no effect.
func HTTPOIDC(issuer, audience, roleClaim string) HTTPOption {
	return func(s *status) {
		s.options.OIDC.Issuer, s.options.OIDC.Audience, s.options.OIDC.RoleClaim = issuer, audience, roleClaim
	}
}

// HTTPSignIn has browsers sign in to the console at the issuer of HTTPOIDC, with a client that is registered there and the file of its
// secret, which is read at every sign-in. Without a client the option has no effect, and an empty file is no secret.
func HTTPSignIn(client, secretFile string) HTTPOption {
	return func(s *status) { s.options.OIDC.Client, s.options.OIDC.SecretFile = client, secretFile }
}

// HTTPTriggers names the file that decides what CloudEvents and webhooks do: see docs/http-api.md. An empty name is no file.
func HTTPTriggers(file string) HTTPOption {
	return func(s *status) { s.options.TriggersFile = file }
}

// HTTPSetting names the setting that the address is from, such as a flag. The error for an address in use names it.
func HTTPSetting(name string) HTTPOption {
	return func(s *status) { s.options.Setting = name }
}

// status is the server. start and stop are called once each, in this order; checks, and
// the metadata about the API are added before.
type status struct {
	checks   []func() error
	log      *slog.Logger
	metrics  prometheus.Gatherer
	faults   *console.Faults
	options  gateway.Options
	server   *gateway.Server
	stopping atomic.Bool
	api      bool
	client   atomic.Pointer[client.Client] // of the API; nil while the orchestrator does not run
}

// watch adds a check to /readyz.
func (s *status) watch(ready func() error) { s.checks = append(s.checks, ready) }

// serveAPI has the API of a namespace served from the start of what is in the lifecycle already, which makes the
// namespace, until before its stop.
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
