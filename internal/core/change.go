package core

import (
	"encoding/json"
	"slices"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
)

// publishCommit publishes what a commit has changed, if someone watches, and the end of an instance in any case. A notice
// that is lost with this process is made up for by the announcement of the next owner.
func (a *commits) publishCommit(in *instance, t *turn, c *record.Commit, stalled bool, now int64) {
	if c.NewHead == "" || in.rec == nil {
		return
	}
	status := in.rec.Status
	if status.Ended() && c.From != status && t.Fold != nil {
		ans := endAnswer(in, t)
		o := ans.Outcome()
		o.Orchestration, o.At = in.rec.Name, message.LiveTime(now)
		a.owner.emit(Effect{Kind: PublishOutcome, Body: o})
	}
	n := message.Change{Status: string(status), Replaced: replacedBy(c, stalled)}
	if c.From != status {
		n.Was = string(c.From)
	}
	if t.Fold != nil {
		n.Events = t.Fold.Len
	}
	a.publishChange(in, n, now)
}

// replacedBy names the fields of filters that had another value before a commit: watchers of that value receive it, too.
func replacedBy(c *record.Commit, stalled bool) (fields []string) {
	add := func(f string) {
		if !slices.Contains(fields, f) {
			fields = append(fields, f)
		}
	}
	for _, e := range c.Leave {
		add(e.Field)
	}
	for _, e := range c.Enter {
		if e.Numeric && c.From != "" {
			add(e.Field)
		}
	}
	if stalled {
		add(record.FieldStalled)
	}
	return fields
}

func endAnswer(in *instance, t *turn) message.Answer {
	ans := message.Answer{Instance: in.id, Execution: in.rec.Execution, Status: string(in.rec.Status)}
	ans.Result, ans.Failure, _ = outcome(t.Fold.End)
	return ans
}

// publishChange publishes a change of an instance if someone watches.
func (a *commits) publishChange(in *instance, n message.Change, now int64) {
	if !a.owner.clock.wall.Before(a.watched) {
		return
	}
	n.Instance, n.At = in.id, message.LiveTime(now)
	if rec := in.rec; rec != nil {
		n.Orchestration, n.Execution, n.Version = rec.Name, rec.Execution, rec.Version
		n.Code, n.Unanswered, n.Attributes = rec.FailureCode(), rec.WaitsForAnswer() != "", json.RawMessage(rec.Attributes)
		if rec.Parent != nil {
			n.Parent = rec.Parent.Instance
		}
	}
	a.owner.emit(Effect{Kind: PublishChange, Body: n})
}
