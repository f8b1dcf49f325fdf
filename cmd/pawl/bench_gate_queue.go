package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
)

const (
	gateEvery    = 10 * time.Millisecond // between two looks at a queue
	gatePatience = 30 * time.Second      // with a queue that does not move
)

// gateBench fills queues and lets them go.
type gateBench struct {
	*bench
	gatePrograms

	rdb       *redis.Client
	namespace string
	inFlight  int
	show      io.Writer
}

// turnstile opens or shuts it, or only reads it, and gives what it has counted since it was last opened or shut.
func (g *gateBench) turnstile(ctx context.Context, what string) (p passed, err error) {
	m, err := g.nc.RequestWithContext(ctx, turnstileSubject, []byte(what))
	if err != nil {
		return p, fmt.Errorf("tell the worker to %s the turnstile: %w", what, err)
	}
	return p, json.Unmarshal(m.Data, &p)
}

// gather has as many inside as there is room for, and n who wait behind them.
func (g *gateBench) gather(ctx context.Context, o pawl.Orchestration[int, int], gate string, room, n int) error {
	if err := g.empty(ctx, gate); err != nil {
		return err
	}
	if _, err := g.turnstile(ctx, turnstileShut); err != nil {
		return err
	}
	if err := each(ctx, room+n, g.inFlight, func(ctx context.Context, _ int) error {
		_, err := client.Start(ctx, g.c, o, g.id("gate"), 1)
		return err
	}); err != nil {
		return err
	}
	if err := g.watch(ctx, n, "instances wait", func(ctx context.Context) (int, error) {
		waiting, holding, err := g.queue(ctx, gate)
		if holding > room {
			err = errors.Join(err, fmt.Errorf("%s has room for %d, and %d are in", gate, room, holding))
		}
		return waiting, err
	}); err != nil {
		return err
	}
	return g.poll(ctx, fmt.Sprintf("%d to begin", room), func(ctx context.Context) (int, error) {
		in, err := g.turnstile(ctx, turnstileRead)
		return max(room-in.Started, 0), err
	})
}

// letGo opens the turnstile, and gives what it has counted when the n that waited are through.
func (g *gateBench) letGo(ctx context.Context, gate string, room, n int) (p passed, err error) {
	in, err := g.turnstile(ctx, turnstileOpen)
	if err != nil {
		return p, err
	}
	if in.Started != room || in.Most != room {
		return p, fmt.Errorf("%s has room for %d, and while it was held %d activities have begun, up to %d at a time", gate, room, in.Started, in.Most)
	}
	if err := g.watch(ctx, n, "have been let in", func(ctx context.Context) (int, error) {
		waiting, _, err := g.queue(ctx, gate)
		return n - waiting, err
	}); err != nil {
		return p, err
	}
	if err := g.empty(ctx, gate); err != nil {
		return p, err
	}
	return g.turnstile(ctx, turnstileOpen)
}

// empty waits until nobody waits at the gate, and nobody holds a slot.
func (g *gateBench) empty(ctx context.Context, gate string) error {
	return g.poll(ctx, "the gate to be empty", func(ctx context.Context) (int, error) {
		waiting, holding, err := g.queue(ctx, gate)
		return waiting + holding, err
	})
}

// watch shows how a count goes up to n.
func (g *gateBench) watch(ctx context.Context, n int, what string, count func(context.Context) (int, error)) error {
	p := term.NewProgress(g.show, n, what)
	defer p.End()
	return g.poll(ctx, fmt.Sprintf("%d: %s", n, what), func(ctx context.Context) (int, error) {
		done, err := count(ctx)
		p.Set(done)
		return n - done, err
	})
}

// poll asks until nothing is left, as long as what is left changes.
func (g *gateBench) poll(ctx context.Context, what string, left func(context.Context) (int, error)) error {
	tick := time.NewTicker(gateEvery)
	defer tick.Stop()
	last, since := -1, time.Now()
	for {
		n, err := left(ctx)
		switch {
		case err != nil || n == 0:
			return err
		case n != last:
			last, since = n, time.Now()
		case time.Since(since) > gatePatience:
			return fmt.Errorf("waiting for %s: %d are left, and have been for %s", what, n, gatePatience)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// queue asks Redis how many wait, and how many hold a slot.
func (g *gateBench) queue(ctx context.Context, gate string) (waiting, holding int, err error) {
	k := redisx.NewSpace(g.namespace).Limit(gate)
	cmds, err := g.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.ZCard(ctx, k.Waiters())
		p.ZCard(ctx, k.Holders())
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	n := make([]int, len(cmds))
	for i, c := range cmds {
		v, err := c.(*redis.IntCmd).Result()
		if err != nil {
			return 0, 0, err
		}
		n[i] = int(v)
	}
	return n[0], n[1], nil
}

// memory asks Redis how many bytes the keys of a gate take.
func (g *gateBench) memory(ctx context.Context, gate string) (bytes int64, err error) {
	k := redisx.NewSpace(g.namespace).Limit(gate)
	for _, key := range []string{k.Waiters(), k.Holders(), k.Rejected(), k.Grants(), k.State()} {
		n, err := g.rdb.MemoryUsage(ctx, key, 0).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return 0, err
		}
		bytes += n
	}
	return bytes, nil
}

func (p passed) took() time.Duration { return time.Duration(p.Last - p.First) }

func (p passed) perSecond() float64 {
	if p.took() <= 0 {
		return 0
	}
	return float64(p.Started-1) / p.took().Seconds()
}
