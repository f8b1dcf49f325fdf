package console

import (
	"slices"
	"strings"
	"sync"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/pkg/client"
)

const (
	inboxInstances = 200 // the latest that have open updates, which are listed
	inboxParallel  = 16  // of them that are described at a time
)

// openUpdate is an update that its instance has received and not answered.
type openUpdate struct {
	api.OpenUpdate

	Instance, Orchestration string
	Events, Updates         []string // that the instance waits for: one of them may be what it needs to answer
}

// inboxData are the open updates, the oldest first.
type inboxData struct {
	Where, Complete string // Complete: JSON, what the filter is completed with

	Updates []openUpdate
	Of      int  // instances that were read
	More    bool // there are more instances
	Problem string
}

// listUpdates shows the open updates of the latest instances that have any and pass a filter.
func listUpdates(q *request) (view, error) {
	d := inboxData{Where: strings.TrimSpace(q.FormValue("where")), Complete: completion(q.orchestrations(), nil)}
	v := view{template: "updates", title: "Open updates", section: "updates", live: "/api/v1/watch?"}
	where, bad := filter.Parse(d.Where, q.now)
	if bad != nil {
		d.Problem = bad.Error()
		v.data = d
		return v, nil //nolint:nilerr // the page shows it
	}
	waiting := where.Is(filter.Unanswered, "true").String()
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, inboxParallel)
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
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			found, err := q.client.Describe(q.Context(), row.Instance) // one that has gone has no updates
			mu.Lock()
			defer mu.Unlock()
			for _, u := range api.InstanceOf(found, nil).OpenUpdates {
				if err == nil {
					d.Updates = append(d.Updates, openUpdate{u, row.Instance, row.Orchestration, found.AwaitedEvents, found.AwaitedUpdates})
				}
			}
		})
	}
	wg.Wait()
	slices.SortFunc(d.Updates, func(a, b openUpdate) int { return strings.Compare(a.At+a.Instance+a.ID, b.At+b.Instance+b.ID) })
	v.data = d
	return v, nil
}
