package orchestrator

import (
	"context"

	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history/store"
)

// custom is the custom status of a record, nil if none was ever set.
func custom(rec *store.Record) *request.CustomStatus {
	if rec.CustomVersion == 0 {
		return nil
	}
	return &request.CustomStatus{Version: rec.CustomVersion, Payload: rec.Custom, Cleared: rec.Custom.Type == ""}
}

func statusAnswer(id string, rec *store.Record) request.Answer {
	return request.Answer{Instance: id, Origin: rec.Origin, Execution: rec.Execution, Status: string(rec.Status), Custom: custom(rec)}
}

// customStatus answers with a custom status that the client does not have, or registers the reply subject for the next one.
func (qs *queries) customStatus(ctx context.Context, q *request.Status) (request.Reply, error) {
	rec, err := qs.register(ctx, q.Instance, q.ReplyTo, statusAwaited)
	if err != nil || rec == nil || rec.CustomVersion <= q.After && !rec.Status.Ended() {
		return new(request.Answered), err
	}
	ans := statusAnswer(q.Instance, rec)
	return &request.Answered{Answer: &ans}, nil
}

// showStatus tells who waits for it that the custom status has changed, or will not change any more. Who
// waits for the next one asks again.
func (a *commits) showStatus(in *instance) {
	in.notifiedStatusVersion = in.rec.CustomVersion
	if ws := a.commits.watchers.take(in.id); len(ws) > 0 {
		a.emit(effect{kind: answerClients, body: &clientAnswer{to: ws, answer: statusAnswer(in.id, in.rec)}})
	}
}
