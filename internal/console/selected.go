package console

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/nats-io/nuid"
	"golang.org/x/sync/errgroup"
)

const (
	bulkParallel = 16 // concurrent requests of a job
	maxJobs      = 50 // jobs that are kept, including finished ones
	maxShownFail = 20 // failures of a job that are shown
)

// jobs are changes of many instances, and other background work of the console. They run in this process and end with it. It
// is safe for concurrent use.
type jobs struct {
	ctx  context.Context //nolint:containedctx // cancelled when the console closes
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu  sync.Mutex
	all []*job // oldest first
}

// job is a change of many selected instances.
type job struct {
	mu sync.Mutex
	jobState
}

// jobState is the progress of a job.
type jobState struct {
	ID, Name    string
	By          string
	Total, Done int
	Failed      int
	Failures    []bulkFailure
	Running     bool
	Stopped     bool // ended early, with this process
}

type bulkFailure struct{ Instance, Problem string }

func newJobs() *jobs {
	ctx, stop := context.WithCancel(context.Background())
	return &jobs{ctx: ctx, stop: stop}
}

// close cancels the jobs and waits for them.
func (j *jobs) close() {
	j.stop()
	j.wg.Wait()
}

// run calls f in the background. Its context is cancelled when the console closes.
func (j *jobs) run(f func(context.Context)) { j.wg.Go(func() { f(j.ctx) }) }

// recent returns the jobs, latest first.
func (j *jobs) recent() (out []jobState) {
	j.mu.Lock()
	all := slices.Clone(j.all)
	j.mu.Unlock()
	for _, one := range slices.Backward(all) {
		out = append(out, one.now())
	}
	return out
}

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

// start starts a job that changes each of the instances.
func (j *jobs) start(name, by string, ids []string, change func(ctx context.Context, id string) error) *job {
	one := &job{jobState: jobState{ID: nuid.Next(), Name: name, By: by, Total: len(ids), Running: true}}
	j.mu.Lock()
	j.all = append(j.all, one)
	j.all = j.all[max(0, len(j.all)-maxJobs):]
	j.mu.Unlock()
	j.wg.Go(func() {
		var changes errgroup.Group
		changes.SetLimit(bulkParallel)
		for _, id := range ids {
			if j.ctx.Err() != nil {
				break
			}
			changes.Go(func() error {
				one.note(id, change(j.ctx, id))
				return nil
			})
		}
		_ = changes.Wait() // failures are noted
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

// Percent returns how much of the job is done.
func (s jobState) Percent() int { return 100 * s.Done / max(1, s.Total) }

// showJob shows the progress of a job. The page reloads while the job is running.
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
