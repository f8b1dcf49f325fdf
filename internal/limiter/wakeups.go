package limiter

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/pawlrun/pawl/internal/redisx"
)

// schedule sets the wakeup of a limit to now.
func (g *Limiter) schedule(gate string, then func(error)) {
	at := time.Now()
	p := g.space.Part(g.partition(gate))
	g.run.Go(redisx.Call{Script: g.script.schedule, Keys: []string{p.Limits()}, Args: []any{gate}}, func(_ any, err error) {
		if err != nil {
			then(fmt.Errorf("limit %s: set its wakeup: %w", gate, err))
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

// forgetScheduled makes the next Admit set the wakeup.
func (g *Limiter) forgetScheduled(gate string) {
	g.mu.Lock()
	delete(g.scheduled, gate)
	g.mu.Unlock()
}

// Reschedule sets the next wakeup of a limit at the end of a sweep: at most two seconds ahead. A limit that is due already stays
// due: a member has entered since the sweep began.
func (g *Limiter) Reschedule(gate string, in time.Duration, then func(error)) {
	g.reschedule(gate, strconv.FormatInt(in.Milliseconds(), 10), then)
}

// Unschedule removes the wakeup of a limit at the end of a sweep that found it idle, unless it is due again already.
func (g *Limiter) Unschedule(gate string, then func(error)) { g.reschedule(gate, "", then) }

func (g *Limiter) reschedule(gate, in string, then func(error)) {
	p := g.space.Part(g.partition(gate))
	g.run.Go(redisx.Call{Script: g.script.reschedule, Keys: []string{p.Limits()}, Args: []any{gate, in}}, func(_ any, err error) {
		if err != nil {
			err = fmt.Errorf("limit %s: set its next wakeup: %w", gate, err)
		}
		then(err)
	})
}

// Scheduled reads the limits with a wakeup in a partition, first the one that is due first.
func (g *Limiter) Scheduled(ctx context.Context, partition int) ([]string, error) {
	v, err := g.run.Do(ctx, redisx.Command("ZRANGE", g.space.Part(partition).Limits(), 0, -1))
	if err != nil {
		return nil, fmt.Errorf("partition %d: list the limits: %w", partition, err)
	}
	out := make([]string, redisx.NewReply(v).Len())
	r := redisx.NewReply(v)
	for i := range out {
		out[i] = r.Str(i)
	}
	return out, r.Err()
}
