package console

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/client"
)

const (
	listRows   = "50"
	maxColumns = 6 // maximum number of attribute columns
	ownColumns = 3 // columns if none are chosen
	maxCell    = 60
	oldest     = "oldest" // value of order, in addresses of the console and of the API
)

// listView is the query of a list of instances. It is part of the address, so that it can be bookmarked and shared.
type listView struct {
	Name    string // name of a saved view; empty: none
	Where   string // the filter as entered
	Columns string // attributes, separated by commas; empty: those that most instances have
	Order   string // oldest, or empty: latest change of status first
}

// at returns the address of the view with another filter.
func (v listView) at(where, cursor string) string {
	q := url.Values{}
	for name, value := range map[string]string{"view": v.Name, "where": where, "columns": v.Columns, "order": v.Order, "cursor": cursor} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if len(q) == 0 {
		return "/instances"
	}
	return "/instances?" + q.Encode()
}

// Reversed returns the address of the view in the opposite order.
func (v listView) Reversed() string {
	if v.Order == "" {
		v.Order = oldest
	} else {
		v.Order = ""
	}
	return v.at(v.Where, "")
}

func listPath(where string) string { return listView{}.at(where, "") }

// listData is a page of instances.
type listData struct {
	api.Instances
	listView

	Problem  string // error in the filter
	Facets   []facet
	Views    []link   // predefined views
	Choose   []link   // attributes that are or can be columns
	Table    rows     // instances of the page
	NextPage string   // address; empty: this is the last page
	Complete string   // JSON: completions of the filter
	Examples []string // examples of filters
	First    string   // address of the first page; empty: this is the first page
}

// facet is a field and links to filters with its values.
type facet struct {
	Name  string
	Links []link
}

// link is a link, such as one to another filter.
type link struct {
	Name, Class, URL string
	Count            uint64
	More             bool // the count is a lower bound
	Current          bool
	Changes          bool // leads to a change that requires a role above viewer
}

func listInstances(q *request) (view, error) {
	d := listData{listView: listView{
		Name: text.Cut(strings.TrimSpace(q.FormValue("view")), maxCell), Where: strings.TrimSpace(q.FormValue("where")), Columns: q.FormValue("columns"),
	}}
	if q.FormValue("order") == oldest {
		d.Order = oldest
	}
	params := url.Values{"limit": {listRows}, "where": {d.Where}, "order": {d.Order}}
	if cursor := q.FormValue("cursor"); cursor != "" {
		params.Set("cursor", cursor)
		d.First = d.at(d.Where, "")
	}
	v := view{template: "instances", title: cmp.Or(d.Name, "Instances"), section: "instances"}
	where, bad := filter.Parse(d.Where, q.now)
	if bad != nil {
		d.Problem, v.status = bad.Error(), http.StatusBadRequest
	} else {
		if err := q.call(http.MethodGet, "/instances", params, nil, &d.Instances); err != nil {
			return view{}, err
		}
		if d.Next != "" {
			d.NextPage = d.at(d.Where, d.Next)
		}
		v.live = "/api/v1/watch?where=" + url.QueryEscape(d.Where) + "&"
	}
	known := q.orchestrations()
	d.Complete, d.Examples = completion(known, d.Instances.Instances), []string{"status = failed and ended > -1h", "id starts order-", "started > -24h"}
	for _, name := range known {
		d.Examples = append(d.Examples, filter.Where{}.Is(filter.Orchestration, name).String())
	}
	d.columns(where, attributesOf(d.Instances.Instances))
	d.facets(q, where)
	for name, filter := range map[string]string{
		"Failed in the last hour": "status = failed and ended > -1h", "Running for more than a day": "status = running and started < -24h",
	} {
		d.Views = append(d.Views, link{Name: name, URL: listView{Name: name}.at(filter, ""), Current: d.Name == name})
	}
	slices.SortFunc(d.Views, func(a, b link) int { return strings.Compare(a.Name, b.Name) })
	d.Table.Now, d.Table.Rows = q.now, d.Instances.Instances
	v.data = d
	return v, nil
}

// attributesOf returns the values of each attribute of the instances, as written in a filter.
func attributesOf(all []api.Instance) map[string][]string {
	out := make(map[string][]string)
	for _, i := range all {
		for name, value := range values(i) {
			out[name] = append(out[name], value)
		}
	}
	return out
}

// values returns the attributes of an instance, as written in a filter.
func values(i api.Instance) map[string]string {
	var all map[string]any
	if json.Unmarshal(i.Attributes, &all) != nil {
		return nil
	}
	out := make(map[string]string, len(all))
	for name, v := range all {
		switch v := v.(type) {
		case string:
			out[name] = v
		case map[string]any: // a time
			out[name], _ = v["time"].(string)
		default:
			b, _ := json.Marshal(v) //nolint:errchkjson // it was JSON
			out[name] = string(b)
		}
	}
	return out
}

// attributeLinks returns the attributes of an instance, with links to the instances that have the same value.
func attributeLinks(i api.Instance) (out []link) {
	all := values(i)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, link{Name: name, Class: text.Shorten(all[name], maxCell), URL: listPath(filter.Where{}.Is(filter.Field(name), all[name]).String())})
	}
	return out
}

// columns selects the attribute columns: those in the address, or those that most instances have.
func (d *listData) columns(where filter.Where, attributes map[string][]string) {
	byUse := slices.SortedFunc(maps.Keys(attributes), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(attributes[b]), len(attributes[a])), strings.Compare(a, b))
	})
	chosen := byUse[:min(len(byUse), ownColumns)]
	if d.Columns != "" {
		chosen = slices.DeleteFunc(strings.Split(d.Columns, ","), func(name string) bool { return name == "" || name == "-" })
		chosen = chosen[:min(len(chosen), maxColumns)]
	}
	d.Table.Columns = chosen
	for _, name := range byUse[:min(len(byUse), 2*maxColumns)] {
		next := slices.DeleteFunc(slices.Clone(chosen), func(c string) bool { return c == name })
		shown := len(next) < len(chosen)
		if !shown {
			next = append(next, name)
		}
		v := d.listView
		v.Columns = cmp.Or(strings.Join(next, ","), "-")
		d.Choose = append(d.Choose, link{Name: name, URL: v.at(d.Where, ""), Current: shown})
	}
	d.Table.filtered = func(name, value string) string {
		f := filter.Field(name)
		return d.at(where.Without(f).Is(f, value).String(), "")
	}
}

const (
	facetValues = 8
	facetTime   = 500 * time.Millisecond // counts that take longer are left out
	facetReads  = 50 * time.Millisecond  // after which owners stop counting, and the count is a lower bound
)

// facets adds links to the same filter with another value of a field, with counts: for the status, the orchestration, the
// code of failures, and the first two columns. They are counted in parallel.
func (d *listData) facets(q *request, where filter.Where) {
	by := []filter.Field{filter.Status, filter.Orchestration}
	if of, _ := where.Exactly(filter.Status); slices.Contains(of, string(client.Failed)) {
		by = append(by, filter.Code)
	}
	for _, name := range d.Table.Columns[:min(len(d.Table.Columns), 2)] {
		by = append(by, filter.Field(name))
	}
	d.Facets = make([]facet, len(by))
	ctx, cancel := context.WithTimeout(q.Context(), facetTime)
	defer cancel()
	var wg sync.WaitGroup
	for i, field := range by {
		wg.Go(func() {
			rest := where.Without(field)
			n, err := q.client.Count(ctx, client.CountOptions{Where: rest.String(), By: string(field), Within: facetReads})
			if err == nil || n.Count > 0 {
				d.Facets[i] = d.facet(where, rest, field, n)
			}
		})
	}
	wg.Wait()
	d.Facets = slices.DeleteFunc(d.Facets, func(f facet) bool { return len(f.Links) == 0 })
}

func (d *listData) facet(where, rest filter.Where, field filter.Field, n client.Counts) facet {
	groups := n.Groups
	if field == filter.Status { // in a fixed order, including statuses without instances
		groups = nil
		for _, s := range []client.Status{client.Running, client.Pending, client.Paused, client.Completed, client.Failed, client.Cancelled} {
			groups = append(groups, client.Group{Value: string(s), Count: n.Status[s]})
		}
	} else if len(groups) < 2 && len(rest) == len(where) {
		return facet{} // there is no choice
	}
	chosen, _ := where.Exactly(field)
	f := facet{Name: string(field), Links: []link{{Name: "all", Count: n.Count, More: n.AtLeast, URL: d.at(rest.String(), ""), Current: len(rest) == len(where)}}}
	for _, g := range groups[:min(len(groups), facetValues)] {
		if g.Value == "" {
			continue // no filter selects instances without a value
		}
		f.Links = append(f.Links, link{
			Name: text.Shorten(g.Value, maxCell), Count: g.Count, More: n.AtLeast || n.Other > 0, URL: d.at(rest.Is(field, g.Value).String(), ""), Current: slices.Contains(chosen, g.Value),
		})
		if field == filter.Status {
			f.Links[len(f.Links)-1].Class = pills[g.Value]
		}
	}
	return f
}

// completion returns the completions of a filter as JSON: fields, attributes, and known values.
func completion(orchestrations []string, instances []api.Instance) string {
	attributes, codes := attributesOf(instances), map[string]bool{}
	for _, i := range instances {
		if i.Code != "" {
			codes[i.Code] = true
		}
	}
	known := map[filter.Field][]string{
		filter.Status: filter.Statuses(), filter.Orchestration: orchestrations, filter.Code: slices.Sorted(maps.Keys(codes)),
	}
	fields := filter.Fields()
	for _, f := range fields {
		if f.Flag() {
			known[f] = []string{"true"}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		f := filter.Field(name)
		fields = append(fields, f)
		slices.Sort(attributes[name])
		known[f] = slices.Compact(attributes[name])
	}
	b, _ := json.Marshal(struct { //nolint:errchkjson // texts
		Fields []filter.Field            `json:"fields"`
		Times  []filter.Field            `json:"times"`
		Values map[filter.Field][]string `json:"values"`
	}{fields, slices.DeleteFunc(filter.Fields(), func(f filter.Field) bool { return !f.Timed() }), known})
	return string(b)
}
