package bench

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/queue"
)

const (
	burstInstances  = 100
	burstActivities = 5 // of each
	settleTimeout   = 10 * time.Second
	settleInterval  = 20 * time.Millisecond
)

// burst is many instances cancelled at the same moment, and what is left of them.
type burst struct {
	Instances  int     `json:"instances"`
	Activities int     `json:"activities"`
	ToldMS     float64 `json:"told_ms"` // from before the first cancellation is published to the last ctx.Done()
	Missed     int     `json:"missed"`
	Leases     int     `json:"leases"`     // left
	Goroutines int     `json:"goroutines"` // left in the worker
	Wakeups    int     `json:"wakeups"`    // wakeups left once the instances are purged; until then they are those of the retention
}

func (c *canceller) burst(ctx context.Context, rdb redis.UniversalClient) (*burst, error) {
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
	began := time.Now()
	if err := each(ctx, burstInstances, burstInstances, func(ctx context.Context, i int) error { return c.request(ctx, holds[i]) }); err != nil {
		return nil, err
	}
	ended := 0
	for _, h := range holds {
		times, err := c.await(ctx, h)
		if err != nil {
			return nil, err
		}
		ended += len(times)
		for _, at := range times {
			b.ToldMS = max(b.ToldMS, millis(at.Sub(began)))
		}
	}
	b.Missed = b.Activities - ended
	return b, c.countLeft(ctx, rdb, b, holds, before)
}

// countLeft waits until nothing is left, and counts what is left at the end of the timeout.
func (c *canceller) countLeft(ctx context.Context, rdb redis.UniversalClient, b *burst, holds []*held, before int) error {
	if err := settle(ctx, func() (bool, error) {
		now, err := c.goroutines(ctx)
		if err != nil {
			return false, err
		}
		b.Goroutines = max(now-before, 0)
		b.Leases, err = countLeases(ctx, rdb, c.ns)
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
		b.Wakeups, err = wakeups(ctx, rdb, c.ns, holds)
		return b.Wakeups == 0, err
	})
}

// settle polls until done returns true or an error, for at most settleTimeout.
func settle(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(settleInterval)
	defer tick.Stop()
	for end := time.Now().Add(settleTimeout); time.Now().Before(end); {
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

// countLeases counts the leases of the held activities.
func countLeases(ctx context.Context, rdb redis.UniversalClient, namespace string) (n int, err error) {
	space := redisx.NewSpace(namespace)
	it := rdb.Scan(ctx, 0, space.Pattern(), 10_000).Iterator()
	for it.Next(ctx) {
		for p := range queue.DefaultPartitions {
			if key, ok := space.Part(p).Parse(it.Val()); ok && key.Activity > 0 {
				n++
			}
		}
	}
	return n, it.Err()
}

// wakeups counts the instances that have a wakeup.
func wakeups(ctx context.Context, rdb redis.UniversalClient, namespace string, holds []*held) (n int, err error) {
	for p := range queue.DefaultPartitions {
		members, err := rdb.ZRange(ctx, redisx.NewSpace(namespace).Part(p).Wakeups(), 0, -1).Result()
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

// commitTime returns how long Redis took, in milliseconds, for the longest script on the instance's record during do: the
// commit that cancels. It is 0 for one that was faster than the slow log's threshold.
func commitTime(ctx context.Context, rdb redis.UniversalClient, id string, do func() error) (float64, error) {
	const slower, entries = "100", "20000" // microseconds, number
	for name, value := range map[string]string{"slowlog-log-slower-than": slower, "slowlog-max-len": entries} {
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
	_, record, _ := strings.Cut(redisx.NewSpace("").Part(0).Instance(id), "}")
	log, err := rdb.SlowLogGet(ctx, -1).Result()
	if err != nil {
		return 0, err
	}
	var longest time.Duration
	for _, entry := range log {
		if slices.ContainsFunc(entry.Args, func(arg string) bool { return strings.HasSuffix(arg, "}"+record) }) {
			longest = max(longest, entry.Duration)
		}
	}
	return millis(longest), nil
}
