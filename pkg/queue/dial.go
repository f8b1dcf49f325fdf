package queue

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

// pingEvery is the interval of pings. A dead connection is detected after 3 to 4.5 s: at the third ping, if the two before
// it were not answered.
const pingEvery = 1500 * time.Millisecond

// dialTimeout bounds one attempt at one server.
const dialTimeout = 2 * time.Second

// Dial connects to NATS with Pawl's defaults: it reconnects indefinitely, with 50 ms to 1 s and jitter between attempts,
// and considers a connection lost if no ping has been answered for 4.5 s. If no server is reachable (each is tried for 2
// s), the connection is returned nevertheless and made in the background: Open and Join, and so the Start of an
// orchestrator or worker, wait for it. The error, on one line, is a rejected connection: bad credentials, TLS that does not
// match, a bad URL. With nats.RetryOnFailedConnect(false) an unreachable server is an error, too.
//
// url may list several servers, separated by commas. opts override the defaults. Asynchronous errors of the connection are
// logged to slog.Default unless nats.ErrorHandler is among opts.
func Dial(url string, opts ...nats.Option) (*nats.Conn, error) {
	return DialContext(context.Background(), url, opts...)
}

// DialContext is Dial for a program that can be stopped while it waits for a server that does not reply: when ctx ends
// first, it returns the cause at once. The attempt under way ends by itself, and closes what it has opened. ctx bounds the
// first attempt only.
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
	asynchronous := outage.New(slog.Default()).Logger() // one line a minute
	all := append([]nats.Option{
		nats.Name("pawl " + filepath.Base(os.Args[0])),
		nats.Timeout(dialTimeout),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // a password that is being replaced is rejected for a while
		nats.CustomReconnectDelay(reconnectDelay),
		nats.PingInterval(pingEvery),
		nats.MaxPingsOutstanding(2),
		nats.FlusherTimeout(5 * time.Second), // a blocked write holds a lock that the detection above needs
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			subject := ""
			if s != nil {
				subject = s.Subject
			}
			asynchronous.Warn("nats connection reported an error", "error", err, "subject", subject)
		}),
	}, opts...)
	failed := make(chan error, 1) // the first attempt, if there are others behind it
	nc, err := nats.Connect(url, append(all, firstFailure(failed))...)
	if err == nil && !nc.IsConnected() {
		select {
		case first := <-failed:
			if refusedConnection(first) {
				nc.Close()
				err = first
			}
		case <-time.After(time.Second): // it has connected meanwhile
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

// firstFailure sends the error of the first failed attempt.
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
