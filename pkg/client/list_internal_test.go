package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pawlrun/pawl/internal/request"
)

// However rare the matching rows are, and wherever a list ends, consecutive lists contain every row once and in order.
func TestListContinuesAtItsCursor(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		const pageOf = 3
		stored := make([][]request.Summary, 1+rng.IntN(4))
		passing := map[string]bool{}
		var want []string
		for i := range rng.IntN(80) {
			p := rng.IntN(len(stored))
			row := request.Summary{Instance: fmt.Sprintf("i-%03d", i), StatusSince: int64(1000 + rng.IntN(20))}
			stored[p] = append(stored[p], row)
			passing[row.Instance] = rng.IntN(12) == 0
		}
		by := []listOrder{newestFirst, oldestFirst}[seed%2]
		byOrder := func(x, y request.Summary) int {
			if by.precedes(&x, &y) {
				return -1
			}
			return 1
		}
		var all []request.Summary
		for _, rows := range stored {
			slices.SortFunc(rows, byOrder)
			all = append(all, rows...)
		}
		slices.SortFunc(all, byOrder)
		for _, row := range all {
			if passing[row.Instance] {
				want = append(want, row.Instance)
			}
		}
		after, cuts, got := "", 0, []string(nil)
		page := func(_ context.Context, p int, cursor string) (rows []request.Summary, next string, err error) {
			if cursor == "" {
				cursor = after
			}
			since, id, err := request.ParseListCursor(cursor)
			read := 0
			for _, row := range stored[p] {
				if cursor != "" && !by.precedes(&request.Summary{StatusSince: since, Instance: id}, &row) {
					continue
				}
				if read++; read > pageOf {
					return rows, next, err
				}
				if next = request.ListCursor(row.StatusSince, row.Instance); passing[row.Instance] {
					rows = append(rows, row)
				}
			}
			return rows, "", err
		}
		for again := true; again; {
			again = false
			sources := func() []*source[request.Summary] {
				return opened(t.Context(), sourcesOf(alone(len(stored)), byPartition(page), 2))
			}
			for row, err := range merged(t.Context(), by, sources, len(stored), 0) {
				if partial, ok := errors.AsType[*PartialListError](err); ok {
					if after == partial.Cursor {
						t.Fatalf("seed %d: no progress after %s", seed, after)
					}
					after, again, cuts = partial.Cursor, true, cuts+1
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, row.Instance)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: after %d cuts %v, want %v", seed, cuts, got, want)
		}
	}
}
