package orchestrator

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/pkg/queue"
)

// watched reports whether changes are published: for a while after the latest message of a watcher. Without one a commit
// costs no message.
type watched struct{ until atomic.Int64 } // Unix ms

func (w *watched) extend() { w.until.Store(time.Now().Add(queue.WatchTTL).UnixMilli()) }

func (w *watched) active() bool { return time.Now().UnixMilli() < w.until.Load() }

// serveLive listens to watchers and answers requests for outcomes. What is to be undone is added to opened.
func (s *shared) serveLive(opened *[]func()) error {
	watchers, err := s.conn.OnWatching(s.watched.extend)
	if err != nil {
		return err
	}
	*opened = append(*opened, watchers.Stop)
	outcomes, err := s.conn.ServeOutcomes(s.outcome)
	if err != nil {
		return err
	}
	*opened = append(*opened, outcomes.Stop)
	return nil
}

// statusUnavailable is that of an outcome that cannot be read at the moment.
const statusUnavailable = "unavailable"

// outcome asks the owner of an instance how it ended.
func (s *shared) outcome(ctx context.Context, instance string) queue.Outcome {
	var r request.Answered
	err := request.Call(ctx, s.conn, s.conn.PartitionOf(instance), &request.Await{Instance: instance}, &r)
	p, refused := errors.AsType[*request.Problem](err)
	o := queue.Outcome{Instance: instance, Status: string(store.Running)}
	switch {
	case refused && p.Code == request.ProblemNotFound:
		o.Status, o.Error = p.Code, p.Message
	case refused:
		o.Status, o.Error, o.Code = statusUnavailable, p.Message, p.Code
	case err != nil:
		o.Status, o.Error = statusUnavailable, err.Error()
	case r.Answer != nil:
		o = r.Answer.Outcome()
	}
	return o
}

// publishCommit publishes what a commit has changed, if someone watches, and the end of an instance in any case. A notice
// that is lost with this process is made up for by the announcement of the next owner.
func (a *commits) publishCommit(in *instance, t *turn, c *store.Commit, now int64) {
	if c.NewHead == "" || in.rec == nil {
		return
	}
	status := in.rec.Status
	if status.Ended() && c.From != status && t.fold != nil {
		ans := endAnswer(in, t)
		o := ans.Outcome()
		o.Orchestration, o.At = in.rec.Name, queue.LiveTime(now)
		a.emit(effect{kind: publishOutcome, body: o})
	}
	n := queue.Change{Status: string(status)}
	if c.From != status {
		n.Was = string(c.From)
	}
	if t.fold != nil {
		n.Events = t.fold.Len
	}
	a.commits.publishChange(in, n, now)
}

func endAnswer(in *instance, t *turn) request.Answer {
	ans := request.Answer{Instance: in.id, Execution: in.rec.Execution, Status: string(in.rec.Status)}
	ans.Result, ans.Failure, _ = outcome(t.fold.End)
	return ans
}

// publishChange publishes a change of an instance if someone watches.
func (a *commits) publishChange(in *instance, n queue.Change, now int64) {
	if !a.watched.active() {
		return
	}
	n.Instance, n.At = in.id, queue.LiveTime(now)
	if in.rec != nil {
		n.Orchestration, n.Execution = in.rec.Name, in.rec.Execution
	}
	a.emit(effect{kind: publishChange, body: n})
}
