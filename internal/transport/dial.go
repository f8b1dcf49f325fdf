package transport

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/outage"
	"github.com/pawlrun/pawl/internal/redact"
)

// pingEvery is the interval of pings. A dead connection is detected after 3 to 4.5 s: at the third ping, if the previous two were not
// answered.
const pingEvery = 1500 * time.Millisecond

// dialTimeout bounds one connection attempt to one server.
const dialTimeout = 2 * time.Second

// Dial connects to NATS with Pawl's defaults: see queue.Dial. Open and Join wait for a connection that is not there yet.
func Dial(url string, opts ...nats.Option) (*nats.Conn, error) {
	return DialContext(context.Background(), url, opts...)
}

// DialContext is Dial until ctx ends: see queue.DialContext.
func DialContext(ctx context.Context, url string, opts ...nats.Option) (*nats.Conn, error) {
	type result struct {
		nc  *nats.Conn
		err error
	}
	dialed := make(chan result)
	go func() {
		nc, err := dial(url, opts)
		select {
		case dialed <- result{nc, err}:
		case <-ctx.Done():
			if err == nil {
				nc.Close()
			}
		}
	}()
	select {
	case r := <-dialed:
		return r.nc, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("queue: NATS at %s: %w", redact.URLs(url), context.Cause(ctx))
	}
}

func dial(url string, opts []nats.Option) (*nats.Conn, error) {
	if err := redact.Check(url); err != nil {
		return nil, fmt.Errorf("queue: NATS at %s: %w", redact.URLs(url), err)
	}
	asynchronous := outage.New(slog.Default()).Logger() // one line per minute
	all := append([]nats.Option{
		nats.Name("pawl " + filepath.Base(os.Args[0])),
		nats.Timeout(dialTimeout),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // a password that is being replaced may be rejected for a while
		nats.CustomReconnectDelay(reconnectDelay),
		nats.PingInterval(pingEvery),
		nats.MaxPingsOutstanding(2),
		nats.FlusherTimeout(5 * time.Second), // a blocked write holds a lock that the detection by pings needs
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			subject := ""
			if s != nil {
				subject = s.Subject
			}
			asynchronous.Warn("nats connection reported an error", "error", err, "subject", subject)
		}),
	}, opts...)
	failed := make(chan error, 1) // error of the first attempt, if others follow it
	nc, err := nats.Connect(url, append(all, firstFailure(failed))...)
	if err == nil && !nc.IsConnected() {
		select {
		case first := <-failed:
			if refusedConnection(first) {
				nc.Close()
				err = first
			}
		case <-time.After(time.Second): // connected in the meantime
		}
	}
	switch {
	case refusedConnection(err):
		return nil, fmt.Errorf("queue: NATS at %s: %w", redact.URLs(url), err)
	case err != nil:
		return nil, fmt.Errorf("queue: NATS at %s is not reachable: %w (tried each server once, %s at most)", redact.URLs(url), err, dialTimeout)
	default:
		return nc, nil
	}
}

// firstFailure returns an option that sends the error of the first failed attempt.
func firstFailure(failed chan<- error) nats.Option {
	return func(o *nats.Options) error {
		next := o.ReconnectErrCB
		o.ReconnectErrCB = func(nc *nats.Conn, err error) {
			select {
			case failed <- err:
			default:
			}
			if next != nil {
				next(nc, err)
			}
		}
		return nil
	}
}

func reconnectDelay(attempts int) time.Duration {
	d := min(50*time.Millisecond<<min(attempts, 10), time.Second)
	return d/2 + rand.N(d/2+1)
}
