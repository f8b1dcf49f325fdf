package shard

import (
	"context"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/request"
)

// customStatus answers with the custom status if the client does not have that version, or registers the reply subject for the next one.
func (qs *queries) customStatus(ctx context.Context, q *request.Status) (request.Reply, error) {
	rec, err := qs.register(ctx, q.Instance, q.ReplyTo, core.StatusAwaited)
	if err != nil || rec == nil || rec.CustomVersion <= q.After && !rec.Status.Ended() {
		return new(request.Answered), err
	}
	ans := core.StatusAnswer(q.Instance, rec)
	return &request.Answered{Answer: &ans}, nil
}
