package settings

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/redact"
	"github.com/pawlrun/pawl/pkg/queue"
)

// OpenNATS connects. The error is one line that says where and what was tried. Later
// losses of the connection are logged and repaired for ever.
func (n NATS) OpenNATS(log *slog.Logger) (*nats.Conn, error) {
	opts, err := n.options()
	if err != nil {
		return nil, fmt.Errorf("NATS at %s: %w", redact.URLs(n.NATSURL), err)
	}
	opts = append(opts,
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			if !nc.IsClosed() {
				log.Warn("NATS connection lost; reconnecting", "url", redact.URLs(n.NATSURL), "error", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info("NATS connection is back", "server", nc.ConnectedUrlRedacted())
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
