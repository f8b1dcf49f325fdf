package bench

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
	pollInterval = 10 * time.Millisecond // between two polls of a limit
	stallTimeout = 30 * time.Second      // for a limit whose numbers do not change
)

// limitBench fills the queue of a limit and releases it.
type limitBench struct {
	driver *driver
	limitPrograms

	rdb      redis.UniversalClient
	inFlight int
	progress io.Writer
}

// barrier opens, closes or reads the worker's barrier, and returns its count.
func (g *limitBench) barrier(ctx context.Context, op string) (p passed, err error) {
	m, err := g.driver.nc.RequestWithContext(ctx, barrierSubject, []byte(op))
	if err != nil {
		return p, fmt.Errorf("set the worker's barrier to %s: %w", op, err)
	}
	return p, json.Unmarshal(m.Data, &p)
}

// fill starts as many activities as the limit admits, and n waiters behind them.
func (g *limitBench) fill(ctx context.Context, o pawl.Orchestration[int, int], limit string, room, n int) error {
	if err := g.empty(ctx, limit); err != nil {
		return err
	}
	if _, err := g.barrier(ctx, barrierClosed); err != nil {
		return err
	}
	if err := each(ctx, room+n, g.inFlight, func(ctx context.Context, _ int) error {
		_, err := client.Start(ctx, g.driver.c, o, g.driver.id("limit"), 1)
		return err
	}); err != nil {
		return err
	}
	if err := g.watch(ctx, n, "waiters", func(ctx context.Context) (int, error) {
		waiting, holding, err := g.queue(ctx, limit)
		if holding > room {
			err = errors.Join(err, fmt.Errorf("%s admits %d, and has %d holders", limit, room, holding))
		}
		return waiting, err
	}); err != nil {
		return err
	}
	return g.poll(ctx, fmt.Sprintf("%d to begin", room), func(ctx context.Context) (int, error) {
		in, err := g.barrier(ctx, barrierRead)
		return max(room-in.Started, 0), err
	})
}

// release opens the barrier, and returns its count when the n waiters are through.
func (g *limitBench) release(ctx context.Context, limit string, room, n int) (p passed, err error) {
	in, err := g.barrier(ctx, barrierOpen)
	if err != nil {
		return p, err
	}
	if in.Started != room || in.Max != room {
		return p, fmt.Errorf("%s admits %d, and while they were held %d activities have begun, up to %d at a time", limit, room, in.Started, in.Max)
	}
	if err := g.watch(ctx, n, "admitted", func(ctx context.Context) (int, error) {
		waiting, _, err := g.queue(ctx, limit)
		return n - waiting, err
	}); err != nil {
		return p, err
	}
	if err := g.empty(ctx, limit); err != nil {
		return p, err
	}
	return g.barrier(ctx, barrierOpen)
}

// empty waits until the limit has neither waiters nor holders.
func (g *limitBench) empty(ctx context.Context, limit string) error {
	return g.poll(ctx, "the limit to be empty", func(ctx context.Context) (int, error) {
		waiting, holding, err := g.queue(ctx, limit)
		return waiting + holding, err
	})
}

// watch shows the progress of a count up to n.
func (g *limitBench) watch(ctx context.Context, n int, what string, count func(context.Context) (int, error)) error {
	p := term.NewProgress(g.progress, n, what)
	defer p.End()
	return g.poll(ctx, fmt.Sprintf("%d: %s", n, what), func(ctx context.Context) (int, error) {
		done, err := count(ctx)
		p.Set(done)
		return n - done, err
	})
}

// poll waits until nothing is left, as long as what is left changes.
func (g *limitBench) poll(ctx context.Context, what string, left func(context.Context) (int, error)) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	last, since := -1, time.Now()
	for {
		n, err := left(ctx)
		switch {
		case err != nil || n == 0:
			return err
		case n != last:
			last, since = n, time.Now()
		case time.Since(since) > stallTimeout:
			return fmt.Errorf("waiting for %s: %d are left, unchanged for %s", what, n, stallTimeout)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// queue reads the numbers of waiters and holders from Redis.
func (g *limitBench) queue(ctx context.Context, limit string) (waiting, holding int, err error) {
	k := redisx.NewSpace(g.driver.ns).Limit(limit)
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

// memory reads from Redis how many bytes the keys of a limit take.
func (g *limitBench) memory(ctx context.Context, limit string) (bytes int64, err error) {
	k := redisx.NewSpace(g.driver.ns).Limit(limit)
	for _, key := range []string{k.Waiters(), k.Holders(), k.Rejected(), k.Grants(), k.State()} {
		n, err := g.rdb.MemoryUsage(ctx, key, 0).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return 0, err
		}
		bytes += n
	}
	return bytes, nil
}
