package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/pawlrun/pawl/internal/permissions"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/internal/transport"
)

type permissionsCmd struct {
	NATS  natsPermissionsCmd  `cmd:"" name:"nats" help:"Print a configuration for nats-server, with a user for each role."`
	Redis redisPermissionsCmd `cmd:"" name:"redis" help:"Print an ACL file for redis-server, with a user for each role."`
}

// namespaces are the namespaces that share a server.
type namespaces struct {
	Namespaces []string `name:"namespaces" default:"default" placeholder:"NAMESPACE" help:"Namespaces that share the server, separated by commas."`
}

// AfterApply checks the names.
func (n namespaces) AfterApply() error {
	for _, name := range n.Namespaces {
		if err := (settings.Namespace{Namespace: name}).AfterApply(); err != nil {
			return err
		}
	}
	return nil
}

type natsPermissionsCmd struct{ namespaces }

// Run prints the file.
func (c *natsPermissionsCmd) Run(s streams) error {
	_, err := io.WriteString(s.out, permissions.NATSFile(c.Namespaces...))
	return err
}

type redisPermissionsCmd struct{ namespaces }

// Run prints the file. Redis does not support variables in the file, so the passwords are placeholders.
func (c *redisPermissionsCmd) Run(s streams) error {
	_, err := io.WriteString(s.out, permissions.RedisFile(permissions.RedisPlaceholder, c.Namespaces...))
	return err
}

type checkPermissionsCmd struct {
	Role           string `arg:"" enum:"orchestrator,worker,client,events,operator" help:"Role of the user: ${enum}."`
	Server         string `name:"server" enum:"nats,redis,both" default:"both" help:"Server whose user is checked: ${enum}. The roles client and events have no user on Redis."`
	JSON           bool   `name:"json" help:"Write one JSON object per difference."`
	connection     `group:"Connection"`
	settings.Redis `group:"Connection"`
}

// AfterApply checks the settings.
func (c *checkPermissionsCmd) AfterApply() error {
	return errors.Join(c.connection.AfterApply(), c.Redis.AfterApply())
}

// Help is shown with the flags.
func (c *checkPermissionsCmd) Help() string {
	return "Connects as the user of the settings, compares the permissions that NATS and Redis report with those that the role requires, " +
		"and lists missing and excess permissions. Exit code 1: a permission is missing. " +
		"--nats-inbox-prefix must be that of the user. \"pawl permissions nats\" and \"pawl permissions redis\" print the users of all roles."
}

// Run compares the permissions. If one is missing, the exit code is 1.
func (c *checkPermissionsCmd) Run(ctx context.Context, s streams) error {
	var all []permissions.Finding
	if c.Server != "redis" {
		nc, err := c.OpenNATS(c.Open(s.err))
		if err != nil {
			return err
		}
		defer nc.Close()
		if all, err = permissions.CheckNATS(ctx, nc, c.Namespace.Namespace, transport.Role(c.Role)); err != nil {
			return err
		}
	}
	if role := permissions.RedisRole(c.Role); c.Server != "nats" && slices.Contains(permissions.RedisRoles(), role) {
		rdb, err := c.OpenRedis(ctx, c.Open(s.err))
		if err != nil {
			return err
		}
		defer func() { _ = rdb.Close() }() // only used for reading
		found, err := permissions.CheckRedis(ctx, rdb, c.Namespace.Namespace, role)
		if err != nil {
			return err
		}
		all = append(all, found...)
		slices.SortFunc(all, permissions.Finding.Compare)
	}
	if c.JSON {
		err := writeLines(s.out, all, func(f permissions.Finding) permissions.Finding { return f })
		if err != nil {
			return err
		}
	} else if err := showPermissions(s.out, c.Role, all); err != nil {
		return err
	}
	if len(all) > 0 && all[0].Status == permissions.Lacking {
		return settings.ExitCode(settings.ExitFailed)
	}
	return nil
}

func showPermissions(w io.Writer, role string, all []permissions.Finding) error {
	if len(all) == 0 {
		_, err := fmt.Fprintf(w, "The user has exactly the permissions of the role %s.\n", role)
		return err
	}
	t := &term.Table{Header: []string{"STATUS", "SERVER", "RIGHT", "SUBJECT"}, Fold: 4}
	for _, f := range all {
		t.Add(f.Status, f.Server, f.Right, f.What)
	}
	return t.Write(w)
}
