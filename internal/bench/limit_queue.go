package bench

import (
	"context"
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
	stallTimeout = 30 * time.Second      // maximum time without a change of a limit's numbers
)

// limitBench fills a limit with waiters, and releases them.
type limitBench struct {
	driver *driver
	limitPrograms

	rdb      redis.UniversalClient
	inFlight int
	progress io.Writer
}

// barrier opens, closes or reads the barrier of the worker, and returns its counts.
func (g *limitBench) barrier(ctx context.Context, op string) (passed, error) {
	return request[passed](ctx, g.driver, barrierSubject, op)
}

// fill closes the barrier, and starts as many activities as the limit admits and n waiters.
func (g *limitBench) fill(ctx context.Context, o pawl.Orchestration[int, int], limit string, concurrency, n int) error {
	if err := g.empty(ctx, limit); err != nil {
		return err
	}
	if _, err := g.barrier(ctx, barrierClosed); err != nil {
		return err
	}
	if err := each(ctx, concurrency+n, g.inFlight, func(ctx context.Context, _ int) error {
		_, err := client.Start(ctx, g.driver.c, o, g.driver.id("limit"), 1)
		return err
	}); err != nil {
		return err
	}
	if err := g.watch(ctx, n, "waiters", func(ctx context.Context) (int, error) {
		waiting, holding, err := g.queue(ctx, limit)
		if holding > concurrency {
			err = errors.Join(err, fmt.Errorf("%s has %d holders, more than its concurrency of %d", limit, holding, concurrency))
		}
		return waiting, err
	}); err != nil {
		return err
	}
	return g.await(ctx, fmt.Sprintf("%d activities to begin", concurrency), func(ctx context.Context) (int, error) {
		p, err := g.barrier(ctx, barrierRead)
		return max(concurrency-p.Started, 0), err
	})
}

// release opens the barrier, and returns its counts when the n waiters have passed.
func (g *limitBench) release(ctx context.Context, limit string, concurrency, n int) (p passed, err error) {
	while, err := g.barrier(ctx, barrierOpen)
	if err != nil {
		return p, err
	}
	if while.Started != concurrency || while.Max != concurrency {
		return p, fmt.Errorf("%s admits %d; while the barrier was closed %d activities began, up to %d at a time", limit, concurrency, while.Started, while.Max)
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
	return g.await(ctx, "an empty limit", func(ctx context.Context) (int, error) {
		waiting, holding, err := g.queue(ctx, limit)
		return waiting + holding, err
	})
}

// watch waits until a count is n, and shows its progress.
func (g *limitBench) watch(ctx context.Context, n int, what string, count func(context.Context) (int, error)) error {
	p := term.NewProgress(g.progress, n, what)
	defer p.End()
	return g.await(ctx, fmt.Sprintf("%d %s", n, what), func(ctx context.Context) (int, error) {
		done, err := count(ctx)
		p.Set(done)
		return n - done, err
	})
}

// await waits until a number is zero, and gives up when it does not change for stallTimeout.
func (g *limitBench) await(ctx context.Context, what string, left func(context.Context) (int, error)) error {
	last, since := -1, time.Now()
	return poll(ctx, pollInterval, func() (bool, error) {
		n, err := left(ctx)
		switch {
		case err != nil || n == 0:
			return true, err
		case n != last:
			last, since = n, time.Now()
		case time.Since(since) > stallTimeout:
			return false, fmt.Errorf("waiting for %s: %d are left, unchanged for %s", what, n, stallTimeout)
		}
		return false, nil
	})
}

// queue reads the numbers of waiters and holders of a limit from Redis.
func (g *limitBench) queue(ctx context.Context, limit string) (waiting, holding int, err error) {
	k := redisx.NewSpace(g.driver.ns).Limit(limit)
	var waiters, holders *redis.IntCmd
	_, err = g.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		waiters, holders = p.ZCard(ctx, k.Waiters()), p.ZCard(ctx, k.Holders())
		return nil
	})
	return int(waiters.Val()), int(holders.Val()), err
}

// memory returns the memory of the keys of a limit in Redis, in bytes.
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
