package settings

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/redact"
	"github.com/pawlrun/pawl/internal/transport"
)

// OpenNATS connects, and fails if no server is reachable. The error is one line with the address and what was tried. When the connection is
// lost later, the loss is logged, and the client reconnects without a limit of attempts.
func (n NATS) OpenNATS(log *slog.Logger) (*nats.Conn, error) {
	return n.dial(context.Background(), log, slog.LevelWarn, slog.LevelInfo, nats.RetryOnFailedConnect(false))
}

// DialNATS is OpenNATS for orchestrators and workers, which wait for the servers: if none is reachable, it connects in the background. It fails
// if a server rejects the connection, or with the cause of ctx, which bounds the first attempt. Losses of the connection are
// logged at debug level, because orchestrators and workers report outages.
func (n NATS) DialNATS(ctx context.Context, log *slog.Logger) (*nats.Conn, error) {
	return n.dial(ctx, log, slog.LevelDebug, slog.LevelDebug, nats.RetryOnFailedConnect(true))
}

func (n NATS) dial(ctx context.Context, log *slog.Logger, lost, restored slog.Level, opts ...nats.Option) (*nats.Conn, error) {
	own, err := n.options(log)
	if err != nil {
		return nil, fmt.Errorf("NATS at %s: %w", n.NATSURL, err)
	}
	opts = append(opts, own...)
	opts = append(opts,
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			if !nc.IsClosed() {
				log.Log(context.Background(), lost, "nats connection lost, reconnecting", "url", n.NATSURL, "error", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Log(context.Background(), restored, "nats connection restored", "server", redact.URLs(nc.ConnectedUrl())) // nats.go redacts passwords, but not tokens
		}),
	)
	warnReadable(log, n.NATSPass, n.NATSCreds, n.NATSNKey, n.NATSKey)
	return transport.DialContext(ctx, string(n.NATSURL), opts...)
}

// options reads the files. Files that cannot be read later are logged; log may be nil.
func (n NATS) options(log *slog.Logger) ([]nats.Option, error) {
	opts, err := n.password(log)
	if err != nil {
		return nil, err
	}
	if n.NATSInbox != "" {
		opts = append(opts, nats.CustomInboxPrefix(n.NATSInbox))
	}
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

func (n NATS) password(log *slog.Logger) ([]nats.Option, error) {
	if err := redact.Check(string(n.NATSURL)); err != nil {
		return nil, err
	}
	switch {
	case n.NATSPass == "" && n.NATSUser != "":
		return nil, errors.New("--nats-user needs --nats-password-file")
	case n.NATSPass == "":
		return nil, nil
	case strings.Contains(string(n.NATSURL), "@"):
		return nil, errTwoPasswords
	case n.NATSCreds != "" || n.NATSNKey != "":
		return nil, errors.New("give one of --nats-password-file, --nats-creds and --nats-nkey")
	}
	first, err := readSecret(n.NATSPass)
	if err != nil {
		return nil, err
	}
	f := &secretFile{path: n.NATSPass, log: orDiscard(log), last: first}
	if n.NATSUser == "" {
		return []nats.Option{nats.TokenHandler(f.read)}, nil
	}
	return []nats.Option{nats.UserInfoHandler(func() (string, string) { return n.NATSUser, f.read() })}, nil
}
