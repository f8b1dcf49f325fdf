package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nuid"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
)

const (
	bulkParallel = 16 // requests of a job at a time
	maxJobs      = 50 // that are kept, finished ones among them
	maxShownFail = 20 // failures of a job that are shown
	maxCommands  = 5  // lines of the command line for listed instances
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

// bulkOp is what can be done to many instances. One with the name of a verb of a batch may be done to all that pass a filter.
type bulkOp struct {
	verb    string
	role    access.Role
	effects []string
	mild    bool
	ids     bool   // of listed instances only: it is no verb of a batch
	plain   bool   // without a reason
	command string // of the command line, in front of an id; empty: it is not shown
	change  func(q *request, id, reason string) error
}

// operated is the request of an operator, with the effects that the page of one instance names.
func operated(verb string) bulkOp {
	return bulkOp{
		verb: strings.ToUpper(verb[:1]) + verb[1:], role: access.Operator, effects: verbs[verb].Effects, mild: verbs[verb].Mild,
		change: func(q *request, id, reason string) error { return q.post(id, verb, reason) },
	}
}

var bulkOps = map[string]bulkOp{
	"cancel": {
		verb: "Cancel", role: access.Operator,
		effects: []string{"Each instance is asked to end; its outstanding activities and children are cancelled.", "A cancellation cannot be taken back."},
		change:  func(q *request, id, reason string) error { return q.post(id, "cancel", reason) },
	},
	"purge": {
		verb: "Purge", role: access.Admin,
		effects: []string{"The instances are removed with their histories and results. They cannot be restored.", "Those that have not ended stay."},
		change:  func(q *request, id, reason string) error { return q.remove(id, reason, false) },
	},
	"pause": operated("pause"), "resume": operated("resume"), "terminate": operated("terminate"),
	"retry": {
		verb: "Retry", role: access.Operator, mild: true,
		effects: []string{"Each failed or cancelled instance goes on before its failure: what has completed does not run again."},
		change:  func(q *request, id, reason string) error { return q.post(id, "retry", reason) },
	},
	"requeue": {
		verb: "Try again", role: access.Operator, mild: true, ids: true, plain: true, command: "pawl requeue",
		effects: []string{"Each stalled instance is loaded and run again now, instead of after its pause of up to a minute.", "What cannot go on stalls again."},
		change:  func(q *request, id, _ string) error { return q.post(id, "requeue", "") },
	},
	"drop": {
		verb: "Drop", role: access.Admin, ids: true,
		effects: []string{"The instances are purged by force, with their inputs and histories: they cannot be restored.", "Activities and children that can be read are cancelled."},
		change:  func(q *request, id, reason string) error { return q.remove(id, reason, true) },
	},
	"forget": {
		verb: "Remove the notes of", role: access.Operator, mild: true, ids: true, plain: true,
		effects: []string{"The notes of refused inputs are removed. Instances with these ids are not affected."},
		change: func(q *request, id, _ string) error {
			return q.call(http.MethodDelete, "/refused/"+url.PathEscape(id), nil, nil, nil)
		},
		command: "pawl refused --drop",
	},
}

func (q *request) post(id, what, reason string) error {
	body := map[string]string{}
	if reason = strings.TrimSpace(reason); reason != "" {
		body["reason"] = reason
	}
	return q.call(http.MethodPost, instancePath(id)+"/"+what, nil, body, nil)
}

func (q *request) remove(id, reason string, force bool) error {
	query := url.Values{}
	if reason != "" {
		query.Set("reason", reason)
	}
	if force {
		query.Set("force", "true")
	}
	return q.call(http.MethodDelete, instancePath(id), query, nil, nil)
}

// bulk is a change of many instances as it is requested: of listed ones, or of all that pass a filter.
type bulk struct {
	bulkOp

	op, where string
	all       bool // that pass the filter: a batch changes them
	ids       []string
}

// selection reads which instances are meant.
func (q *request) selection() (b bulk, err error) {
	b.op, b.where, b.all = q.PostFormValue("op"), strings.TrimSpace(q.PostFormValue("where")), q.PostFormValue("all") != ""
	op, known := bulkOps[b.op]
	if !known || b.all && op.ids {
		return b, &apiError{Status: http.StatusBadRequest, Detail: "Choose what to do, such as cancel or purge."}
	}
	b.bulkOp = op
	if q.user.Role < op.role {
		return b, &apiError{Status: http.StatusForbidden, Detail: fmt.Sprintf("%s may not do this: it requires the role %s.", q.user.Name, op.role)}
	}
	if b.ids = q.PostForm["instance"]; len(b.ids) == 0 && !b.all {
		return b, &apiError{Status: http.StatusBadRequest, Detail: "No instance is selected.", Do: "select some in the list"}
	}
	return b, nil
}

// request is the body of a batch.
func (b *bulk) request(more map[string]any) map[string]any {
	more["verb"] = b.op
	if b.where == "" {
		more["all"] = true
	} else {
		more["where"] = b.where
	}
	return more
}

// bulkForm counts what a change would meet, and asks.
func bulkForm(q *request) (view, error) {
	b, err := q.selection()
	if err != nil {
		return view{}, err
	}
	c := confirmData{
		Section: "instances", Title: b.verb + " " + diagnose.Counted(len(b.ids), "instance"), Back: "/instances", Action: "/bulk/run", Effects: slices.Clone(b.effects), Mild: b.mild,
		Fields: []field{{Name: "op", Value: b.op, Hidden: true}},
	}
	if !b.plain {
		c.Fields = append(c.Fields, field{Name: "reason", Label: "Reason (recorded in each history)"})
	}
	if b.command != "" {
		for _, id := range b.ids[:min(len(b.ids), maxCommands)] {
			c.Command += b.command + " " + shellQuote(id) + "\n"
		}
	}
	for _, id := range b.ids {
		c.Fields = append(c.Fields, field{Name: "instance", Value: id, Hidden: true})
	}
	if b.all {
		var n api.BatchCount
		if err := q.call(http.MethodPost, "/batches", nil, b.request(map[string]any{"dry_run": true}), &n); err != nil {
			return view{}, err
		}
		if n.Count == 0 {
			return view{}, &apiError{Status: http.StatusConflict, Detail: "No instance can be changed that way.", Do: "change the filter"}
		}
		c.Title = b.verb + " " + diagnose.Counted(int(n.Count), "instance") //nolint:gosec // a length
		if n.AtLeast {
			c.Title += " or more"
		}
		c.Effects = append(c.Effects, "They are those that pass the filter, and in a status that this can change, when the batch begins. It can be paused and cancelled.")
		c.Fields = append(c.Fields, field{Name: "all", Value: "true", Hidden: true}, field{Name: "where", Value: b.where, Hidden: true})
		c.Command = "pawl batch " + b.op + " --where " + shellQuote(b.where)
	}
	c.Button = c.Title
	return confirmation(c), nil
}

// runBulk begins a batch for a filter, and a job for listed instances. Each change of a job is a request to the API, with the credentials of this one.
func (c *console) runBulk(q *request) (view, error) {
	b, err := q.selection()
	if err != nil {
		return view{}, err
	}
	reason := q.PostFormValue("reason")
	if b.all {
		var a api.Accepted
		if err := q.call(http.MethodPost, "/batches", nil, b.request(map[string]any{"reason": reason}), &a); err != nil {
			return view{}, err
		}
		q.settle(a.Instance, 0)
		return view{redirect: instancePath(a.Instance)}, nil
	}
	one := c.jobs.start(b.verb+" "+diagnose.Counted(len(b.ids), "instance"), q.user.Name, b.ids, func(ctx context.Context, id string) error {
		each := *q
		each.Request = q.WithContext(ctx)
		err := b.change(&each, id, reason)
		if e, is := errors.AsType[*apiError](err); is && e.Status == http.StatusNotFound {
			return nil // it is gone
		}
		return err
	})
	return view{redirect: "/bulk/" + one.ID}, nil
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
