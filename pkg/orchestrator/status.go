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
	return &queue.Custom{Version: rec.CustomVersion, Payload: rec.Custom}
}

func statusAnswer(id string, rec *store.Record) queue.Answer {
	return queue.Answer{Instance: id, Born: rec.Born, Execution: rec.Execution, Status: string(rec.Status), Custom: custom(rec)}
}

// customStatus answers with a custom status that the client does not have, or remembers who wants to know the
// next one. It registers before it reads, so that a change in between is told all the same.
func (a *actor) customStatus(ctx context.Context, q queue.Ask) (queue.Reply, error) {
	if q.ReplyTo != "" {
		a.box.post(func() { a.watchers.add(q.Instance, q.ReplyTo, a.clock.now()) })
	}
	rec, err := a.store.Record(ctx, a.st.Part, q.Instance)
	if err != nil {
		return queue.Reply{}, err
	}
	if rec == nil {
		return queue.Reply{}, a.pending(ctx, q.Instance, nil)
	}
	if rec.CustomVersion <= q.After && !rec.Status.Ended() {
		return queue.Reply{}, nil
	}
	ans := statusAnswer(q.Instance, rec)
	return queue.Reply{Answer: &ans}, nil
}

// showStatus tells who waits for it that the custom status has changed, or will not change any more. Who
// waits for the next one asks again.
func (a *actor) showStatus(in *instance) {
	in.shown = in.rec.CustomVersion
	ws := a.watchers.take(in.id)
	if len(ws) == 0 {
		return
	}
	ans := statusAnswer(in.id, in.rec)
	for _, w := range ws {
		a.answer(w.reply, ans)
	}
}
