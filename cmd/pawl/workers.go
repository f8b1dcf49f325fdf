package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
)

const (
	maxAbandonedShown = 20 // maximum number of abandoned activities that are listed per worker
	maxNames          = 60 // maximum bytes of names in a cell
)

type workersCmd struct {
	JSON       bool `name:"json" help:"Write one JSON object per worker."`
	connection `group:"Connection"`
}

// Help is shown with the flags.
func (c *workersCmd) Help() string {
	return "Only workers that are connected to NATS are listed. An abandoned activity still runs after " +
		"its cancellation and grace period. Its slot is free, but only the end of the worker's process ends it."
}

// Run lists the workers.
func (c *workersCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	all, err := cl.Workers(ctx)
	if err != nil {
		return err
	}
	if !c.JSON {
		return showWorkers(s.out, all)
	}
	return writeLines(s.out, all, api.WorkerOf)
}

// showWorkers writes a row per worker, and below the table the abandoned activities and the errors.
func showWorkers(w io.Writer, all []client.WorkerInfo) error {
	t := &term.Table{Header: []string{"NAME", "HOST", "PID", "UP", "RUNNING", "ABANDONED", "QUEUES"}, Right: []int{2, 3, 4, 5}, Fold: 7}
	for _, x := range all {
		t.Add(x.Name, x.Host, x.PID, formatElapsed(x.Since, time.Time{}), x.Running, len(x.Abandoned), abbreviated(x.Queues))
	}
	if err := t.WriteOr(w, "No worker has answered."); err != nil {
		return err
	}
	if err := abandonedTable(w, all); err != nil {
		return err
	}
	return problems(w, all)
}

// abbreviated lists the first few names.
func abbreviated(queues []string) string {
	shown := len(queues)
	for shown > 1 && len(strings.Join(queues[:shown], ", ")) > maxNames {
		shown--
	}
	text := strings.Join(queues[:shown], ", ")
	if left := len(queues) - shown; left > 0 {
		text += fmt.Sprintf(" and %d more", left)
	}
	return text
}

// abandonedTable writes the abandoned activities under an empty line.
func abandonedTable(w io.Writer, all []client.WorkerInfo) error {
	t := &term.Table{Header: []string{"ABANDONED", "INSTANCE", "WORKER", "FOR"}, Right: []int{3}}
	for _, x := range all {
		for _, a := range x.Abandoned[:min(len(x.Abandoned), maxAbandonedShown)] {
			t.Add(a.Activity, a.Instance, x.Name, formatElapsed(a.Since, time.Time{}))
		}
		if more := len(x.Abandoned) - maxAbandonedShown; more > 0 {
			t.Add(fmt.Sprintf("and %d more", more), "", x.Name, "")
		}
	}
	return belowTable(w, t)
}

// problems writes the current and the latest errors.
func problems(w io.Writer, all []client.WorkerInfo) error {
	f := &term.Fields{}
	for _, x := range all {
		if x.NotReady != "" {
			f.Add(x.Name, "is not ready: "+diagnose.OneLine(x.NotReady))
		}
		if x.LastError != "" {
			f.Add(x.Name, fmt.Sprintf("latest error, %s ago: %s", formatElapsed(x.LastErrorAt, time.Time{}), diagnose.OneLine(x.LastError)))
		}
	}
	if f.Empty() {
		return nil
	}
	_, _ = fmt.Fprintln(w) // the fields report an error
	return f.Write(w)
}
