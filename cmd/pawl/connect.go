package main

import (
	"cmp"
	"context"
	"errors"
	"os/user"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/pkg/client"
)

// ownerTimeout is the maximum wait for the owner of a partition. It is longer than a takeover from a dead orchestrator.
const ownerTimeout = 6 * time.Second

// connection contains the flags of every command that connects to a namespace.
type connection struct {
	settings.Namespace
	settings.NATS
	settings.Log
	settings.Payloads

	By string `env:"PAWL_BY" placeholder:"NAME" help:"Requester to record in histories. Default: the user name."`
}

// AfterApply checks the settings.
func (r connection) AfterApply() error {
	return errors.Join(r.Namespace.AfterApply(), r.NATS.AfterApply())
}

// connectTimeout is the maximum time to connect. A command does not wait longer for unreachable servers.
const connectTimeout = 5 * time.Second

// client connects. closeAll closes the client and its connection.
func (r connection) client(ctx context.Context, s streams) (c *client.Client, closeAll func(), err error) {
	log := r.Open(s.err)
	codec, err := r.Codec(log)
	if err != nil {
		return nil, nil, settings.Usage(err)
	}
	nc, err := r.OpenNATS(log)
	if err != nil {
		return nil, nil, err
	}
	opening, stop := context.WithTimeout(ctx, connectTimeout)
	defer stop()
	c, err = client.New(opening, nc, client.Options{Namespace: r.Namespace.Namespace, By: cmp.Or(r.By, userName()), OwnerTimeout: ownerTimeout, Codec: codec, Logger: log})
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return c, func() { c.Close(); nc.Close() }, nil
}

// closers are called after a command has run.
type closers []func()

// ProvideClient connects for a method Run with a client as parameter.
func (r connection) ProvideClient(ctx context.Context, s streams, opened *closers) (*client.Client, error) {
	c, end, err := r.client(ctx, s)
	if err == nil {
		*opened = append(*opened, end)
	}
	return c, err
}

// instanceArg is the argument of a command on one instance.
type instanceArg struct {
	ID string `arg:"" help:"Id of the instance."`
}

// Validate checks the id.
func (a instanceArg) Validate() error { return pawl.ValidateID(a.ID) }

// userName is the default requester.
func userName() string {
	u, err := user.Current()
	if err != nil {
		return "pawl"
	}
	return u.Username
}
