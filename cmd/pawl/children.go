package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
)

const (
	maxDescribed  = 50 // descendants of an instance that are described; further ones are only listed
	maxDescendant = 10 // levels of descendants
)

// descendant is a child for whose end its parent waits, below an instance.
type descendant struct {
	client.Child
	level   int // 0: a child of the instance itself
	d       client.Description
	known   bool // described
	missing bool // its start has not arrived yet, or it has been purged
}

// descendants are in the order of the tree: each parent before its children.
type descendants []descendant

// descendantsOf describes the tree of children for which an instance waits.
func descendantsOf(ctx context.Context, cl *client.Client, d client.Description) (all descendants) {
	left := maxDescribed
	var visit func(d client.Description, level int)
	visit = func(d client.Description, level int) {
		for _, c := range d.Children {
			one := descendant{Child: c, level: level}
			if left > 0 && level < maxDescendant {
				left--
				var err error
				one.d, err = cl.Describe(ctx, c.Instance)
				one.known, one.missing = err == nil, errors.Is(err, client.ErrNotFound)
				if errors.Is(err, client.ErrNoOwner) { // a further one may wait as long
					left = 0
				}
			}
			all = append(all, one)
			visit(one.d, level+1)
		}
	}
	visit(d, 0)
	return all
}

// state describes in a few words the status of a child, and what it waits for.
func (k descendant) state() string {
	switch {
	case k.missing:
		return "not started yet"
	case !k.known:
		return ""
	case k.d.Stalled != "":
		return "stalled: " + diagnose.OneLine(k.d.Stalled)
	}
	if k.d.Status == client.Pending && len(k.d.LimitWaits) > 0 {
		return string(k.d.Status) + ", " + diagnose.LimitWait(k.d.LimitWaits[0], time.Now())
	}
	if text := diagnose.WaitsFor(k.d); text != "" {
		return string(k.d.Status) + ", waits for " + text
	}
	return string(k.d.Status)
}

// write writes the tree under an empty line; nothing if there are no children.
func (all descendants) write(w io.Writer) error {
	if len(all) == 0 {
		return nil
	}
	_, _ = fmt.Fprintln(w) // the table reports errors
	t := &term.Table{Header: []string{"CHILD", "NAME", "INSTANCE", "FOR", "STATE"}, Right: []int{0, 3}, Fold: 5}
	for _, c := range all {
		id := c.Instance
		if c.level > 0 {
			id = strings.Repeat("  ", c.level-1) + "└ " + id
		}
		t.Add(c.Event, c.Name, id, formatElapsed(c.Scheduled, time.Time{}), diagnose.Short(c.state(), maxCell))
	}
	return t.Write(w)
}

// lookup returns the summary of a child; zero if it was not described.
func (all descendants) lookup(instance string) client.Summary {
	for _, c := range all {
		if c.Instance == instance {
			return c.d.Summary
		}
	}
	return client.Summary{}
}
