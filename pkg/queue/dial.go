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

// pingEvery has a dead connection detected after 3 to 4.5 s: at the third ping, if the two before it were not answered.
const pingEvery = 1500 * time.Millisecond

// Dial connects to NATS with the defaults that Pawl wants: after a first connection
// it reconnects forever, waiting 50 ms to 1 s between attempts with jitter, and takes
// one for lost on which nothing has been answered for 4.5 s. The
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
		nats.PingInterval(pingEvery),
		nats.MaxPingsOutstanding(2),
		nats.FlusherTimeout(5 * time.Second), // a write holds a lock of the connection, also against the detection above
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
