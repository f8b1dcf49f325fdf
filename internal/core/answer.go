package core

import (
	"fmt"

	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
)

// EndAnswer is the answer to a wait for the end.
func EndAnswer(id string, rec *store.Record) request.Answer {
	ans := request.Answer{Instance: id, Origin: rec.Origin, Execution: rec.Execution, Status: string(rec.Status)}
	end, err := rec.EndEvent()
	var ok bool
	if ans.Result, ans.Failure, ok = outcome(end); !ok {
		ans.Problem = &request.Problem{Code: request.ProblemInternal, Message: fmt.Sprintf("the end of instance %s cannot be read: %v", id, err)}
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
func CustomStatus(rec *store.Record) *request.CustomStatus {
	if rec.CustomVersion == 0 {
		return nil
	}
	return &request.CustomStatus{Version: rec.CustomVersion, Payload: rec.Custom, Cleared: rec.Custom.Type == ""}
}

// StatusAnswer is the answer to a wait for a custom status.
func StatusAnswer(id string, rec *store.Record) request.Answer {
	return request.Answer{Instance: id, Origin: rec.Origin, Execution: rec.Execution, Status: string(rec.Status), Custom: CustomStatus(rec)}
}

// showStatus tells who waits for it that the custom status has changed, or will not change any more. Who
// waits for the next one asks again.
func (a *commits) showStatus(in *instance) {
	in.notifiedStatusVersion = in.rec.CustomVersion
	if ws := a.commits.watchers.take(in.id); len(ws) > 0 {
		a.emit(Effect{Kind: AnswerClients, Body: &ClientAnswer{To: ws, Answer: StatusAnswer(in.id, in.rec)}})
	}
}

// answerWaiters has the clients told how an instance has ended.
func (a *commits) answerWaiters(in *instance, committed bool) {
	answer := &ClientAnswer{To: a.commits.waiters.take(in.id), Committed: committed}
	if len(answer.To) > 0 {
		answer.Answer = EndAnswer(in.id, in.rec)
	}
	if committed || len(answer.To) > 0 {
		a.emit(Effect{Kind: AnswerClients, Body: answer})
	}
}

// answer has one client told.
func (a *commits) answer(reply string, ans request.Answer) {
	if reply != "" {
		a.emit(Effect{Kind: AnswerClients, Body: &ClientAnswer{To: []string{reply}, Answer: ans}})
	}
}

// NotFound is the answer to a request for an instance that nothing is known of.
func NotFound(id string) *request.Problem {
	return &request.Problem{Code: request.ProblemNotFound, Message: "there is no instance " + id}
}
