package main

import (
	"context"
	"errors"
	"os/user"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/pkg/client"
)

// ownerPatience is how long a command waits for an orchestrator to own a partition: longer than another one takes to
// take over what a dead one owned.
const ownerPatience = 6 * time.Second

// reach is what every command needs that talks to a namespace.
type reach struct {
	settings.Namespace
	settings.NATS
	settings.Log
}

// AfterApply checks the settings.
func (r reach) AfterApply() error {
	return errors.Join(r.Namespace.AfterApply(), r.NATS.AfterApply())
}

// openLimit bounds the opening of a namespace: a command does not wait for servers that are away.
const openLimit = 5 * time.Second

// client connects; close ends both the client and the connection.
func (r reach) client(ctx context.Context, s streams) (c *client.Client, closeAll func(), err error) {
	log := r.Open(s.err)
	nc, err := r.OpenNATS(log)
	if err != nil {
		return nil, nil, err
	}
	opening, stop := context.WithTimeout(ctx, openLimit)
	defer stop()
	c, err = client.New(opening, nc, client.Options{Namespace: r.Namespace.Namespace, By: who(), Patience: ownerPatience, Logger: log})
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return c, func() { c.Close(); nc.Close() }, nil
}

// about connects, to ask about or speak to one instance. An id that can not be one is a misuse.
func (r reach) about(ctx context.Context, s streams, id string) (c *client.Client, closeAll func(), err error) {
	if err := pawl.ValidateID(id); err != nil {
		return nil, nil, settings.Usage(err)
	}
	return r.client(ctx, s)
}

// who is how histories name the person at the command line.
func who() string {
	u, err := user.Current()
	if err != nil {
		return "pawl"
	}
	return u.Username
}
