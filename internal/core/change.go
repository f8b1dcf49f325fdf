package core

import (
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/pkg/queue"
)

// publishCommit publishes what a commit has changed, if someone watches, and the end of an instance in any case. A notice
// that is lost with this process is made up for by the announcement of the next owner.
func (a *commits) publishCommit(in *instance, t *turn, c *store.Commit, now int64) {
	if c.NewHead == "" || in.rec == nil {
		return
	}
	status := in.rec.Status
	if status.Ended() && c.From != status && t.Fold != nil {
		ans := endAnswer(in, t)
		o := ans.Outcome()
		o.Orchestration, o.At = in.rec.Name, queue.LiveTime(now)
		a.emit(Effect{Kind: PublishOutcome, Body: o})
	}
	n := queue.Change{Status: string(status)}
	if c.From != status {
		n.Was = string(c.From)
	}
	if t.Fold != nil {
		n.Events = t.Fold.Len
	}
	a.commits.publishChange(in, n, now)
}

func endAnswer(in *instance, t *turn) request.Answer {
	ans := request.Answer{Instance: in.id, Execution: in.rec.Execution, Status: string(in.rec.Status)}
	ans.Result, ans.Failure, _ = outcome(t.Fold.End)
	return ans
}

// publishChange publishes a change of an instance if someone watches.
func (a *commits) publishChange(in *instance, n queue.Change, now int64) {
	if !a.clock.wall.Before(a.commits.watched) {
		return
	}
	n.Instance, n.At = in.id, queue.LiveTime(now)
	if in.rec != nil {
		n.Orchestration, n.Execution = in.rec.Name, in.rec.Execution
	}
	a.emit(Effect{Kind: PublishChange, Body: n})
}
