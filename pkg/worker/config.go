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
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pkg/queue"
)

// Config configures a worker. NATS and Redis are required; Stop does not close them. The zero value of every other field selects its
// default.
type Config struct {
	NATS  *nats.Conn
	Redis redis.UniversalClient

	// Namespace is the namespace whose activities the worker runs; default "default".
	Namespace string

	// Partitions is the number of partitions that the namespace must have: Start fails if it differs. Default 0: any number is accepted.
	Partitions int

	// LeaseTTL is the time after which other workers may claim the activities of a worker that died; default 10 s, at least 100 ms.
	// Leases are renewed every third of it.
	LeaseTTL time.Duration

	// Concurrency is the maximum number of concurrent activities per task queue; default 64.
	Concurrency int

	// QueueConcurrency overrides Concurrency for the task queues that it lists.
	QueueConcurrency map[string]int

	// Drain is the time for which Stop waits for running activities before it cancels them; default 30 s. A deadline of the context of
	// Stop may shorten it.
	Drain time.Duration

	// Grace is the time that an activity has to return after its context has ended. Then it is abandoned and its slot becomes free.
	// Default pawl.DefaultGrace, 10 s; pawl.ActivityBinding.WithGrace overrides it for one activity.
	Grace time.Duration

	// MaxAbandoned is the number of abandoned activities up to which the worker is ready; default 100. Above it Ready returns an error,
	// because abandoned activities that ignore their context end only with the process.
	MaxAbandoned int

	// Name identifies the worker in leases, histories and logs. It must be unique in the namespace and one token of a NATS subject: no
	// dots, spaces or wildcards. Default: host name, process id and random characters.
	Name string

	// ReplyPrefixes are the prefixes that subjects of replies may have. The default is "_INBOX", which matches the inboxes of NATS,
	// including those of a role ("_INBOX_client"). Replies are never sent to subjects of the server ("$") or of Pawl.
	ReplyPrefixes []string

	// Interceptors wrap every activity; the first is the outermost. See Interceptor.
	Interceptors []Interceptor

	// Codec decodes the inputs of activities and encodes their results, for example with compression or encryption: see package
	// pawlcodec. Default: none.
	Codec *pawlcodec.Codec

	// Local delivers tasks from an orchestrator in the same process, configured with the same Local, without NATS. Default: none. See
	// queue.Local.
	Local *queue.Local

	Logger  *slog.Logger          // default: nothing is logged
	Metrics prometheus.Registerer // default: no metrics are registered
}

const minLeaseTTL = 100 * time.Millisecond

func (c Config) withDefaults() Config {
	c.Namespace = cmp.Or(c.Namespace, transport.DefaultNamespace)
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

// defaultName returns a name that contains the host name and the process id. It differs after every start, so that messages to a dead
// worker do not reach its replacement.
func defaultName() string {
	host := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, hostname())
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), strings.ToLower(rand.Text()[:6]))
}

// hostname returns the host name, truncated to 64 bytes.
func hostname() string {
	host, err := os.Hostname()
	if err != nil {
		return "worker"
	}
	return host[:min(len(host), 64)]
}
