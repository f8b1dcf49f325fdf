package examples

import (
	"context"
	"fmt"

	"github.com/pawlrun/pawl"
)

// Activities that run concurrently, and whose results are combined.
var (
	FanOut = pawl.NewOrchestration[int, int]("fanout")
	Piece  = pawl.NewActivity[int, int]("fanout-piece")
)

// maxPieces bounds the memory that one start can use, because clients choose n.
const maxPieces = 10_000

// fanOut returns the sum of the squares below n.
func fanOut(ctx *pawl.Context, n int) (int, error) {
	if n > maxPieces {
		return 0, fmt.Errorf("%d pieces, at most %d are allowed", n, maxPieces)
	}
	pieces := make([]*pawl.Future[int], max(n, 0))
	for i := range pieces {
		pieces[i] = Piece.Start(ctx, i)
	}
	squares, err := pawl.All(ctx, pieces...)
	sum := 0
	for _, s := range squares {
		sum += s
	}
	return sum, err
}

func piece(_ context.Context, i int) (int, error) { return i * i, nil }
