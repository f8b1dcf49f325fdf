package main

import (
	"context"

	"github.com/pawlrun/pawl/internal/api"
)

type exportCmd struct {
	ID         string `arg:"" help:"Id of the instance."`
	connection `group:"Connection"`
}

// Run writes the export of an instance.
func (c *exportCmd) Run(ctx context.Context, s streams) error {
	cl, done, err := c.toInstance(ctx, s, c.ID)
	if err != nil {
		return err
	}
	defer done()
	out, err := api.ExportInstance(ctx, cl, c.ID)
	if err != nil {
		return err
	}
	return writeJSON(s.out, out)
}
