package worker

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/queue"
)

// Config is what a worker needs. NATS and Redis must be given; they stay the caller's to close.
type Config struct {
	NATS  *nats.Conn
	Redis redis.UniversalClient

	Namespace string // default "default"

	// Partitions is checked against the namespace. The default, 0, takes what the namespace has.
	Partitions int

	// LeaseTTL is how long an activity stays claimed after its worker was last heard of;
	// default 10 s, at least 100 ms. It is renewed every third of it.
	LeaseTTL time.Duration

	// Concurrency is how many activities of one task queue run at once; default 64.
	Concurrency int

	// Drain is how long Stop waits for running activities before it cancels them;
	// default 30 s. Less if the context of Stop ends before.
	Drain time.Duration

	// Grace is how long an activity may clean up once its context is done, before it is
	// abandoned and its place is free; default pawl.DefaultGrace, 10 s. A binding may
	// have a grace of its own: see pawl.ActivityBinding.WithGrace.
	Grace time.Duration

	// MaxAbandoned is with how many abandoned activities that still run the worker is
	// ready; default 100. With more Ready says so: they can only be ended with the process.
	MaxAbandoned int

	// Name must be unique in the namespace and one token of a subject: no dots, spaces
	// or wildcards. Default: host, process id and something random.
	Name string

	// ReplyPrefixes are what a subject may begin with that replies are sent to; default "_INBOX". See queue.Options.
	ReplyPrefixes []string

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
		return fmt.Errorf("worker: lease TTL %s, want at least %s", c.LeaseTTL, minLeaseTTL)
	case c.Partitions < 0 || c.Concurrency < 1 || c.Drain < 0:
		return fmt.Errorf("worker: partitions %d, concurrency %d, drain %s: none may be negative",
			c.Partitions, c.Concurrency, c.Drain)
	case c.Grace < 0 || c.MaxAbandoned < 0:
		return fmt.Errorf("worker: grace %s, max abandoned %d: neither may be negative", c.Grace, c.MaxAbandoned)
	case strings.ContainsAny(c.Name, ".*> \t\r\n"):
		return fmt.Errorf("worker: name %q, want no dots, spaces or wildcards", c.Name)
	}
	return nil
}

// defaultName tells people where a worker runs, and is another after each start: what
// was meant for a worker that died is not taken for its successor's.
func defaultName() string {
	host := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, hostname())
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), strings.ToLower(rand.Text()[:6]))
}

// hostname is at most 64 characters.
func hostname() string {
	host, err := os.Hostname()
	if err != nil {
		return "worker"
	}
	return host[:min(len(host), 64)]
}
