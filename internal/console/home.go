package console

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/pkg/client"
)

const (
	homeRows     = 8
	homeWaiting  = 5   // the longest waiting instances that are shown
	homeOldest   = 50  // the oldest instances among which they are searched
	homeFailures = 100 // the latest failures, grouped by their code
	workersFresh = time.Second
	workersKept  = time.Minute
)

// homeData is the start page.
type homeData struct {
	Stalled      []api.Instance
	Limits       []api.QueueStats // limits that are deadlocked or have waiters
	Workers      []api.Worker     // workers that are not ready or have abandoned activities
	WorkerCount  int
	WorkersKnown bool
	WorkersLater bool // the workers have been requested to answer, and have not answered yet
	Failures     []failureGroup
	FailuresOf   int // number of failures in the groups
	Tiles        []tile
	Waiting      []api.Instance // instances without a commit for the longest time
	Latest       []api.Instance
	Stores       storesData
	Problem      string // error of an incomplete page
}

// storesData is the state of Redis and NATS.
type storesData struct {
	Rows     []storeRow
	Problems []storeRow // rows that need attention
}

// storeRow is a Redis node or a stream, with its state as a sentence.
type storeRow struct{ Name, Text, Class string }

func (d *storesData) add(name, text, problem string) {
	r := storeRow{Name: name, Text: text, Class: "ok"}
	if problem != "" {
		r.Class = "bad"
		d.Problems = append(d.Problems, storeRow{Name: name, Text: problem})
	}
	d.Rows = append(d.Rows, r)
}

// stores describes Redis and NATS from the point of view of an orchestrator.
func (q *request) stores() (d storesData, _ error) {
	h, err := q.client.Health(q.Context())
	if err != nil {
		return d, err
	}
	for _, n := range h.Redis {
		d.add(strings.TrimSpace("Redis "+n.Address), diagnose.Redis(n), diagnose.RedisProblem(n))
	}
	if h.RedisError != "" {
		d.add("Redis", h.RedisError, h.RedisError)
	}
	d.add(strings.TrimSpace("NATS "+h.NATS.Version), "answers in "+diagnose.Latency(h.NATS.Latency), h.NATSError)
	for _, s := range h.NATS.Streams {
		problem := s.Error
		if s.Behind > 0 {
			problem = diagnose.Stream(s)
		}
		d.add("NATS stream", diagnose.Stream(s), problem)
	}
	for _, queue := range slices.Sorted(maps.Keys(h.NATS.Backlog)) {
		d.add("Task queue "+queue, diagnose.Counted(int(h.NATS.Backlog[queue]), "task")+" not claimed by a worker", "") //nolint:gosec // a length
	}
	return d, nil
}

// tile counts the instances with a status, and how many reached it in the last minute and hour.
type tile struct {
	Name, Class, URL    string
	Count, Minute, Hour uint64
	Ends                bool // the status is final
}

// failureGroup is a group of failed instances with the same code.
type failureGroup struct {
	Code           string // empty: errors without a code
	Count          int
	Orchestrations []string
	Latest         client.Summary
}

// home shows what needs attention. Its parts are read in parallel, and the page does not wait for workers.
func (c *console) home(q *request) (view, error) {
	var d homeData
	var problems [6]error
	var wg sync.WaitGroup
	wg.Go(func() { problems[0] = q.rates(&d) })
	wg.Go(func() { d.Stalled, problems[1] = q.stalled(homeRows) })
	wg.Go(func() { d.Limits, problems[2] = q.fullLimits() })
	wg.Go(func() {
		for row, err := range q.client.List(q.Context(), client.ListOptions{Limit: homeRows}) {
			if err != nil {
				problems[3] = err
				return
			}
			d.Latest = append(d.Latest, api.SummaryOf(row))
		}
	})
	wg.Go(func() { d.Stores, problems[4] = q.stores() })
	wg.Go(func() { d.Waiting, problems[5] = q.waiting() })
	wg.Wait()
	all, known, later := c.workers.latest(q.client) // read last, when most workers have answered
	d.WorkerCount, d.WorkersKnown, d.WorkersLater = len(all), known, later
	for _, w := range all {
		if w.NotReady != "" || len(w.Abandoned) > 0 {
			d.Workers = append(d.Workers, api.WorkerOf(w))
		}
	}
	if err := cmp.Or(problems[:]...); err != nil {
		d.Problem = problemOf(err).Detail
	}
	if d.Problem == noAnswer {
		d.Problem += " What is shown is incomplete. " + outageHint
	}
	return view{template: "home", title: "Home", section: "home", data: d, live: "/api/v1/watch?"}, nil
}

// waiting returns the instances whose latest commit is the oldest, among the oldest instances that have not ended. The index
// is sorted by the time of the status change, and an instance that waits for long changed its status long ago. Schedules are
// skipped, because they wait by design.
func (q *request) waiting() (all []api.Instance, _ error) {
	for row, err := range q.client.List(q.Context(), client.ListOptions{Where: "status in (pending, running, paused)", Oldest: true, Limit: homeOldest}) {
		if err != nil {
			return nil, err
		}
		if kindOf(row.Orchestration) != "schedule" {
			all = append(all, api.SummaryOf(row))
		}
	}
	slices.SortStableFunc(all, func(a, b api.Instance) int { return strings.Compare(a.Updated, b.Updated) })
	return all[:min(len(all), homeWaiting)], nil
}

// rates counts the instances by status, and groups the failures of the last hour, if any.
func (q *request) rates(d *homeData) error {
	hour := q.now.Add(-time.Hour)
	n, err := q.client.Count(q.Context(), client.CountOptions{By: "status", EndedSince: []time.Time{q.now.Add(-time.Minute), hour}})
	for _, s := range []client.Status{client.Running, client.Pending, client.Paused, client.Completed, client.Failed, client.Cancelled} {
		if s == client.Paused && n.Status[s] == 0 {
			continue // shown only if there are any
		}
		d.Tiles = append(d.Tiles, tile{
			Name: string(s), Class: pills[string(s)], URL: listPath(filter.Where{}.Is(filter.Status, string(s)).String()), Ends: s.Ended(),
			Count: n.Status[s], Minute: n.Ended[0][s], Hour: n.Ended[1][s],
		})
	}
	if err != nil && n.Count == 0 {
		d.Tiles = nil // the counts are unknown
		return err
	}
	stalled := tile{Name: "stalled", Class: "ok", URL: "/stalled", Count: n.Stalled}
	if n.Stalled > 0 {
		stalled.Class = "bad"
	}
	d.Tiles = append(d.Tiles, stalled)
	if err != nil || n.Ended[1][client.Failed] == 0 {
		return err
	}
	return q.failures(d, hour)
}

// failures groups the latest failures since a time by their code, most frequent first.
func (q *request) failures(d *homeData, since time.Time) error {
	for row, err := range q.client.List(q.Context(), client.ListOptions{Status: client.Failed, Limit: homeFailures}) {
		if err != nil {
			return err
		}
		if row.Updated.Before(since) {
			break
		}
		d.FailuresOf++
		i := slices.IndexFunc(d.Failures, func(g failureGroup) bool { return g.Code == row.Code })
		if i < 0 {
			i = len(d.Failures)
			d.Failures = append(d.Failures, failureGroup{Code: row.Code, Latest: row})
		}
		g := &d.Failures[i]
		if g.Count++; !slices.Contains(g.Orchestrations, row.Orchestration) {
			g.Orchestrations = append(g.Orchestrations, row.Orchestration)
		}
	}
	slices.SortStableFunc(d.Failures, func(a, b failureGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Code, b.Code))
	})
	return nil
}

// workers caches the latest answers of the workers. Their number is unknown, so a request waits half a second for answers; a
// page does not wait. It is safe for concurrent use.
type workers struct {
	jobs *jobs

	mu         sync.Mutex
	all        []client.WorkerInfo
	at         time.Time // time of the answers; zero: never requested
	refreshing bool
}

// latest returns the answers of the last minute, whether there are any, and whether newer ones will follow. Answers older
// than a second are requested again in the background.
func (w *workers) latest(cl *client.Client) (all []client.WorkerInfo, known, later bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	age := time.Since(w.at)
	if age > workersFresh && !w.refreshing {
		w.refreshing = true
		w.jobs.run(func(ctx context.Context) { w.refresh(ctx, cl) })
	}
	if age > workersKept {
		return nil, false, true
	}
	return w.all, true, w.refreshing
}

func (w *workers) refresh(ctx context.Context, cl *client.Client) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	all, _ := cl.Workers(ctx) // an error means no connection, and thus no workers
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all, w.at, w.refreshing = all, time.Now(), false
}
