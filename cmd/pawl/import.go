package main

import (
	"context"
	"os"

	"github.com/pawlrun/pawl/pkg/client"
)

type importCmd struct {
	operateFlags
	File     string `arg:"" type:"existingfile" help:"File that \"pawl export\" wrote."`
	Continue bool   `help:"Continue an instance that had not ended, and schedule its outstanding activities again. Without the flag, it is cancelled, and \"pawl retry\" continues it."`
}

// Run imports an instance.
func (c *importCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	export, err := os.ReadFile(c.File)
	if err != nil {
		return err
	}
	return c.about(ctx, s, cl, c.ID, "imported", func(ctx context.Context) (client.Operated, error) {
		opts := []client.ImportOption{client.Reason(c.Reason)}
		if c.Continue {
			opts = append(opts, client.Continue())
		}
		return cl.Import(ctx, c.ID, export, opts...)
	})
}
