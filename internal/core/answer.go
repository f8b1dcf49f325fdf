package core

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

// replyUpdates sends the answers of a written turn to updates. If the turn ends its instance, it also answers the updates that are still open.
func (c *commits) replyUpdates(in *instance, t *turn) {
	for _, u := range t.Answers {
		c.replyUpdate(in.id, u.Update, u.Answer)
	}
	if t.Fold == nil || t.Fold.End == nil || !in.status().Ended() {
		return
	}
	for _, u := range t.Fold.OpenUpdates() {
		c.replyUpdate(in.id, u, eventcodec.UpdateAnswer{Failure: replay.EndedUpdate(u.Name, u.UpdateID)})
	}
}

// replyUpdate sends the answer to an update to its reply subject, and to the clients that wait for it.
func (c *commits) replyUpdate(instance string, u *history.UpdateReceived, answer eventcodec.UpdateAnswer) {
	to := c.updaters.take(UpdateWait(instance, effectid.Update(u)))
	if u.Reply != "" {
		to = append(to, u.Reply)
	}
	if len(to) > 0 {
		c.owner.emit(Effect{Kind: AnswerUpdate, ID: instance, Body: &UpdateReply{To: to, Answer: UpdateAnswer(instance, u.Name, u.UpdateID, answer)}})
	}
}

// UpdateAnswer returns the answer to an update in the form of a reply.
func UpdateAnswer(instance, name, id string, answer eventcodec.UpdateAnswer) message.UpdateAnswer {
	return message.UpdateAnswer{Instance: instance, Update: name, ID: id, Result: answer.Result, Failure: answer.Failure}
}

// answerCommit answers the operator whose request has taken effect, the clients that wait for the end, and those that wait for a custom
// status when it has changed or can no longer change. A client that receives no answer repeats its request.
func (c *commits) answerCommit(in *instance) {
	if to := in.answerTo; to != "" {
		in.answerTo = ""
		c.answer(to, message.Answer{Instance: in.id, Execution: in.rec.Execution, Status: string(in.rec.Status)})
	}
	if in.status().Ended() {
		c.answerWaiters(in, true)
	}
	if in.rec == nil || !in.status().Ended() && in.rec.CustomVersion <= in.notifiedStatusVersion {
		return
	}
	in.notifiedStatusVersion = in.rec.CustomVersion
	if ws := c.watchers.take(in.id); len(ws) > 0 {
		c.owner.emit(Effect{Kind: AnswerClients, Body: &ClientAnswer{To: ws, Answer: StatusAnswer(in.id, in.rec)}})
	}
}

// answerWaiters sends the outcome of an instance to the clients that wait for it.
func (c *commits) answerWaiters(in *instance, committed bool) {
	answer := &ClientAnswer{To: c.waiters.take(in.id), Committed: committed}
	if len(answer.To) > 0 {
		answer.Answer = EndAnswer(in.id, in.rec)
	}
	if committed || len(answer.To) > 0 {
		c.owner.emit(Effect{Kind: AnswerClients, Body: answer})
	}
}

// answer sends an answer to one client.
func (c *commits) answer(reply string, ans message.Answer) {
	if reply != "" {
		c.owner.emit(Effect{Kind: AnswerClients, Body: &ClientAnswer{To: []string{reply}, Answer: ans}})
	}
}

// EndAnswer returns the answer to a client that waits for the end.
func EndAnswer(id string, rec *record.Record) message.Answer {
	ans := message.Answer{Instance: id, Origin: rec.Origin, Execution: rec.Execution, Status: string(rec.Status)}
	end, err := rec.EndEvent()
	var ok bool
	if ans.Result, ans.Failure, ok = outcome(end); !ok {
		ans.Problem = &message.Problem{Code: message.ProblemInternal, Message: fmt.Sprintf("the end of instance %s cannot be read: %v", id, err)}
	}
	return ans
}

// CustomStatus returns the custom status of a record, nil if none was ever set.
func CustomStatus(rec *record.Record) *message.CustomStatus {
	if rec.CustomVersion == 0 {
		return nil
	}
	return &message.CustomStatus{Version: rec.CustomVersion, Payload: rec.Custom, Cleared: rec.Custom.Type == ""}
}

// StatusAnswer returns the answer to a client that waits for a custom status.
func StatusAnswer(id string, rec *record.Record) message.Answer {
	return message.Answer{Instance: id, Origin: rec.Origin, Execution: rec.Execution, Status: string(rec.Status), Custom: CustomStatus(rec)}
}

// NotFound returns the problem of a request for an instance that does not exist.
func NotFound(id string) *message.Problem {
	return &message.Problem{Code: message.ProblemNotFound, Message: "there is no instance " + id}
}

// publishCommit publishes the end of an instance, and any other change of a commit if a client watches. If this process dies before it
// has published, the announcement of the next owner makes watchers read again.
func (c *commits) publishCommit(in *instance, t *turn, w *record.Commit, stalled bool, now int64) {
	if w.NewHead == "" || in.rec == nil {
		return
	}
	status := in.rec.Status
	if status.Ended() && w.From != status && t.Fold != nil {
		ans := message.Answer{Instance: in.id, Execution: in.rec.Execution, Status: string(status)}
		ans.Result, ans.Failure, _ = outcome(t.Fold.End)
		o := ans.Outcome()
		o.Orchestration, o.At = in.rec.Name, message.LiveTime(now)
		c.owner.emit(Effect{Kind: PublishOutcome, Body: o})
	}
	n := message.Change{Status: string(status), Replaced: replacedBy(w, stalled)}
	if w.From != status {
		n.Was = string(w.From)
	}
	if t.Fold != nil {
		n.Events = t.Fold.Len
	}
	c.publishChange(in, n, now)
}

// replacedBy returns the filter fields whose previous value a commit replaces: the watchers of that value receive the change, too.
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

// publishChange publishes a change of an instance if a client watches.
func (c *commits) publishChange(in *instance, n message.Change, now int64) {
	if !c.owner.clock.wall.Before(c.watched) {
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
	c.owner.emit(Effect{Kind: PublishChange, Body: n})
}
