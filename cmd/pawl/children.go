package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
)

// mostKin is how many children of an instance are looked at.
const mostKin = 10

// kinship is what is known of children, by their id.
type kinship map[string]kin

// kin is a child that was looked at.
type kin struct {
	d       client.Description
	unknown bool // its start has not arrived yet, or it has been purged
}

// childrenOf looks at the first children that an instance waits for. One that can not be
// looked at is left out.
func childrenOf(ctx context.Context, cl *client.Client, d client.Description) kinship {
	all := kinship{}
	for _, c := range d.Children[:min(len(d.Children), mostKin)] {
		child, err := cl.Describe(ctx, c.Instance)
		switch {
		case errors.Is(err, client.ErrNotFound):
			all[c.Instance] = kin{unknown: true}
		case err == nil:
			all[c.Instance] = kin{d: child}
		case errors.Is(err, client.ErrNoOwner): // so may be the others', and each costs patience
			return all
		}
	}
	return all
}

// state says in few words where a child stands, and what it waits for.
func (k kin) state() string {
	switch {
	case k.unknown:
		return "not known yet"
	case k.d.Stalled != "":
		return "stuck: " + diagnose.OneLine(k.d.Stalled)
	}
	if k.d.Status == client.Pending && len(k.d.LimitWaits) > 0 {
		return string(k.d.Status) + ", " + diagnose.LimitWait(k.d.LimitWaits[0], time.Now())
	}
	if text := diagnose.WaitsFor(k.d); text != "" {
		return string(k.d.Status) + ", waits for " + text
	}
	return string(k.d.Status)
}

// childTable shows, under an empty line, the children that are waited for; nothing if none are.
func childTable(w io.Writer, children []client.Child, kin kinship) error {
	if len(children) == 0 {
		return nil
	}
	_, _ = fmt.Fprintln(w) // the table reports
	t := &term.Table{Header: []string{"CHILD", "NAME", "INSTANCE", "FOR", "STATE"}, Right: []int{0, 3}, Fold: 5}
	for _, c := range children {
		state := ""
		if k, ok := kin[c.Instance]; ok {
			state = diagnose.Short(k.state(), shortCell)
		}
		t.Add(c.Event, c.Name, c.Instance, since(c.Scheduled, time.Time{}), state)
	}
	return t.Write(w)
}

// lookup is what is known of a child, for a program.
func (k kinship) lookup(instance string) client.Summary { return k[instance].d.Summary }
