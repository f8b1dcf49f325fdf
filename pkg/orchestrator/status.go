package orchestrator

import (
	"context"

	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/pkg/queue"
)

// custom is the custom status of a record, nil if none was ever set.
func custom(rec *store.Record) *queue.Custom {
	if rec.CustomVersion == 0 {
		return nil
	}
	return &queue.Custom{Version: rec.CustomVersion, Payload: rec.Custom, Cleared: rec.Custom.Type == ""}
}

func statusAnswer(id string, rec *store.Record) queue.Answer {
	return queue.Answer{Instance: id, Born: rec.Origin, Execution: rec.Execution, Status: string(rec.Status), Custom: custom(rec)}
}

// customStatus answers with a custom status that the client does not have, or remembers who wants to know the
// next one.
func (qs *queries) customStatus(ctx context.Context, q queue.Ask) (queue.Reply, error) {
	rec, err := qs.register(ctx, q, statusAwaited)
	if err != nil || rec == nil || rec.CustomVersion <= q.After && !rec.Status.Ended() {
		return queue.Reply{}, err
	}
	ans := statusAnswer(q.Instance, rec)
	return queue.Reply{Answer: &ans}, nil
}

// showStatus tells who waits for it that the custom status has changed, or will not change any more. Who
// waits for the next one asks again.
func (a *commits) showStatus(in *instance) {
	in.notifiedStatusVersion = in.rec.CustomVersion
	if ws := a.commits.watchers.take(in.id); len(ws) > 0 {
		a.emit(effect{kind: answerClients, body: &clientAnswer{to: ws, answer: statusAnswer(in.id, in.rec)}})
	}
}
