// Package escape lets its context go.
package escape

import (
	"sync"
	"time"

	"github.com/pawlrun/pawl"
)

type Context = pawl.Context

type saga struct {
	ctx  *pawl.Context
	more map[string]*pawl.Context
}

var kept *pawl.Context // want `a \*pawl\.Context in a package-level variable is valid only in the run`

func orchestrate(ctx *Context, n int) (int, error) {
	go func() { // want `a go statement `
		_ = pawl.Now(ctx) // want `^a \*pawl\.Context on another goroutine is valid only in the run of the function that it was passed to; pass it as an argument \[escape\]$`
		_ = pawl.Now(ctx)
	}()
	go use(ctx) // want `a go statement ` `a \*pawl\.Context on another goroutine`
	var wg sync.WaitGroup
	wg.Go(func() { use(ctx) })             // want `sync\.WaitGroup\.Go runs in an order that no history records.*\[go\]` `a \*pawl\.Context on another goroutine`
	time.AfterFunc(1, func() { use(ctx) }) // want `time\.AfterFunc ` `a \*pawl\.Context on another goroutine`
	_, _ = pawl.SideEffect(ctx, func() (time.Time, error) {
		return pawl.Now(ctx), nil // want `a \*pawl\.Context in a side effect`
	})
	s := saga{ctx: ctx}              // want `a \*pawl\.Context that is kept `
	s.ctx = ctx                      // want `a \*pawl\.Context that is kept in s\.ctx `
	s.more["x"] = ctx                // want `a \*pawl\.Context that is kept in s\.more\["x"\] `
	kept = pawl.Detach(ctx)          // want `a \*pawl\.Context that is kept in kept ` `a write to escape\.kept `
	contexts := []*pawl.Context{ctx} // want `a \*pawl\.Context that is kept `
	contexts = append(contexts, ctx) // want `a \*pawl\.Context that is kept `
	ch := make(chan *pawl.Context, 1)
	ch <- ctx // want `a send on a channel ` `a \*pawl\.Context that is kept `
	detached := pawl.Detach(ctx)
	detached = pawl.Detach(detached)
	use(detached)
	return n, nil
}

func use(*pawl.Context) {}
