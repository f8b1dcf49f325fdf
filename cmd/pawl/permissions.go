package main

import (
	"context"
	"fmt"
	"io"

	"github.com/pawlrun/pawl/internal/permissions"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/queue"
)

type permissionsCmd struct {
	NATS natsPermissionsCmd `cmd:"" name:"nats" help:"For nats-server: a user for each role."`
}

type natsPermissionsCmd struct {
	Namespaces []string `name:"namespaces" default:"default" placeholder:"NAMESPACE" help:"Namespaces that share the server, separated by commas."`
}

// Run prints the file.
func (c *natsPermissionsCmd) Run(s streams) error {
	for _, name := range c.Namespaces {
		if err := (settings.Namespace{Namespace: name}).AfterApply(); err != nil {
			return misuse{err}
		}
	}
	_, err := io.WriteString(s.out, permissions.NATSFile(c.Namespaces...))
	return err
}

type checkPermissionsCmd struct {
	Role  string `arg:"" enum:"orchestrator,worker,client,events,operator" help:"Role of the user: ${enum}."`
	JSON  bool   `name:"json" help:"Write JSON, a difference a line."`
	reach `group:"Connection"`
}

// Help is shown with the flags.
func (c *checkPermissionsCmd) Help() string {
	return "It connects as the user that the settings name, compares the permissions that the server reports with what the role needs, " +
		"and lists what the user lacks and what it has too much. Exit code 1: it lacks something. " +
		"--nats-inbox-prefix must be that of the user; \"pawl permissions nats\" prints one for each role."
}

// Run compares. What is lacking is exit code 1.
func (c *checkPermissionsCmd) Run(ctx context.Context, s streams) error {
	nc, err := c.OpenNATS(c.Open(s.err))
	if err != nil {
		return err
	}
	defer nc.Close()
	all, err := permissions.CheckNATS(ctx, nc, c.Namespace.Namespace, queue.Role(c.Role))
	if err != nil {
		return err
	}
	if c.JSON {
		for _, f := range all {
			if err := writeJSON(s.out, f); err != nil {
				return err
			}
		}
	} else if err := showPermissions(s.out, c.Role, all); err != nil {
		return err
	}
	if len(all) > 0 && all[0].Status == permissions.Lacking {
		return exit(settings.ExitFailed)
	}
	return nil
}

func showPermissions(w io.Writer, role string, all []permissions.Finding) error {
	if len(all) == 0 {
		_, err := fmt.Fprintf(w, "The user has what the role %s needs, and nothing else.\n", role)
		return err
	}
	t := &term.Table{Header: []string{"STATUS", "SERVER", "RIGHT", "WHAT"}, Fold: 4}
	for _, f := range all {
		t.Add(f.Status, f.Server, f.Right, f.What)
	}
	return t.Write(w)
}
