package core

import (
	"fmt"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// EndAnswer is the answer to a wait for the end.
func EndAnswer(id string, rec *record.Record) message.Answer {
	ans := message.Answer{Instance: id, Origin: rec.Origin, Execution: rec.Execution, Status: string(rec.Status)}
	end, err := rec.EndEvent()
	var ok bool
	if ans.Result, ans.Failure, ok = outcome(end); !ok {
		ans.Problem = &message.Problem{Code: message.ProblemInternal, Message: fmt.Sprintf("the end of instance %s cannot be read: %v", id, err)}
	}
	return ans
}

// outcome is what an instance ended with; ok is false for what is no end of an instance.
func outcome(end history.Event) (result history.Payload, failure *history.Failure, ok bool) {
	switch e := end.(type) {
	case *history.Completed:
		return e.Result, nil, true
	case *history.Failed:
		return history.Payload{}, &e.Failure, true
	case *history.Cancelled:
		return history.Payload{}, &e.Failure, true
	default:
		return history.Payload{}, nil, false
	}
}

// CustomStatus is the custom status of a record, nil if none was ever set.
func CustomStatus(rec *record.Record) *message.CustomStatus {
	if rec.CustomVersion == 0 {
		return nil
	}
	return &message.CustomStatus{Version: rec.CustomVersion, Payload: rec.Custom, Cleared: rec.Custom.Type == ""}
}

// StatusAnswer is the answer to a wait for a custom status.
func StatusAnswer(id string, rec *record.Record) message.Answer {
	return message.Answer{Instance: id, Origin: rec.Origin, Execution: rec.Execution, Status: string(rec.Status), Custom: CustomStatus(rec)}
}

// answerCommit answers the operator whose request has taken effect, the clients that wait for the end, and those that watch the custom
// status, when it has changed or will not change any more. A client that gets no answer asks again.
func (a *commits) answerCommit(in *instance) {
	if to := in.answerTo; to != "" {
		in.answerTo = ""
		a.answer(to, message.Answer{Instance: in.id, Execution: in.rec.Execution, Status: string(in.rec.Status)})
	}
	if in.status().Ended() {
		a.answerWaiters(in, true)
	}
	if in.rec == nil || !in.status().Ended() && in.rec.CustomVersion <= in.notifiedStatusVersion {
		return
	}
	in.notifiedStatusVersion = in.rec.CustomVersion
	if ws := a.watchers.take(in.id); len(ws) > 0 {
		a.owner.emit(Effect{Kind: AnswerClients, Body: &ClientAnswer{To: ws, Answer: StatusAnswer(in.id, in.rec)}})
	}
}

// answerWaiters sends the outcome of an instance to the clients that wait for it.
func (a *commits) answerWaiters(in *instance, committed bool) {
	answer := &ClientAnswer{To: a.waiters.take(in.id), Committed: committed}
	if len(answer.To) > 0 {
		answer.Answer = EndAnswer(in.id, in.rec)
	}
	if committed || len(answer.To) > 0 {
		a.owner.emit(Effect{Kind: AnswerClients, Body: answer})
	}
}

// answer sends an answer to one client.
func (a *commits) answer(reply string, ans message.Answer) {
	if reply != "" {
		a.owner.emit(Effect{Kind: AnswerClients, Body: &ClientAnswer{To: []string{reply}, Answer: ans}})
	}
}

// NotFound is the answer to a request for an instance that nothing is known of.
func NotFound(id string) *message.Problem {
	return &message.Problem{Code: message.ProblemNotFound, Message: "there is no instance " + id}
}
