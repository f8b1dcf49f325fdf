package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
)

const (
	maxDescribed  = 50 // maximum number of descendants that are described; further ones are only listed
	maxDescendant = 10 // maximum number of levels that are described
)

// descendant is a descendant of an instance, for whose end its parent waits.
type descendant struct {
	client.Child
	level     int // 0: a child of the instance itself
	d         client.Description
	described bool
	missing   bool // its start has not arrived yet, or it was purged
}

// descendants are in the order of the tree: each parent precedes its children.
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
				one.described, one.missing = err == nil, errors.Is(err, client.ErrNotFound)
				if errors.Is(err, client.ErrNoOwner) { // further requests could each wait for an owner, too
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

// state describes the status of a child, and what it waits for, in a few words.
func (k descendant) state() string {
	switch {
	case k.missing:
		return "not started yet"
	case !k.described:
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

// write writes the tree under an empty line, or nothing if there are no children.
func (all descendants) write(w io.Writer) error {
	t := &term.Table{Header: []string{"CHILD", "NAME", "INSTANCE", "FOR", "STATE"}, Right: []int{0, 3}, Fold: 5}
	for _, c := range all {
		id := c.Instance
		if c.level > 0 {
			id = strings.Repeat("  ", c.level-1) + "└ " + id
		}
		t.Add(c.Event, c.Name, id, formatElapsed(c.Scheduled, time.Time{}), diagnose.Short(c.state(), maxCell))
	}
	return belowTable(w, t)
}

// lookup returns the summary of a child, or a zero summary if it was not described.
func (all descendants) lookup(instance string) client.Summary {
	for _, c := range all {
		if c.Instance == instance {
			return c.d.Summary
		}
	}
	return client.Summary{}
}
