package limiter

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/pawlrun/pawl/internal/redisx"
)

// list puts a gate on the list of its partition, to be looked at now.
func (g *Gates) list(gate string, then func(error)) {
	at := time.Now()
	p := g.space.Part(g.partition(gate))
	g.run.Go(redisx.Call{Script: g.script.list, Keys: []string{p.Gates()}, Args: []any{gate}}, func(_ any, err error) {
		if err != nil {
			then(fmt.Errorf("gate %s: put it on the list: %w", gate, err))
			return
		}
		g.mu.Lock()
		g.listed[gate] = at
		if time.Since(g.pruned) > listedFor {
			g.pruned = time.Now()
			for name, at := range g.listed {
				if g.pruned.Sub(at) >= listedFor {
					delete(g.listed, name)
				}
			}
		}
		g.mu.Unlock()
		then(nil)
	})
}

// unlisted has the next Admit put the gate on its list.
func (g *Gates) unlisted(gate string) {
	g.mu.Lock()
	delete(g.listed, gate)
	g.mu.Unlock()
}

// Relist says in how long the gate is visited next, at the end of a visit: at most two seconds. If it is due already, that
// stands: somebody has entered since the visit began.
func (g *Gates) Relist(gate string, in time.Duration, then func(error)) {
	g.relist(gate, strconv.FormatInt(in.Milliseconds(), 10), then)
}

// Unlist takes the gate off the list, at the end of a visit that found it idle; unless it is due again already.
func (g *Gates) Unlist(gate string, then func(error)) { g.relist(gate, "", then) }

func (g *Gates) relist(gate, in string, then func(error)) {
	p := g.space.Part(g.partition(gate))
	g.run.Go(redisx.Call{Script: g.script.relist, Keys: []string{p.Gates()}, Args: []any{gate, in}}, func(_ any, err error) {
		if err != nil {
			err = fmt.Errorf("gate %s: say when it is visited next: %w", gate, err)
		}
		then(err)
	})
}

// Listed reads the gates on the list of a partition, first the one that is visited next.
func (g *Gates) Listed(ctx context.Context, partition int) ([]string, error) {
	v, err := g.run.Do(ctx, redisx.Command("ZRANGE", g.space.Part(partition).Gates(), 0, -1))
	if err != nil {
		return nil, fmt.Errorf("partition %d: list the gates: %w", partition, err)
	}
	out := make([]string, redisx.NewReply(v).Len())
	r := redisx.NewReply(v)
	for i := range out {
		out[i] = r.Str(i)
	}
	return out, r.Err()
}
