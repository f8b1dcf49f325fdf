package queue

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/redact"
)

// Dial connects to NATS with the defaults that Pawl wants: after a first connection
// it reconnects for ever, waiting 50 ms to 1 s between attempts with jitter. The
// first connection is tried once (for 5 s a server) and its error says, on one line,
// what was tried. url may list several servers, separated by commas. opts come
// after the defaults and win; errors that the connection meets by itself are logged
// to slog.Default unless nats.ErrorHandler is among them.
func Dial(url string, opts ...nats.Option) (*nats.Conn, error) {
	all := append([]nats.Option{
		nats.Name("pawl " + filepath.Base(os.Args[0])),
		nats.Timeout(5 * time.Second),
		nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(reconnectDelay),
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			subject := ""
			if s != nil {
				subject = s.Subject
			}
			slog.Warn("NATS connection", "error", err, "subject", subject)
		}),
	}, opts...)
	nc, err := nats.Connect(url, all...)
	if err != nil {
		return nil, fmt.Errorf("queue: NATS at %s is not reachable: %w (tried each server once, 5 s at most)", redact.URLs(url), err)
	}
	return nc, nil
}

func reconnectDelay(attempts int) time.Duration {
	d := min(50*time.Millisecond<<min(attempts, 10), time.Second)
	return d/2 + rand.N(d/2+1)
}
