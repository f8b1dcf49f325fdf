// Package guide is the code of docs/guide/determinism.md.
package guide

import (
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/pawlrun/pawl"
)

type Order struct {
	Patience time.Duration
	Watchers map[string]bool
}

type Note struct{ To, ID string }

var Tell = pawl.NewActivity[Note, pawl.None]("tell")

func remind(ctx *pawl.Context, o Order) (string, error) {
	id := uuid.NewString()            // want `uuid\.NewString `
	due := time.Now().Add(o.Patience) // want `time\.Now `
	for name := range o.Watchers {    // want `a loop over a map `
		_, _ = Tell.Call(ctx, Note{To: name, ID: id})
	}
	time.Sleep(time.Until(due)) // want `time\.Sleep ` `time\.Until `
	return id, nil
}

func remindAgain(ctx *pawl.Context, o Order) (string, error) {
	id := pawl.NewID(ctx)
	due := pawl.Now(ctx).Add(o.Patience)
	for _, name := range slices.Sorted(maps.Keys(o.Watchers)) {
		_, _ = Tell.Call(ctx, Note{To: name, ID: id})
	}
	return id, pawl.Sleep(ctx, due.Sub(pawl.Now(ctx)))
}

func demand(ctx *pawl.Context, stock map[string]int) (short []string, total int) {
	var items []string
	for item := range stock {
		items = append(items, item)
	}
	slices.Sort(items)
	for _, item := range items { // or: range slices.Sorted(maps.Keys(stock))
		if stock[item] < 3 {
			short = append(short, item)
		}
		total += stock[item]
	}
	return short, total
}

func traced(ctx *pawl.Context, o Order) (string, error) {
	began := time.Now() //pawl:allow time: only logged, to see how long a replay takes
	defer func() {
		//pawl:allow time: likewise
		pawl.Logger(ctx).Debug("turned", "took", time.Since(began))
	}()
	return remindAgain(ctx, o)
}
