package bench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/transport"
)

const (
	burstInstances  = 100
	burstActivities = 5 // of each instance
	settleTimeout   = time.Minute
	settleInterval  = 20 * time.Millisecond
)

// burst reports on many instances that are cancelled at the same time, and on the resources that they retain.
type burst struct {
	Instances  int     `json:"instances"`
	Activities int     `json:"activities"`
	NotifiedMS float64 `json:"notified_ms"` // from before the first request to the last ctx.Done()
	Missed     int     `json:"missed"`
	Leases     int     `json:"leases"`     // leases left
	Goroutines int     `json:"goroutines"` // goroutines left in the worker
	Wakeups    int     `json:"wakeups"`    // wakeups left after the instances are purged; before, their retention has wakeups
}

func (c *canceller) burst(ctx context.Context, rdb redis.UniversalClient) (*burst, error) {
	b := &burst{Instances: burstInstances, Activities: burstInstances * burstActivities}
	before, err := c.goroutines(ctx)
	if err != nil {
		return nil, err
	}
	holds, err := c.holdMany(ctx, burstInstances, burstInstances, burstActivities)
	if err != nil {
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
			b.NotifiedMS = max(b.NotifiedMS, millis(at.Sub(began)))
		}
	}
	b.Missed = b.Activities - ended
	return b, c.countLeft(ctx, rdb, b, holds, before)
}

// countLeft waits until leases and goroutines are gone, purges the instances, and waits until their wakeups are gone. It counts those that
// remain at the end of each wait.
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

// settle polls until done returns true or an error. The end of settleTimeout is no error.
func settle(ctx context.Context, done func() (bool, error)) error {
	limited, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	err := poll(limited, settleInterval, done)
	if errors.Is(err, context.DeadlineExceeded) {
		return ctx.Err()
	}
	return err
}

// countLeases counts the leases of the namespace.
func countLeases(ctx context.Context, rdb redis.UniversalClient, namespace string) (n int, err error) {
	space := redisx.NewSpace(namespace)
	it := rdb.Scan(ctx, 0, space.Pattern(), 10_000).Iterator()
	for it.Next(ctx) {
		for p := range transport.DefaultPartitions {
			if key, ok := space.Part(p).Parse(it.Val()); ok && key.Activity > 0 {
				n++
			}
		}
	}
	return n, it.Err()
}

// wakeups counts the held instances that have a wakeup.
func wakeups(ctx context.Context, rdb redis.UniversalClient, namespace string, holds []*held) (n int, err error) {
	for p := range transport.DefaultPartitions {
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

// commitTime returns the duration, in milliseconds, of the longest script that Redis ran on the instance's record during do: the
// commit that cancels. It returns 0 if the script was faster than the threshold of the slow log.
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
