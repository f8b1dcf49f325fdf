package limiter

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/pawlrun/pawl/internal/redisx"
)

// list puts a gate on the list of its partition, to be looked at now.
func (g *Limiter) schedule(gate string, then func(error)) {
	at := time.Now()
	p := g.space.Part(g.partition(gate))
	g.run.Go(redisx.Call{Script: g.script.schedule, Keys: []string{p.Limits()}, Args: []any{gate}}, func(_ any, err error) {
		if err != nil {
			then(fmt.Errorf("gate %s: put it on the list: %w", gate, err))
			return
		}
		g.mu.Lock()
		g.scheduled[gate] = at
		if time.Since(g.pruned) > scheduledFor {
			g.pruned = time.Now()
			for name, at := range g.scheduled {
				if g.pruned.Sub(at) >= scheduledFor {
					delete(g.scheduled, name)
				}
			}
		}
		g.mu.Unlock()
		then(nil)
	})
}

// unlisted has the next Admit put the gate on its list.
func (g *Limiter) forgetScheduled(gate string) {
	g.mu.Lock()
	delete(g.scheduled, gate)
	g.mu.Unlock()
}

// Relist says in how long the gate is visited next, at the end of a visit: at most two seconds. If it is due already, that
// stands: somebody has entered since the visit began.
func (g *Limiter) Reschedule(gate string, in time.Duration, then func(error)) {
	g.reschedule(gate, strconv.FormatInt(in.Milliseconds(), 10), then)
}

// Unlist takes the gate off the list, at the end of a visit that found it idle; unless it is due again already.
func (g *Limiter) Unschedule(gate string, then func(error)) { g.reschedule(gate, "", then) }

func (g *Limiter) reschedule(gate, in string, then func(error)) {
	p := g.space.Part(g.partition(gate))
	g.run.Go(redisx.Call{Script: g.script.reschedule, Keys: []string{p.Limits()}, Args: []any{gate, in}}, func(_ any, err error) {
		if err != nil {
			err = fmt.Errorf("gate %s: say when it is visited next: %w", gate, err)
		}
		then(err)
	})
}

// Listed reads the gates on the list of a partition, first the one that is visited next.
func (g *Limiter) Scheduled(ctx context.Context, partition int) ([]string, error) {
	v, err := g.run.Do(ctx, redisx.Command("ZRANGE", g.space.Part(partition).Limits(), 0, -1))
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
