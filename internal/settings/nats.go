package settings

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/redact"
	"github.com/pawlrun/pawl/pkg/queue"
)

// OpenNATS connects, and fails if no server is reachable. The error is one line that says where and what was tried. Later
// losses of the connection are logged and repaired forever.
func (n NATS) OpenNATS(log *slog.Logger) (*nats.Conn, error) {
	return n.dial(log, slog.LevelWarn, slog.LevelInfo, nats.RetryOnFailedConnect(false))
}

// DialNATS is OpenNATS for a fleet, which waits: if no server is reachable, the connection is made in the background. The
// error is a connection that was refused. Losses of the connection are logged at debug level: fleets report outages.
func (n NATS) DialNATS(log *slog.Logger) (*nats.Conn, error) {
	return n.dial(log, slog.LevelDebug, slog.LevelDebug, nats.RetryOnFailedConnect(true))
}

func (n NATS) dial(log *slog.Logger, lost, back slog.Level, opts ...nats.Option) (*nats.Conn, error) {
	own, err := n.options()
	if err != nil {
		return nil, fmt.Errorf("NATS at %s: %w", redact.URLs(n.NATSURL), err)
	}
	opts = append(opts, own...)
	opts = append(opts,
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			if !nc.IsClosed() {
				log.Log(context.Background(), lost, "nats connection lost, reconnecting", "url", redact.URLs(n.NATSURL), "error", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Log(context.Background(), back, "nats connection restored", "server", nc.ConnectedUrlRedacted())
		}),
	)
	return queue.Dial(n.NATSURL, opts...)
}

func (n NATS) options() ([]nats.Option, error) {
	var opts []nats.Option
	if n.NATSCreds != "" {
		if _, err := os.Stat(n.NATSCreds); err != nil {
			return nil, fmt.Errorf("read the credentials: %w", err)
		}
		opts = append(opts, nats.UserCredentials(n.NATSCreds))
	}
	if n.NATSNKey != "" {
		o, err := nats.NkeyOptionFromSeed(n.NATSNKey)
		if err != nil {
			return nil, fmt.Errorf("read the NKey seed %s: %w", n.NATSNKey, err)
		}
		opts = append(opts, o)
	}
	c, err := tlsConfig(nil, n.NATSCA, n.NATSCert, n.NATSKey)
	if err != nil {
		return nil, err
	}
	if c != nil {
		opts = append(opts, nats.Secure(c))
	}
	return opts, nil
}
