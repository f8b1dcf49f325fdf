package console

import (
	"net/http"
	"net/url"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/builtin"
	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/pkg/client"
)

// batchesData are the latest batches, and the jobs of this process that change selected instances.
type batchesData struct {
	Running, Ended []api.Batch
	More           bool
	Jobs           []jobState
	Later          bool   // a job is running
	Complete       string // JSON: completions of the filter
}

func (c *console) listBatches(q *request) (view, error) {
	var all api.Batches
	if err := q.call(http.MethodGet, "/batches", nil, nil, &all); err != nil {
		return view{}, err
	}
	d := batchesData{More: all.More, Jobs: c.jobs.recent(), Complete: completion(q.orchestrations(), nil)}
	for _, b := range all.Batches {
		if client.Status(b.Status).Ended() {
			d.Ended = append(d.Ended, b)
		} else {
			d.Running = append(d.Running, b)
		}
	}
	for _, j := range d.Jobs {
		d.Later = d.Later || j.Running
	}
	live := filter.Where{}.Is(filter.Orchestration, builtin.Batches.Name()).String()
	return view{template: "batches", title: "Batches", section: "batches", data: d, live: "/api/v1/watch?where=" + url.QueryEscape(live) + "&"}, nil
}
