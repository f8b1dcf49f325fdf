package console

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/pkg/client"
)

const (
	listRows   = "50"
	maxStalled = 200
)

// stalled lists what cannot go on, at most n.
func (q *request) stalled(n int) (out []api.Instance, _ error) {
	for d, err := range q.client.Stalled(q.Context()) {
		if err != nil {
			return out, err
		}
		if len(out) == n {
			break
		}
		out = append(out, api.SummaryOf(d))
	}
	return out, nil
}

// fullLimits lists the limits that are deadlocked or have waiters, those first that are worst.
func (q *request) fullLimits() (out []api.QueueStats, _ error) {
	for g, err := range q.client.Queues(q.Context(), "") {
		if err != nil {
			return out, err
		}
		if g.Deadlocked || g.Waiting > 0 {
			out = append(out, api.QueueStatsOf(g))
		}
	}
	worstFirst(out)
	return out[:min(len(out), homeRows)], nil
}

func worstFirst(all []api.QueueStats) {
	rank := func(s api.QueueStats) int {
		if s.Deadlocked {
			return 0
		}
		return 1
	}
	slices.SortFunc(all, func(a, b api.QueueStats) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.QueueLength, a.QueueLength), cmp.Compare(a.Action, b.Action), cmp.Compare(a.Key, b.Key))
	})
}

// listData is a page of instances. The view is in the address: it can be kept and shared.
type listData struct {
	api.Instances

	Where    string // the filter as it was written
	Problem  string // of the filter
	Statuses []link
	NextPage string   // address; empty: this is the last
	Complete string   // JSON: what the filter is completed with
	Examples []string // of filters
	First    string   // address of the first page; empty: this is it
	Counts   api.Counts
}

// link is a filter to choose.
type link struct {
	Name, Class, URL string
	Count            uint64
	Current          bool
	Changes          bool // it leads to a change, which a viewer may not make
}

func listInstances(q *request) (view, error) {
	d := listData{Where: strings.TrimSpace(q.FormValue("where"))}
	asked := url.Values{"limit": {listRows}, "where": {d.Where}}
	if cursor := q.FormValue("cursor"); cursor != "" {
		asked.Set("cursor", cursor)
		d.First = listPath(d.Where, "")
	}
	v := view{template: "instances", title: "Instances", section: "instances"}
	where, bad := filter.Parse(d.Where, q.now)
	if bad != nil {
		d.Problem, v.status = bad.Error(), http.StatusBadRequest
	} else {
		if err := q.call(http.MethodGet, "/instances", asked, nil, &d.Instances); err != nil {
			return view{}, err
		}
		if d.Next != "" {
			d.NextPage = listPath(d.Where, d.Next)
		}
		v.live = "/api/v1/watch?where=" + url.QueryEscape(d.Where) + "&"
	}
	d.complete(q.orchestrations())
	n, _ := q.client.Count(q.Context()) // the list is shown without them, too
	d.facets(where, n.Status)
	v.data = d
	return v, nil
}

// facets are links to the same filter with another status.
func (d *listData) facets(where filter.Where, counts map[client.Status]uint64) {
	rest := where.Without(filter.Status)
	chosen, _ := where.Exactly(filter.Status)
	all := link{Name: "all", URL: listPath(rest.String(), ""), Current: len(rest) == len(where)}
	d.Statuses = []link{{}}
	for _, s := range []client.Status{client.Running, client.Pending, client.Completed, client.Failed, client.Cancelled} {
		name := string(s)
		all.Count += counts[s]
		d.Statuses = append(d.Statuses, link{
			Name: name, Class: pills[name], Count: counts[s], URL: listPath(rest.Is(filter.Status, name).String(), ""), Current: slices.Contains(chosen, name),
		})
	}
	d.Statuses[0] = all
}

// complete sets what the filter is completed with: fields, and values that are known.
func (d *listData) complete(orchestrations []string) {
	codes := map[string]bool{}
	for _, i := range d.Instances.Instances {
		if i.Code != "" {
			codes[i.Code] = true
		}
	}
	values := map[filter.Field][]string{
		filter.Status: filter.Statuses(), filter.Orchestration: orchestrations, filter.Code: slices.Sorted(maps.Keys(codes)),
	}
	b, _ := json.Marshal(struct { //nolint:errchkjson // texts
		Fields []filter.Field            `json:"fields"`
		Times  []filter.Field            `json:"times"`
		Values map[filter.Field][]string `json:"values"`
	}{filter.Fields(), slices.DeleteFunc(filter.Fields(), func(f filter.Field) bool { return !f.Timed() }), values})
	d.Complete = string(b)
	d.Examples = []string{"status = failed and ended > -1h", "id starts order-", "started > -24h"}
	for _, name := range orchestrations {
		d.Examples = append(d.Examples, filter.Where{}.Is(filter.Orchestration, name).String())
	}
}

func listPath(where, cursor string) string {
	q := url.Values{}
	if where != "" {
		q.Set("where", where)
	}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	if len(q) == 0 {
		return "/instances"
	}
	return "/instances?" + q.Encode()
}

// stalledGroup are stalled instances with the same cause.
type stalledGroup struct {
	Why  string
	Rows []api.Instance
}

// listStalled groups what cannot go on by its cause.
func listStalled(q *request) (view, error) {
	rows, err := q.stalled(maxStalled + 1)
	data := struct {
		Groups  []stalledGroup
		More    bool
		Problem string
	}{More: len(rows) > maxStalled}
	if err != nil {
		data.Problem = err.Error()
	}
	for _, d := range rows[:min(len(rows), maxStalled)] {
		why := diagnose.OneLine(d.Stalled)
		i := slices.IndexFunc(data.Groups, func(g stalledGroup) bool { return g.Why == why })
		if i < 0 {
			i = len(data.Groups)
			data.Groups = append(data.Groups, stalledGroup{Why: why})
		}
		data.Groups[i].Rows = append(data.Groups[i].Rows, d)
	}
	slices.SortStableFunc(data.Groups, func(a, b stalledGroup) int { return cmp.Compare(len(b.Rows), len(a.Rows)) })
	return view{template: "stalled", title: "Stalled", section: "stalled", data: data, live: "/api/v1/watch?"}, nil
}

func listWorkers(q *request) (view, error) {
	var all api.Workers
	err := q.call(http.MethodGet, "/workers", nil, nil, &all)
	return view{template: "workers", title: "Workers", section: "workers", data: all.Workers, live: "/api/v1/watch?"}, err
}
