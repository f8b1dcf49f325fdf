package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
)

type listCmd struct {
	reach
	Status string `enum:",running,completed,failed,cancelled" default:"" help:"Only instances of that status: running, completed, failed, cancelled."`
	Stuck  bool   `help:"Only instances that can not go on, and why."`
	Limit  int    `default:"100" help:"At most so many; 0 is all."`
	JSON   bool   `name:"json" help:"Write JSON, an instance a line."`
}

// Run lists instances. What could be listed is shown also when some partitions did not answer.
func (c *listCmd) Run(ctx context.Context, s streams) error {
	cl, done, err := c.client(ctx, s)
	if err != nil {
		return err
	}
	defer done()
	t := &term.Table{Header: []string{"INSTANCE", "ORCHESTRATION", "STATUS", "EVENTS", "CREATED", "UPDATED", "STUCK"}, Right: []int{3}}
	n := 0
	var failed error
	for d, err := range c.rows(ctx, cl) {
		if err != nil {
			failed = err
			break
		}
		if c.Limit > 0 && n == c.Limit {
			break
		}
		n++
		if c.JSON {
			if err := writeJSON(s.out, describedJSON(d)); err != nil {
				return err
			}
			continue
		}
		t.Add(d.Instance, d.Orchestration, d.Status, d.Events, when(d.Created), when(d.Updated), d.Stuck)
	}
	if !c.JSON {
		if err := t.Write(s.out); err != nil {
			return err
		}
	}
	return failed
}

func (c *listCmd) rows(ctx context.Context, cl *client.Client) iter.Seq2[client.Description, error] {
	if c.Stuck {
		return client.Stuck(ctx, cl)
	}
	return client.List(ctx, cl, client.ListOptions{Status: client.Status(c.Status), Limit: c.Limit})
}

// when shows Unix milliseconds; nought is nothing.
func when(ms int64) string {
	if ms == 0 {
		return ""
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05.000")
}

// describe shows one instance, a field a line.
func describe(w io.Writer, d client.Description) error {
	t := &term.Table{Header: []string{"FIELD", "VALUE"}}
	t.Add("instance", d.Instance)
	t.Add("orchestration", d.Orchestration)
	t.Add("status", d.Status)
	t.Add("execution", d.Execution)
	t.Add("created", when(d.Created))
	t.Add("updated", when(d.Updated))
	if d.Ended != 0 {
		t.Add("ended", when(d.Ended))
	}
	t.Add("events", d.Events)
	t.Add("unread inputs", d.Inbox)
	t.Add("pending timers", d.Timers)
	for _, o := range d.Outstanding {
		holder := "waiting for a worker"
		if o.Worker != "" {
			holder = fmt.Sprintf("on %s, claim %d", o.Worker, o.Claims)
		}
		t.Add(fmt.Sprintf("activity %d", o.Activity), o.Name+", "+holder)
	}
	if d.Stuck != "" {
		t.Add("stuck", d.Stuck)
	}
	if r := readable(d.Result); r != nil {
		t.Add("result", string(r))
	}
	if d.Failure != nil {
		t.Add("failure", d.Failure.Message)
	}
	return t.Write(w)
}

// describedJSON is a description whose result is JSON instead of bytes.
func describedJSON(d client.Description) any {
	result := readable(d.Result)
	return struct {
		client.Description
		Result json.RawMessage `json:"result,omitempty"`
	}{d, result}
}
