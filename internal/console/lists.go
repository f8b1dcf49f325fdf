package console

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
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

	Query    url.Values // the filter, without the cursor
	Statuses []link
	NextPage string   // address; empty: this is the last
	Known    []string // orchestrations of the page, to complete the filter
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
	d := listData{Query: url.Values{}}
	for _, name := range []string{"status", "orchestration", "prefix", "started_since", "started_before"} {
		if v := q.FormValue(name); v != "" { // a form sends its empty fields, too
			d.Query.Set(name, v)
		}
	}
	asked := url.Values{"limit": {listRows}}
	maps.Copy(asked, d.Query)
	if cursor := q.FormValue("cursor"); cursor != "" {
		asked.Set("cursor", cursor)
		d.First = "/instances?" + d.Query.Encode()
	}
	if err := q.call(http.MethodGet, "/instances", asked, nil, &d.Instances); err != nil {
		return view{}, err
	}
	if d.Next != "" {
		d.NextPage = "/instances?" + with(d.Query, "cursor", d.Next)
	}
	for _, i := range d.Instances.Instances {
		if i.Orchestration != "" && !slices.Contains(d.Known, i.Orchestration) {
			d.Known = append(d.Known, i.Orchestration)
		}
	}
	slices.Sort(d.Known)
	n, _ := q.client.Count(q.Context()) // the list is shown without them, too
	c := api.CountsOf(n)
	all := c.Pending + c.Running + c.Completed + c.Failed + c.Cancelled
	current := d.Query.Get("status")
	d.Statuses = []link{{Name: "all", Count: all, URL: "/instances?" + with(d.Query, "status", ""), Current: current == ""}}
	for _, s := range []struct {
		name  client.Status
		count uint64
	}{
		{client.Running, c.Running}, {client.Pending, c.Pending}, {client.Completed, c.Completed}, {client.Failed, c.Failed}, {client.Cancelled, c.Cancelled},
	} {
		name := string(s.name)
		d.Statuses = append(d.Statuses, link{
			Name: name, Class: pills[name], Count: s.count, URL: "/instances?" + with(d.Query, "status", name), Current: current == name,
		})
	}
	return view{template: "instances", title: "Instances", section: "instances", data: d, live: "/api/v1/watch?" + watched(d.Query)}, nil
}

// watched is the part of a filter that a stream of changes has.
func watched(q url.Values) string {
	w := url.Values{}
	for _, name := range []string{"status", "orchestration", "prefix"} {
		if v := q.Get(name); v != "" {
			w.Set(name, v)
		}
	}
	if len(w) == 0 {
		return ""
	}
	return w.Encode() + "&"
}

// with is a query in which one parameter has another value; an empty one is left out.
func with(q url.Values, name, value string) string {
	c := url.Values{}
	maps.Copy(c, q)
	c.Del(name)
	if value != "" {
		c.Set(name, value)
	}
	return c.Encode()
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
