package worker

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pkg/queue"
)

// Config configures a worker. NATS and Redis are required; the caller closes them.
type Config struct {
	NATS  *nats.Conn
	Redis redis.UniversalClient

	Namespace string // default "default"

	// Partitions must match the namespace; default 0: any number.
	Partitions int

	// LeaseTTL is the time after which the activities of a dead worker are claimed by others; default 10 s, at least 100 ms. A lease
	// is renewed after a third of it.
	LeaseTTL time.Duration

	// Concurrency is the maximum number of activities of one task queue that run at a time; default 64.
	Concurrency int

	// QueueConcurrency replaces Concurrency for the task queues that it names.
	QueueConcurrency map[string]int

	// Drain is the time that Stop waits for running activities before it cancels them; default 30 s. It is shorter if the context of Stop
	// ends earlier.
	Drain time.Duration

	// Grace is the time that an activity has after the end of its context, before it is abandoned and its slot is free; default
	// pawl.DefaultGrace, 10 s. pawl.ActivityBinding.WithGrace overrides it.
	Grace time.Duration

	// MaxAbandoned is the maximum number of abandoned activities that run in a ready worker; default 100. With more Ready returns an
	// error, because they end only with the process.
	MaxAbandoned int

	// Name must be unique in the namespace, and one token of a subject: no dots, spaces or wildcards; default: host name, process id
	// and random characters.
	Name string

	// ReplyPrefixes are the allowed prefixes of reply subjects; default "_INBOX". See queue.Options.
	ReplyPrefixes []string

	// Interceptors are around every activity; the first is the outermost. See Interceptor.
	Interceptors []Interceptor

	// Codec opens the inputs of activities and seals their results: see package pawlcodec; default: none.
	Codec *pawlcodec.Codec

	// Local takes tasks from an orchestrator of this process, with the same Local, without NATS; default: none. See queue.Local.
	Local *queue.Local

	Logger  *slog.Logger          // default: none
	Metrics prometheus.Registerer // default: none
}

const minLeaseTTL = 100 * time.Millisecond

func (c Config) withDefaults() Config {
	c.Namespace = cmp.Or(c.Namespace, queue.DefaultNamespace)
	c.LeaseTTL = cmp.Or(c.LeaseTTL, 10*time.Second)
	c.Concurrency = cmp.Or(c.Concurrency, 64)
	c.Drain = cmp.Or(c.Drain, 30*time.Second)
	c.Grace = cmp.Or(c.Grace, pawl.DefaultGrace)
	c.MaxAbandoned = cmp.Or(c.MaxAbandoned, 100)
	if c.Name == "" {
		c.Name = defaultName()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) check() error {
	switch {
	case c.NATS == nil:
		return errors.New("worker: Config.NATS is not set")
	case c.Redis == nil:
		return errors.New("worker: Config.Redis is not set")
	case c.LeaseTTL < minLeaseTTL:
		return fmt.Errorf("worker: lease TTL must be at least %s (got %s)", minLeaseTTL, c.LeaseTTL)
	case slices.ContainsFunc(slices.Collect(maps.Values(c.QueueConcurrency)), func(n int) bool { return n < 1 }):
		return fmt.Errorf("worker: queue concurrency must be positive (got %v)", c.QueueConcurrency)
	case c.Partitions < 0 || c.Concurrency < 1 || c.Drain < 0:
		return fmt.Errorf("worker: partitions %d, concurrency %d, drain %s: must not be negative, and concurrency must be positive",
			c.Partitions, c.Concurrency, c.Drain)
	case c.Grace < 0 || c.MaxAbandoned < 0:
		return fmt.Errorf("worker: grace %s, max abandoned %d: must not be negative", c.Grace, c.MaxAbandoned)
	case strings.ContainsAny(c.Name, ".*> \t\r\n"):
		return fmt.Errorf("worker: name must not have dots, spaces or wildcards (got %q)", c.Name)
	}
	return nil
}

// defaultName returns a name with the host and process of the worker. It is different after each start, so that messages for a dead
// worker do not reach its successor.
func defaultName() string {
	host := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, hostname())
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), strings.ToLower(rand.Text()[:6]))
}

// hostname returns the host name, at most 64 characters.
func hostname() string {
	host, err := os.Hostname()
	if err != nil {
		return "worker"
	}
	return host[:min(len(host), 64)]
}
