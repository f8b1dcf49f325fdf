package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/nats-io/nuid"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
)

const (
	maxBulk      = 10_000 // instances of a job
	bulkParallel = 16     // requests of a job at a time
	maxJobs      = 50     // that are kept, finished ones among them
	maxShownFail = 20     // failures of a job that are shown
)

// jobs are changes of many instances, and what else runs beside the requests. They run in this process and end with it. It is safe for concurrent use.
type jobs struct {
	ctx  context.Context //nolint:containedctx // ends with the console
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu  sync.Mutex
	all []*job // the oldest first
}

// job is a change of many instances.
type job struct {
	mu sync.Mutex
	jobState
}

// jobState is how a job stands.
type jobState struct {
	ID, Name    string
	By          string
	Total, Done int
	Failed      int
	Failures    []bulkFailure
	Running     bool
	Stopped     bool // before its end, with this process
}

type bulkFailure struct{ Instance, Problem string }

func newJobs() *jobs {
	ctx, stop := context.WithCancel(context.Background())
	return &jobs{ctx: ctx, stop: stop}
}

// close ends the jobs and joins them.
func (j *jobs) close() {
	j.stop()
	j.wg.Wait()
}

// run calls a function beside its caller; its context ends with the console.
func (j *jobs) run(f func(context.Context)) { j.wg.Go(func() { f(j.ctx) }) }

func (j *jobs) find(id string) *job {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, one := range j.all {
		if one.ID == id {
			return one
		}
	}
	return nil
}

// start runs a change of each instance, 16 at a time.
func (j *jobs) start(name, by string, ids []string, change func(ctx context.Context, id string) error) *job {
	one := &job{jobState: jobState{ID: nuid.Next(), Name: name, By: by, Total: len(ids), Running: true}}
	j.mu.Lock()
	j.all = append(j.all, one)
	j.all = j.all[max(0, len(j.all)-maxJobs):]
	j.mu.Unlock()
	next := make(chan string)
	j.wg.Go(func() {
		defer close(next)
		for _, id := range ids {
			select {
			case next <- id:
			case <-j.ctx.Done():
				return
			}
		}
	})
	j.wg.Go(func() {
		var wg sync.WaitGroup
		for range min(bulkParallel, len(ids)) {
			wg.Go(func() {
				for id := range next {
					one.note(id, change(j.ctx, id))
				}
			})
		}
		wg.Wait()
		one.mu.Lock()
		defer one.mu.Unlock()
		one.Running, one.Stopped = false, one.Done < one.Total
	})
	return one
}

func (one *job) note(id string, err error) {
	one.mu.Lock()
	defer one.mu.Unlock()
	one.Done++
	if err == nil {
		return
	}
	one.Failed++
	if len(one.Failures) < maxShownFail {
		one.Failures = append(one.Failures, bulkFailure{id, err.Error()})
	}
}

func (one *job) now() jobState {
	one.mu.Lock()
	defer one.mu.Unlock()
	s := one.jobState
	s.Failures = append([]bulkFailure(nil), s.Failures...)
	return s
}

// Percent is how much of the job is done.
func (s jobState) Percent() int { return 100 * s.Done / max(1, s.Total) }

// bulk is a change of many instances as it is requested.
type bulk struct {
	purge bool
	ids   []string // that can be changed
	other int      // that cannot: they have ended, or for a purge have not
	more  bool     // there are more than 10,000
}

// selection reads which instances are meant: those that are checked, or all that pass the filter.
func (q *request) selection() (b bulk, err error) {
	switch q.PostFormValue("op") {
	case "cancel":
	case "purge":
		b.purge = true
	default:
		return b, &apiError{Status: http.StatusBadRequest, Detail: "Choose what to do: cancel or purge."}
	}
	if b.purge && q.user.Role < access.Admin {
		return b, &apiError{Status: http.StatusForbidden, Detail: q.user.Name + " may not purge: this requires the role admin."}
	}
	if q.PostFormValue("all") == "" {
		b.ids = q.PostForm["instance"]
		if len(b.ids) == 0 {
			return b, &apiError{Status: http.StatusBadRequest, Detail: "No instance is selected.", Do: "select some in the list"}
		}
		b.more = len(b.ids) > maxBulk
		b.ids = b.ids[:min(len(b.ids), maxBulk)]
		return b, nil
	}
	query := url.Values{"limit": {"1000"}, "where": {q.PostFormValue("where")}}
	for {
		var page api.Instances
		if err := q.call(http.MethodGet, "/instances", query, nil, &page); err != nil {
			return b, err
		}
		if page.Incomplete != "" {
			return b, &apiError{Status: http.StatusServiceUnavailable, Detail: "Not all instances could be listed: " + page.Incomplete, Do: "repeat it in a moment"}
		}
		for _, i := range page.Instances {
			switch ended := i.Ended != ""; {
			case ended != b.purge:
				b.other++
			case len(b.ids) == maxBulk:
				b.more = true
				return b, nil
			default:
				b.ids = append(b.ids, i.Instance)
			}
		}
		if page.Next == "" {
			return b, nil
		}
		query.Set("cursor", page.Next)
	}
}

func (b bulk) name() string {
	if b.purge {
		return "Purge " + diagnose.Counted(len(b.ids), "instance")
	}
	return "Cancel " + diagnose.Counted(len(b.ids), "instance")
}

// bulkForm counts what a change would meet, and asks.
func bulkForm(q *request) (view, error) {
	b, err := q.selection()
	if err != nil {
		return view{}, err
	}
	c := confirmData{
		Section: "instances", Title: b.name(), Back: "/instances", Action: "/bulk/run", Button: b.name(),
		Fields: []field{{Name: "reason", Label: "Reason (recorded in each history)"}, {Name: "op", Value: q.PostFormValue("op"), Hidden: true}},
	}
	if b.purge {
		c.Effects = []string{"The instances are removed with their histories and results. They cannot be restored."}
	} else {
		c.Effects = []string{"Each instance is asked to end; its outstanding activities and children are cancelled.", "A cancellation cannot be taken back."}
	}
	if b.other > 0 && b.purge {
		c.Effects = append(c.Effects, diagnose.Counted(b.other, "instance")+" of the filter have not ended and stay.")
	} else if b.other > 0 {
		c.Effects = append(c.Effects, diagnose.Counted(b.other, "instance")+" of the filter have ended already.")
	}
	if b.more {
		c.Effects = append(c.Effects, "There are more: a job changes 10,000 instances. Repeat it for the rest.")
	}
	if all := q.PostFormValue("all"); all != "" {
		c.Fields = append(c.Fields, field{Name: "all", Value: all, Hidden: true}, field{Name: "where", Value: q.PostFormValue("where"), Hidden: true})
		c.Effects = append(c.Effects, "The list is read again when you confirm: instances that have come in between are included.")
	} else {
		for _, id := range b.ids {
			c.Fields = append(c.Fields, field{Name: "instance", Value: id, Hidden: true})
		}
	}
	if len(b.ids) == 0 {
		return view{}, &apiError{Status: http.StatusConflict, Detail: "No instance can be changed that way.", Do: "change the filter"}
	}
	return confirmation(c), nil
}

// runBulk begins the job. Each change is a request to the API, with the credentials of this one.
func (c *console) runBulk(q *request) (view, error) {
	b, err := q.selection()
	if err != nil {
		return view{}, err
	}
	reason := q.PostFormValue("reason")
	one := c.jobs.start(b.name(), q.user.Name, b.ids, func(ctx context.Context, id string) error {
		each := *q
		each.Request = q.WithContext(ctx)
		err := each.change(b.purge, id, reason)
		if e, is := errors.AsType[*apiError](err); is && e.Status == http.StatusNotFound {
			return nil // it is gone
		}
		return err
	})
	return view{redirect: "/bulk/" + one.ID}, nil
}

// change cancels or purges an instance.
func (q *request) change(purge bool, id, reason string) error {
	if purge {
		query := url.Values{}
		if reason != "" {
			query.Set("reason", reason)
		}
		return q.call(http.MethodDelete, instancePath(id), query, nil, nil)
	}
	body := map[string]string{}
	if reason = strings.TrimSpace(reason); reason != "" {
		body["reason"] = reason
	}
	return q.call(http.MethodPost, instancePath(id)+"/cancel", nil, body, nil)
}

// showJob shows how a job stands; the page reads itself again while it runs.
func (c *console) showJob(q *request) (view, error) {
	one := c.jobs.find(q.PathValue("job"))
	if one == nil {
		return view{}, &apiError{Status: http.StatusNotFound, Detail: "There is no such job in this process.", Do: "jobs end with the process that runs them"}
	}
	s := one.now()
	v := view{template: "job", title: s.Name, section: "instances", data: s}
	if s.Running {
		v.refresh = fmt.Sprint(1)
	}
	return v, nil
}
