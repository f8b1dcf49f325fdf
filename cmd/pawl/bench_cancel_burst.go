package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/redisx"
)

const (
	burstInstances  = 100
	burstActivities = 5 // of each
	settlePatience  = 10 * time.Second
	settleEvery     = 20 * time.Millisecond
)

// burst is many instances cancelled at the same moment, and what is left of them.
type burst struct {
	Instances  int     `json:"instances"`
	Activities int     `json:"activities"`
	ToldMS     float64 `json:"told_ms"` // from before the first cancel was published to the last ctx.Done()
	Missed     int     `json:"missed"`
	Leases     int     `json:"leases"`     // left
	Goroutines int     `json:"goroutines"` // left in the worker
	Agenda     int     `json:"agenda"`     // members left once the instances are purged; before, the agenda knows until when they are kept
}

func (c *canceller) burst(ctx context.Context, rdb *redis.Client, namespace string) (*burst, error) {
	b := &burst{Instances: burstInstances, Activities: burstInstances * burstActivities}
	before, err := c.goroutines(ctx)
	if err != nil {
		return nil, err
	}
	holds := make([]*held, burstInstances)
	if err := each(ctx, burstInstances, burstInstances, func(ctx context.Context, i int) (err error) {
		holds[i], err = c.hold(ctx, burstActivities)
		return err
	}); err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := each(ctx, burstInstances, burstInstances, func(ctx context.Context, i int) error { return c.cancel(ctx, holds[i]) }); err != nil {
		return nil, err
	}
	told := 0
	for _, h := range holds {
		moments, err := c.await(ctx, h)
		if err != nil {
			return nil, err
		}
		told += len(moments)
		for _, at := range moments {
			b.ToldMS = max(b.ToldMS, float64(at.Sub(begun).Nanoseconds())/1e6)
		}
	}
	b.Missed = b.Activities - told
	return b, c.left(ctx, rdb, namespace, b, holds, before)
}

// left waits until nothing is left, and says what still is when patience ends.
func (c *canceller) left(ctx context.Context, rdb *redis.Client, namespace string, b *burst, holds []*held, before int) error {
	if err := settle(ctx, func() (bool, error) {
		now, err := c.goroutines(ctx)
		if err != nil {
			return false, err
		}
		b.Goroutines = max(now-before, 0)
		leases, err := keys(ctx, rdb, namespace, ":l:")
		b.Leases = len(leases)
		return b.Goroutines+b.Leases == 0, err
	}); err != nil {
		return err
	}
	if err := each(ctx, len(holds), len(holds), func(ctx context.Context, i int) error {
		return c.c.Purge(ctx, holds[i].id)
	}); err != nil {
		return err
	}
	return settle(ctx, func() (done bool, err error) {
		b.Agenda, err = onAgenda(ctx, rdb, namespace, holds)
		return b.Agenda == 0, err
	})
}

// settle asks until the answer is yes, or patience ends: then what is there is the result.
func settle(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	for end := time.Now().Add(settlePatience); time.Now().Before(end); {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func keys(ctx context.Context, rdb *redis.Client, namespace, kind string) (found []string, err error) {
	it := rdb.Scan(ctx, 0, redisx.NewSpace(namespace).Pattern(), 10_000).Iterator()
	for it.Next(ctx) {
		if strings.Contains(it.Val(), "}"+kind) {
			found = append(found, it.Val())
		}
	}
	return found, it.Err()
}

func onAgenda(ctx context.Context, rdb *redis.Client, namespace string, holds []*held) (n int, err error) {
	agendas, err := keys(ctx, rdb, namespace, ":agenda")
	if err != nil {
		return 0, err
	}
	for _, key := range agendas {
		members, err := rdb.ZRange(ctx, key, 0, -1).Result()
		if err != nil {
			return 0, err
		}
		for _, h := range holds {
			if slices.Contains(members, h.id) {
				n++
			}
		}
	}
	return n, nil
}

// commitTime gives how long Redis took, in milliseconds, for the longest script that
// concerned the instance's record while do ran: the commit that cancels. It is 0 for one
// that was quicker than what is logged; the commands within scripts are to be that.
func commitTime(ctx context.Context, rdb *redis.Client, id string, do func() error) (float64, error) {
	const slow, many = "100", "20000" // microseconds, entries
	for name, value := range map[string]string{"slowlog-log-slower-than": slow, "slowlog-max-len": many} {
		if err := rdb.ConfigSet(ctx, name, value).Err(); err != nil {
			return 0, err
		}
	}
	if err := rdb.Do(ctx, "SLOWLOG", "RESET").Err(); err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	log, err := rdb.SlowLogGet(ctx, -1).Result()
	if err != nil {
		return 0, err
	}
	var longest time.Duration
	for _, entry := range log {
		if slices.ContainsFunc(entry.Args, func(arg string) bool { return strings.HasSuffix(arg, "}:i:"+id) }) {
			longest = max(longest, entry.Duration)
		}
	}
	return float64(longest.Nanoseconds()) / 1e6, nil
}
