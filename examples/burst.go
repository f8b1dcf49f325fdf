package examples

import (
	"errors"

	"github.com/pawlrun/pawl"
)

// Burst runs many concurrent activities of the same duration, as a workload for fault tests. The result is their number.
var Burst = pawl.NewOrchestration[Pieces, int]("burst")

// Pieces is the number of activities of a burst, and the duration of each.
type Pieces struct {
	Count  int `json:"count"`
	Millis int `json:"millis"`
}

func burst(ctx *pawl.Context, in Pieces) (int, error) {
	if in.Count < 0 || in.Count > maxPieces {
		return 0, errors.New("a burst has at most 10,000 pieces")
	}
	pieces := make([]*pawl.Future[string], in.Count)
	for i := range pieces {
		pieces[i] = Tortoise.Start(ctx, in.Millis)
	}
	done, err := pawl.All(ctx, pieces...)
	return len(done), err
}
