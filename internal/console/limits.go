package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

const maxWaiters = "50"

func (c *console) listLimits(q *request) (view, error) {
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

		Policies   []api.LevelPolicy
		Paused     []pausedAction
		Known      api.Registered // actions that can be paused
		Deadlocked []api.QueueStats
	}{Actions: limits}
	data.Paused, data.Policies = pausedActions(set.Policies)
	if q.user.Role >= access.Operator {
		workers, _, _ := c.workers.latest(q.client) // the form works without them
		data.Known = api.RegisteredOf(q.orchestrations(), workers)
	}
	for _, s := range limits.Actions {
		if s.Deadlocked {
			data.Deadlocked = append(data.Deadlocked, s)
		}
	}
	return view{template: "limits", title: "Limits", section: "limits", data: data, live: "/api/v1/watch?"}, nil
}

// limitData is a limit of an action, or of one value of its key.
type limitData struct {
	api.QueueStats

	Waiters, Holders api.Waiters
	Problem          string // why the waiters are not listed
	KeyQuery         string // "?key=…", or empty
	Forecast         string
	Later            bool // the forecast will be known in a second
}

// info returns the fields of a limit that forecasts use.
func info(s api.QueueStats) client.QueueInfo {
	return client.QueueInfo{Waiting: s.QueueLength, Active: s.ActiveCount, Keys: s.Keys, Deadlocked: s.Deadlocked, Policy: s.Policy.Client()}
}

const (
	maxThroughputs = 1000
	minInterval    = time.Second      // minimum time between two readings that are compared
	baselineAge    = 30 * time.Second // age at which the earlier reading is replaced
	staleReading   = 5 * time.Minute
)

// throughputs measures how many calls of each limit complete per second, by comparing the readings of its pages. It is safe for
// concurrent use; the zero value is empty.
type throughputs struct {
	mu sync.Mutex
	of map[string]throughput
}

type throughput struct {
	completed uint64
	at        time.Time
	perSecond float64
	known     bool
}

// read records a reading and returns the completed calls per second, which are unknown before the second reading.
func (p *throughputs) read(s api.QueueStats, now time.Time) (perSecond float64, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil || len(p.of) >= maxThroughputs {
		p.of = make(map[string]throughput)
	}
	key := s.Action + "\x00" + s.Key
	last, seen := p.of[key]
	between := now.Sub(last.at)
	if !seen || between > staleReading || s.TotalCompleted < last.completed {
		p.of[key] = throughput{completed: s.TotalCompleted, at: now}
		return 0, false
	}
	if between < minInterval {
		return last.perSecond, last.known
	}
	next := last
	next.perSecond, next.known = float64(s.TotalCompleted-last.completed)/between.Seconds(), true
	if between > baselineAge {
		next.completed, next.at = s.TotalCompleted, now
	}
	p.of[key] = next
	return next.perSecond, true
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
		d.Problem = err.Error() // an action with keys has waiters per key
		return d, nil           //nolint:nilerr // the page shows it
	}
	query.Set("holders", "true")
	err = q.call(http.MethodGet, path+"/waiters", query, nil, &d.Holders)
	return d, err
}

func (c *console) showLimit(q *request) (view, error) {
	d, err := q.limit()
	perSecond, known := c.throughputs.read(d.QueueStats, q.now)
	d.Forecast = diagnose.Forecast(info(d.QueueStats), perSecond)
	d.Later = !known && d.QueueLength > 0
	return view{template: "limit", title: diagnose.ActionAndKey(d.Action, d.Key), section: "limits", data: d, live: "/api/v1/watch?"}, err
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
		Section: "limits", Title: "Reject all waiters of " + name, Back: limitURL(d.Action, d.Key), Button: "Reject " + diagnose.Counted(int(d.QueueLength), "waiter"), //nolint:gosec // a length
		Effects: []string{
			fmt.Sprintf("%s at the moment, and those that arrive before the request does.", diagnose.Counted(int(d.QueueLength), "waiter")), //nolint:gosec // a length
			"Activities among them fail with pawl.queue-cleared; instances that wait for their start are cancelled.",
			"Holders continue.",
		},
		Command: command, Fields: []field{{Name: "key", Value: d.Key, Kind: "hidden"}},
	}), nil
}

func clearLimit(q *request) (view, error) {
	query := url.Values{}
	if key := q.PostFormValue("key"); key != "" {
		query.Set("key", key)
	}
	err := q.call(http.MethodPost, "/actions/"+url.PathEscape(q.PathValue("action"))+"/clear", query, nil, nil)
	return view{redirect: limitURL(q.PathValue("action"), q.FormValue("key"))}, err
}

// policyData is the form of a policy.
type policyData struct {
	Level   string
	Policy  api.Policy
	Set     bool // the policy was set at run time
	Problem string
	Preview []string // what the policy in the form would change
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
	if isAction && !p.Set { // start with the policy in force
		var s api.QueueStats
		if q.call(http.MethodGet, "/actions/"+url.PathEscape(action)+"/queue-stats", nil, nil, &s) == nil {
			p.Policy = s.Policy
		}
	}
	return p, nil
}

func policyForm(q *request) (view, error) {
	p, err := q.policyOf(q.PathValue("level"))
	return policyView(p, 0), err
}

// setPolicy sets or removes a policy. An invalid form is shown again.
func setPolicy(q *request) (view, error) {
	level := q.PathValue("level")
	path := "/policies/" + url.PathEscape(level)
	if q.PostFormValue("remove") != "" {
		return view{redirect: "/limits"}, q.call(http.MethodDelete, path, nil, nil, nil)
	}
	p, err := q.policyFields()
	if err == nil {
		err = p.Client().Validate()
	}
	if err == nil && q.PostFormValue("preview") != "" {
		return q.previewed(level, p)
	}
	if err == nil {
		err = q.call(http.MethodPut, path, nil, p, nil)
	}
	if err == nil {
		return view{redirect: "/limits"}, nil
	}
	e := problemOf(err)
	if _, invalid := errors.AsType[*history.PolicyError](err); invalid {
		e.Status = http.StatusBadRequest
	}
	if e.Status != http.StatusBadRequest {
		return view{}, err
	}
	return policyView(policyData{Level: level, Policy: p, Problem: e.Detail}, e.Status), nil
}

func policyView(d policyData, status int) view {
	return view{template: "policy", title: "Policy of " + d.Level, section: "limits", status: status, data: d}
}

// previewed shows the form again, with what its policy would change.
func (q *request) previewed(level string, p api.Policy) (view, error) {
	d := policyData{Level: level, Policy: p}
	action, isAction := strings.CutPrefix(level, "action:")
	if !isAction {
		d.Preview = []string{diagnose.Policy(p.Client()) + ": for every action that neither its code nor a more specific level limits."}
		return policyView(d, 0), nil
	}
	var s api.QueueStats
	if err := q.call(http.MethodGet, "/actions/"+url.PathEscape(action)+"/queue-stats", nil, nil, &s); err != nil {
		return view{}, err
	}
	d.Preview = diagnose.Preview(info(s), p.Client())
	return policyView(d, 0), nil
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

// windowText formats a duration for a field of a policy; zero is empty.
func windowText(ms int64) string {
	if ms == 0 {
		return ""
	}
	return diagnose.Span(time.Duration(ms) * time.Millisecond)
}
