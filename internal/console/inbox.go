package console

import (
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/pkg/client"
)

const (
	inboxInstances = 200 // number of latest instances with open updates that are read
	inboxParallel  = 16  // number of concurrent reads
)

// openUpdate is an update that an instance has received but not answered.
type openUpdate struct {
	api.OpenUpdate

	Instance, Orchestration string
	Events, Updates         []string // events and updates that the instance awaits, one of which may let it answer
}

// inboxData are the open updates, oldest first.
type inboxData struct {
	Where, Complete string // Complete: JSON, completions of the filter

	Updates []openUpdate
	Of      int  // number of instances that were read
	More    bool // there are more instances
	Problem string
}

// listUpdates shows the open updates of the latest instances that have any and pass the filter.
func listUpdates(q *request) (view, error) {
	d := inboxData{Where: strings.TrimSpace(q.FormValue("where")), Complete: completion(q.orchestrations(), nil)}
	v := view{template: "updates", title: "Open updates", section: "updates", live: "/api/v1/watch?"}
	where, err := filter.Parse(d.Where, q.now)
	if err != nil {
		d.Problem = err.Error()
		v.data = d
		return v, nil //nolint:nilerr // the page shows it
	}
	waiting := where.Is(filter.Unanswered, "true").String()
	var mu sync.Mutex
	var reads errgroup.Group
	reads.SetLimit(inboxParallel)
	for row, err := range q.client.List(q.Context(), client.ListOptions{Where: waiting, Limit: inboxInstances + 1, MaxEmptyPages: 1}) {
		if err != nil {
			d.Problem = err.Error()
			break
		}
		if d.More = d.Of == inboxInstances; d.More {
			break
		}
		d.Of++
		if kindOf(row.Orchestration) != "" {
			continue
		}
		reads.Go(func() error {
			found, err := q.client.Describe(q.Context(), row.Instance)
			if err != nil {
				return nil // it no longer exists, or will be read with the next page
			}
			mu.Lock()
			defer mu.Unlock()
			for _, u := range api.InstanceOf(found, nil).OpenUpdates {
				d.Updates = append(d.Updates, openUpdate{u, row.Instance, row.Orchestration, found.AwaitedEvents, found.AwaitedUpdates})
			}
			return nil
		})
	}
	_ = reads.Wait() // reads report no errors
	slices.SortFunc(d.Updates, func(a, b openUpdate) int { return strings.Compare(a.At+a.Instance+a.ID, b.At+b.Instance+b.ID) })
	v.data = d
	return v, nil
}
