package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/pkg/client"
)

func listWorkers(q *request) (view, error) {
	var d workersData
	var partitions api.Partitions
	var wg sync.WaitGroup
	var problem error
	wg.Go(func() { problem = q.call(http.MethodGet, "/partitions", nil, nil, &partitions) })
	err := q.call(http.MethodGet, "/workers", nil, nil, &d)
	wg.Wait()
	if problem != nil {
		partitions.Incomplete = problem.Error()
	}
	d.Orchestrators, d.Incomplete = ownersOf(partitions.Partitions), partitions.Incomplete
	return view{template: "workers", title: "Workers", section: "workers", data: d, live: "/api/v1/watch?"}, err
}

// workersData are the workers, and the orchestrators with their partitions.
type workersData struct {
	api.Workers

	Orchestrators []owner
	Incomplete    string
}

// owner is an orchestrator with its partitions.
type owner struct {
	api.Partition // its partition with the largest lag

	Partitions []api.Partition
}

// ownersOf groups the partitions by their owner. Partitions without an owner come last.
func ownersOf(all []api.Partition) (out []owner) {
	for _, p := range all {
		i := slices.IndexFunc(out, func(o owner) bool { return o.Owner == p.Owner })
		if i < 0 {
			i = len(out)
			out = append(out, owner{Partition: p})
		}
		o := &out[i]
		if o.Partitions = append(o.Partitions, p); p.LagMS > o.LagMS {
			o.Partition = p
		}
	}
	slices.SortFunc(out, func(a, b owner) int {
		if a.Owner == "" || b.Owner == "" {
			return strings.Compare(b.Owner, a.Owner)
		}
		return strings.Compare(a.Owner, b.Owner)
	})
	return out
}

// drainForm asks for a confirmation to drain a worker.
func drainForm(q *request) (view, error) {
	name := q.PathValue("name")
	return confirmation(confirmData{
		Section: "workers", Title: "Drain " + name, Back: "/workers", Button: "Drain the worker", Mild: true, Command: "pawl drain " + shellQuote(name),
		Effects: []string{
			"The worker accepts no more tasks. Activities that it is running can finish; nothing is cancelled.",
			"Tasks go to the other workers that have the activity; without one they wait.",
			"It is not ready until its process is restarted; nothing else makes it accept tasks again.",
		},
	}), nil
}

func drainWorker(q *request) (view, error) {
	return view{redirect: "/workers"}, q.call(http.MethodPost, "/workers/"+url.PathEscape(q.PathValue("name"))+"/drain", nil, nil, nil)
}

// versionData are the versions of an orchestration.
type versionData struct {
	Orchestration string
	Versions      []versionRow
}

// versionRow is a version and the orchestrators that have its code.
type versionRow struct {
	api.Version

	Class, State, Do string
	URL              string // address of its instances
	Missing          []string
}

// listVersions shows the instances by version, and the orchestrators that have the code of each.
func listVersions(q *request) (view, error) {
	var v api.Versions
	if err := q.call(http.MethodGet, "/versions", nil, nil, &v); err != nil {
		return view{}, err
	}
	data := struct {
		All           []versionData
		Orchestrators []string
		Partial       bool
	}{Orchestrators: v.Orchestrators, Partial: v.Partial}
	for _, x := range v.Versions {
		if last := len(data.All) - 1; last < 0 || data.All[last].Orchestration != x.Orchestration {
			data.All = append(data.All, versionData{Orchestration: x.Orchestration})
		}
		of := &data.All[len(data.All)-1]
		of.Versions = append(of.Versions, versionRowOf(x, v.Orchestrators))
	}
	return view{template: "versions", title: "Versions", section: "versions", data: data}, nil
}

func versionRowOf(v api.Version, all []string) versionRow {
	where := filter.Where{}.Is(filter.Orchestration, v.Orchestration).Is(filter.Version, v.Version)
	where = append(where, filter.Term{Field: filter.Status, Op: filter.In, Texts: []string{string(client.Running), string(client.Pending)}})
	r := versionRow{Version: v, URL: listPath(where.String())}
	for _, name := range all {
		if !slices.Contains(v.Orchestrators, name) {
			r.Missing = append(r.Missing, name)
		}
	}
	switch {
	case len(v.Orchestrators) == 0:
		r.Class, r.State, r.Do = "bad", "no code", "Deploy an orchestrator that has it: its instances are stalled."
	case len(r.Missing) > 0:
		r.Class, r.State, r.Do = "wait", "on some", "Instances on partitions of the others are stalled until every orchestrator has it."
	case v.Instances == 0 && v.Version != "":
		r.Class, r.State, r.Do = "ok", "unused", "No instance needs it. It can be removed from the code unless it is the newest one, or retries may need it."
	default:
		r.Class, r.State = "ok", "on all"
	}
	return r
}
