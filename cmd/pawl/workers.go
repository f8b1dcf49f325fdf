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
	abandonedMost = 20 // abandoned activities of a worker are shown to a person
	shortList     = 60 // bytes of names that stand in one cell
)

type workersCmd struct {
	JSON  bool `name:"json" help:"Write JSON, a worker a line."`
	reach `group:"Connection"`
}

// Help is shown with the flags.
func (c *workersCmd) Help() string {
	return "Workers answer for themselves: one that is cut off from NATS is not listed. An activity is abandoned " +
		"that runs on although it was cancelled and its grace is over; its place is free, but only the end of its worker's process ends it."
}

// Run lists the workers.
func (c *workersCmd) Run(ctx context.Context, s streams) error {
	cl, done, err := c.client(ctx, s)
	if err != nil {
		return err
	}
	defer done()
	all, err := cl.Workers(ctx)
	if err != nil {
		return err
	}
	if !c.JSON {
		return showWorkers(s.out, all)
	}
	for _, w := range all {
		if err := writeJSON(s.out, api.WorkerOf(w)); err != nil {
			return err
		}
	}
	return nil
}

// showWorkers shows a worker a row and, below, what somebody should see to.
func showWorkers(w io.Writer, all []client.WorkerInfo) error {
	if len(all) == 0 && term.Interactive(w) {
		_, err := fmt.Fprintln(w, "No worker has answered.")
		return err
	}
	t := &term.Table{Header: []string{"NAME", "HOST", "PID", "UP", "RUNNING", "ABANDONED", "QUEUES"}, Right: []int{2, 3, 4, 5}, Fold: 7}
	for _, x := range all {
		t.Add(x.Name, x.Host, x.PID, since(x.Since, time.Time{}), x.Running, len(x.Abandoned), some(x.Queues))
	}
	if err := t.Write(w); err != nil {
		return err
	}
	if err := abandonedTable(w, all); err != nil {
		return err
	}
	return troubles(w, all)
}

// some names queues, as many as one looks at.
func some(queues []string) string {
	most := len(queues)
	for most > 1 && len(strings.Join(queues[:most], ", ")) > shortList {
		most--
	}
	text := strings.Join(queues[:most], ", ")
	if left := len(queues) - most; left > 0 {
		text += fmt.Sprintf(" and %d more", left)
	}
	return text
}

// abandonedTable shows, under an empty line, what the workers have abandoned.
func abandonedTable(w io.Writer, all []client.WorkerInfo) error {
	t := &term.Table{Header: []string{"ABANDONED", "OF", "ON", "FOR"}, Right: []int{3}}
	for _, x := range all {
		for _, a := range x.Abandoned[:min(len(x.Abandoned), abandonedMost)] {
			t.Add(a.Activity, a.Instance, x.Name, since(a.Since, time.Time{}))
		}
		if more := len(x.Abandoned) - abandonedMost; more > 0 {
			t.Add(fmt.Sprintf("and %d more", more), "", x.Name, "")
		}
	}
	if len(t.Rows) == 0 {
		return nil
	}
	_, _ = fmt.Fprintln(w) // the table reports
	return t.Write(w)
}

// troubles says what goes wrong, or lately did.
func troubles(w io.Writer, all []client.WorkerInfo) error {
	f := &term.Fields{}
	for _, x := range all {
		if x.NotReady != "" {
			f.Add(x.Name, "is not ready: "+diagnose.OneLine(x.NotReady))
		}
		if x.LastError != "" {
			f.Add(x.Name, fmt.Sprintf("latest trouble, %s ago: %s", since(x.LastErrorAt, time.Time{}), diagnose.OneLine(x.LastError)))
		}
	}
	if f.Empty() {
		return nil
	}
	_, _ = fmt.Fprintln(w) // the fields report
	return f.Write(w)
}
