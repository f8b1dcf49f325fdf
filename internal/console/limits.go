package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
)

const maxWaiters = "50"

func listLimits(q *request) (view, error) {
	var limits api.Actions
	var set api.Policies
	if err := q.call(http.MethodGet, "/actions", url.Values{"limit": {"1000"}}, nil, &limits); err != nil {
		return view{}, err
	}
	if err := q.call(http.MethodGet, "/policies", nil, nil, &set); err != nil {
		return view{}, err
	}
	worstFirst(limits.Actions)
	data := struct {
		api.Actions

		Policies []api.LevelPolicy
	}{limits, set.Policies}
	return view{template: "limits", title: "Limits", section: "limits", data: data, live: "/api/v1/watch?"}, nil
}

// limitData is one limit: of an action, or of one value of its key.
type limitData struct {
	api.QueueStats

	Waiters, Holders api.Waiters
	Problem          string // why the waiters are not listed
	KeyQuery         string // "?key=…", or empty
}

func (q *request) limit() (d limitData, err error) {
	action, query := q.PathValue("action"), url.Values{}
	if key := q.FormValue("key"); key != "" {
		query.Set("key", key)
		d.KeyQuery = "?" + query.Encode()
	}
	path := "/actions/" + url.PathEscape(action)
	if err := q.call(http.MethodGet, path+"/queue-stats", query, nil, &d.QueueStats); err != nil {
		return d, err
	}
	query.Set("limit", maxWaiters)
	if err := q.call(http.MethodGet, path+"/waiters", query, nil, &d.Waiters); err != nil {
		d.Problem = err.Error() // an action with keys has waiters for each of them
		return d, nil           //nolint:nilerr // the page shows it
	}
	query.Set("holders", "true")
	err = q.call(http.MethodGet, path+"/waiters", query, nil, &d.Holders)
	return d, err
}

func showLimit(q *request) (view, error) {
	d, err := q.limit()
	return view{template: "limit", title: diagnose.ActionAndKey(d.Action, d.Key), section: "limits", data: d, live: "/api/v1/watch?"}, err
}

func limitPath(q *request) string {
	path := "/limits/" + url.PathEscape(q.PathValue("action"))
	if key := q.FormValue("key"); key != "" {
		path += "?" + url.Values{"key": {key}}.Encode()
	}
	return path
}

func clearForm(q *request) (view, error) {
	d, err := q.limit()
	if err != nil {
		return view{}, err
	}
	name := diagnose.ActionAndKey(d.Action, d.Key)
	command := "pawl queue clear " + shellQuote(d.Action)
	if d.Key != "" {
		command += " --key " + shellQuote(d.Key)
	}
	return confirmation(confirmData{
		Section: "limits", Title: "Reject all waiters of " + name, Back: limitPath(q), Button: "Reject " + diagnose.Counted(int(d.QueueLength), "waiter"), //nolint:gosec // a length
		Effects: []string{
			fmt.Sprintf("%s at the moment, and those that arrive before the request does.", diagnose.Counted(int(d.QueueLength), "waiter")), //nolint:gosec // a length
			"Activities among them fail with pawl.queue-cleared; instances that wait for their start are cancelled.",
			"Holders continue.",
		},
		Command: command, Fields: []field{{Name: "key", Value: d.Key, Hidden: true}},
	}), nil
}

func clearLimit(q *request) (view, error) {
	query := url.Values{}
	if key := q.PostFormValue("key"); key != "" {
		query.Set("key", key)
	}
	err := q.call(http.MethodPost, "/actions/"+url.PathEscape(q.PathValue("action"))+"/clear", query, nil, nil)
	return view{redirect: limitPath(q)}, err
}

// policyData is a policy as its form has it.
type policyData struct {
	Level   string
	Policy  api.Policy
	Set     bool // at run time
	Problem string
}

func (q *request) policyOf(level string) (p policyData, err error) {
	var set api.Policies
	if err := q.call(http.MethodGet, "/policies", nil, nil, &set); err != nil {
		return p, err
	}
	p.Level = level
	for _, l := range set.Policies {
		if l.Level == level {
			p.Policy, p.Set = l.Policy, true
		}
	}
	action, isAction := strings.CutPrefix(level, "action:")
	if isAction && !p.Set { // begin with what is in force
		var s api.QueueStats
		if q.call(http.MethodGet, "/actions/"+url.PathEscape(action)+"/queue-stats", nil, nil, &s) == nil {
			p.Policy = s.Policy
		}
	}
	return p, nil
}

func policyForm(q *request) (view, error) {
	p, err := q.policyOf(q.PathValue("level"))
	return view{template: "policy", title: "Policy of " + p.Level, section: "limits", data: p}, err
}

// setPolicy sets what the form has, or removes what was set. A form that is not valid is shown again.
func setPolicy(q *request) (view, error) {
	level := q.PathValue("level")
	path := "/policies/" + url.PathEscape(level)
	if q.PostFormValue("remove") != "" {
		return view{redirect: "/limits"}, q.call(http.MethodDelete, path, nil, nil, nil)
	}
	p, err := q.policyFields()
	if err == nil {
		err = q.call(http.MethodPut, path, nil, p, nil)
	}
	if err == nil {
		return view{redirect: "/limits"}, nil
	}
	e := problemOf(err)
	if e.Status != http.StatusBadRequest {
		return view{}, err
	}
	return view{
		template: "policy", title: "Policy of " + level, section: "limits", status: e.Status,
		data: policyData{Level: level, Policy: p, Problem: e.Detail},
	}, nil
}

func (q *request) policyFields() (p api.Policy, err error) {
	number := func(name string, bits int) uint64 {
		text := q.PostFormValue(name)
		if text == "" || err != nil {
			return 0
		}
		n, bad := strconv.ParseUint(text, 10, bits)
		if bad != nil {
			err = &apiError{Status: http.StatusBadRequest, Detail: fmt.Sprintf("%s %q is not a number in range", name, text)}
		}
		return n
	}
	span := func(name string) int64 {
		text := q.PostFormValue(name)
		if text == "" || err != nil {
			return 0
		}
		d, bad := time.ParseDuration(text)
		if bad != nil {
			err = &apiError{Status: http.StatusBadRequest, Detail: fmt.Sprintf("%s %q is not a duration such as 30s or 24h", name, text)}
		}
		return d.Milliseconds()
	}
	p = api.Policy{
		Concurrency: uint32(number("concurrency", 32)), Rate: uint32(number("rate", 32)), RateWindowMS: span("rate_window"), //nolint:gosec // parsed with 32 bits
		Quota: number("quota", 63), QuotaWindowMS: span("quota_window"), Key: q.PostFormValue("key"),
		QueueLimit: uint32(number("queue_limit", 32)), QueueTimeoutMS: span("queue_timeout"), Reject: q.PostFormValue("reject") != "", //nolint:gosec // parsed with 32 bits
	}
	return p, err
}

// RateWindow is the window as the form has it.
func (p policyData) RateWindow() string { return windowText(p.Policy.RateWindowMS) }

// QuotaWindow is the window as the form has it.
func (p policyData) QuotaWindow() string { return windowText(p.Policy.QuotaWindowMS) }

// QueueTimeout is the timeout as the form has it.
func (p policyData) QueueTimeout() string { return windowText(p.Policy.QueueTimeoutMS) }

func windowText(ms int64) string {
	if ms == 0 {
		return ""
	}
	return diagnose.Span(time.Duration(ms) * time.Millisecond)
}
