package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/fleet"
	"github.com/pawlrun/pawl/internal/gateway"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/pkg/client"
)

// uiStop is the maximum time for running requests to end after a signal.
const uiStop = 5 * time.Second

type uiCmd struct {
	connection
	settings.HTTPAccess
	HTTP string `name:"http" env:"PAWL_HTTP" default:"127.0.0.1:7295" placeholder:"ADDR" help:"Address to serve at; an address that is not a loopback address requires users."`
}

// Run serves the console and the API of a namespace until a signal. It requires only NATS.
func (c *uiCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	srv, err := gateway.Open(ctx, gateway.Options{
		Config: gateway.Config{Client: func() *client.Client { return cl }, Logger: c.Open(s.err)}, Addr: c.HTTP, Setting: fleet.HTTPFlag,
		TokensFile: c.Tokens, TriggersFile: c.Triggers, OIDC: c.OIDC(), NeedsAPI: c.Triggers == "",
	})
	if errors.Is(err, gateway.ErrNoUsers) {
		return settings.Usage(err)
	}
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(s.out, "Console of namespace %s: %s\n\nCtrl-C stops it.\n", c.Namespace.Namespace, srv.URL())
	<-ctx.Done()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), uiStop)
	defer cancel()
	return srv.Stop(stopping)
}
