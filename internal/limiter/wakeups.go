package limiter

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/pawlrun/pawl/internal/redisx"
)

// schedule sets the wakeup of a limit to now, unless it is due already.
func (g *Limiter) schedule(limitName string, then func(error)) {
	at := time.Now()
	p := g.space.Part(g.partition(limitName))
	g.run.Go(redisx.Call{Script: g.script.schedule, Keys: []string{p.Limits()}, Args: []any{limitName}}, func(_ any, err error) {
		if err != nil {
			then(fmt.Errorf("limit %s: set its wakeup: %w", limitName, err))
			return
		}
		g.mu.Lock()
		g.scheduled[limitName] = at
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

// forgetScheduled makes the next Admit set the wakeup again.
func (g *Limiter) forgetScheduled(name string) {
	g.mu.Lock()
	delete(g.scheduled, name)
	g.mu.Unlock()
}

// Reschedule sets the next wakeup of a limit after a sweep, at most two seconds ahead. A limit that is due already stays due, because a
// member has entered since the sweep began.
func (g *Limiter) Reschedule(name string, in time.Duration, then func(error)) {
	g.reschedule(name, strconv.FormatInt(in.Milliseconds(), 10), then)
}

// Unschedule removes the wakeup of a limit after a sweep that found it idle, unless the limit is due again.
func (g *Limiter) Unschedule(name string, then func(error)) { g.reschedule(name, "", then) }

func (g *Limiter) reschedule(name, in string, then func(error)) {
	p := g.space.Part(g.partition(name))
	g.run.Go(redisx.Call{Script: g.script.reschedule, Keys: []string{p.Limits()}, Args: []any{name, in}}, func(_ any, err error) {
		if err != nil {
			err = fmt.Errorf("limit %s: set its next wakeup: %w", name, err)
		}
		then(err)
	})
}

// Scheduled returns the limits of a partition that have a wakeup, in the order of their wakeups.
func (g *Limiter) Scheduled(ctx context.Context, partition int) ([]string, error) {
	v, err := g.run.Do(ctx, redisx.Command("ZRANGE", g.space.Part(partition).Limits(), 0, -1))
	if err != nil {
		return nil, fmt.Errorf("partition %d: list the limits: %w", partition, err)
	}
	r := redisx.NewReply([]any{v})
	return r.Strs(0), r.Err()
}
