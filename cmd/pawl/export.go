package main

import (
	"context"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/pkg/client"
)

type exportCmd struct {
	instanceArg
	connection `group:"Connection"`
}

// Run writes the export of an instance.
func (c *exportCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	out, err := api.ExportInstance(ctx, cl, c.ID)
	if err != nil {
		return err
	}
	return writeJSON(s.out, out)
}
