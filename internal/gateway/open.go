package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/pawlrun/pawl/internal/access"
)

// Options configure a server.
type Options struct {
	Config

	Addr         string            // listen address; see Listen
	Setting      string            // name of the setting that Addr comes from, for the error if the address is in use; optional
	TokensFile   string            // file of API tokens; empty: none
	OIDC         access.OIDCConfig // zero value: none
	TriggersFile string            // empty: none
	NeedsAPI     bool              // return ErrNoUsers, instead of serving without the API, if the address is not a loopback address
}

// ErrNoUsers is returned if the address is reachable from other machines and no users of the API are configured.
var ErrNoUsers = errors.New("an address other than a loopback address requires users: --http-tokens or --oidc-issuer")

// Server is a running HTTP server.
type Server struct {
	http   *http.Server
	served chan struct{}
	addr   net.Addr
}

// Open reads the files that the options name, sets Config.Access from them, and serves until Stop.
func Open(ctx context.Context, o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if err := o.readUsers(); err != nil {
		return nil, err
	}
	var err error
	if o.Triggers, err = readTriggers(o.TriggersFile); err != nil {
		return nil, err
	}
	l, err := Listen(ctx, o.Addr, o.Setting)
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	at, isTCP := l.Addr().(*net.TCPAddr)
	o.Access.Loopback = isTCP && at.IP.IsLoopback()
	if o.Client != nil && !o.Access.Loopback && !o.Access.Users() {
		if o.NeedsAPI {
			return nil, errors.Join(ErrNoUsers, l.Close())
		}
		o.Logger.Warn("http api off, address needs tokens", "address", l.Addr().String())
	}
	s := &Server{http: NewServer(New(o.Config), o.Logger), served: make(chan struct{}), addr: l.Addr()}
	go func() {
		defer close(s.served)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			o.Logger.Error("http server ended", "error", err)
		}
	}()
	return s, nil
}

func (o *Options) readUsers() error {
	if o.TokensFile != "" {
		f, err := os.Open(o.TokensFile)
		if err != nil {
			return fmt.Errorf("gateway: HTTP tokens: %w", err)
		}
		defer func() { _ = f.Close() }()
		if o.Access.Tokens, err = access.ReadTokens(f); err != nil {
			return fmt.Errorf("gateway: %s: %w", o.TokensFile, err)
		}
	}
	if o.OIDC.Issuer == "" {
		return nil
	}
	var err error
	o.Access.OIDC, err = access.NewOIDC(o.OIDC)
	return err
}

// Addr returns the address that the server listens on.
func (s *Server) Addr() string { return s.addr.String() }

// URL returns the URL of the console for a browser on this machine.
func (s *Server) URL() string {
	host, port, err := net.SplitHostPort(s.Addr())
	if ip := net.ParseIP(host); err == nil && ip.IsUnspecified() {
		return "http://" + net.JoinHostPort("127.0.0.1", port) + "/"
	}
	return "http://" + s.Addr() + "/"
}

// Stop waits for open requests until ctx ends, closes the rest, and waits for the server to end.
func (s *Server) Stop(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	<-s.served
	return err
}
