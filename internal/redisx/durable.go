package redisx

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

const (
	durablePoll = 50 * time.Millisecond // between two requests of the state of a master
	// syncedAfter is the time after which Redis with "appendfsync everysec" has started to sync its acknowledged writes: one second
	// between two syncs, and two for which it delays a write during a slow sync, plus a margin.
	syncedAfter = 4 * time.Second
)

// Durable waits until no failover and no power failure can undo the writes that the masters have acknowledged before: every connected
// replica has them and, with an append-only file, so has the disk. The user needs the permission for INFO. With the permission for CONFIG
// GET, Durable does not wait four seconds if every write is synced immediately.
func Durable(ctx context.Context, rdb redis.UniversalClient) error {
	nodes, err := masters(ctx, rdb)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, node := range nodes {
		g.Go(func() error { return durable(ctx, node) })
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("redis: wait for the disk and the replicas: %w", err)
	}
	return nil
}

func durable(ctx context.Context, node redis.Cmdable) error {
	var offset int64
	always := false
	if v, err := node.ConfigGet(ctx, "appendfsync").Result(); err == nil {
		always = v["appendfsync"] == "always"
	}
	tick := time.NewTicker(durablePoll)
	defer tick.Stop()
	for begun, first := time.Now(), true; ; first = false {
		text, err := node.Info(ctx).Result()
		if err != nil {
			return err
		}
		info := infoOf(text)
		if first {
			if offset, err = strconv.ParseInt(info["master_repl_offset"], 10, 64); err != nil {
				return fmt.Errorf("%w: master_repl_offset is %q", ErrReply, info["master_repl_offset"])
			}
		}
		synced := info["aof_enabled"] != "1" || always || time.Since(begun) > syncedAfter && info["aof_pending_bio_fsync"] == "0"
		if synced && replicated(info, offset) {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// infoOf parses the reply to INFO.
func infoOf(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// replicated reports whether every connected replica has received the replication stream up to an offset.
func replicated(info map[string]string, offset int64) bool {
	n, _ := strconv.Atoi(info["connected_slaves"])
	for i := range n {
		_, rest, _ := strings.Cut(info["slave"+strconv.Itoa(i)], "offset=")
		digits, _, _ := strings.Cut(rest, ",")
		if at, err := strconv.ParseInt(digits, 10, 64); err != nil || at < offset {
			return false
		}
	}
	return true
}
