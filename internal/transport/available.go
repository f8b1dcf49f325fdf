package transport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/internal/outage"
	"github.com/pawlrun/pawl/internal/redact"
)

// errNoJetStream is the error while NATS is reachable but JetStream is not.
var errNoJetStream = errors.New("queue: JetStream does not answer: it is starting, or electing a leader")

// passingCodes are the codes of transient errors of JetStream: a cluster without a leader, or a stream or consumer without an available
// replica.
var passingCodes = []jetstream.ErrorCode{
	10004,        // incomplete results
	10007,        // cluster not assigned to this server
	10008,        // temporarily unavailable
	10009,        // cluster cannot handle request
	10041,        // Raft error
	10049,        // stream store not created: the files of a deleted stream with that name are still being removed, or the disk fails
	10118, 10194, // stream is offline
	10119, 10195, // consumer is offline
}

// Unavailable reports whether an error means that NATS, or its JetStream, temporarily did not accept or answer a request: the connection
// is lost, no leader is elected, or no reply arrived in time. It is false for a rejected request.
func Unavailable(err error) bool {
	for _, passing := range []error{
		ErrDisconnected, ErrTimeout, ErrUnknown, ErrNoStream, errNoJetStream, errSilence, errLost, context.DeadlineExceeded,
		nats.ErrTimeout, nats.ErrNoResponders, nats.ErrNoServers, nats.ErrConnectionReconnecting, nats.ErrReconnectBufExceeded,
		nats.ErrDisconnected, nats.ErrStaleConnection,
	} {
		if errors.Is(err, passing) {
			return true
		}
	}
	var api jetstream.JetStreamError
	return errors.As(err, &api) && api.APIError() != nil && slices.Contains(passingCodes, api.APIError().ErrorCode)
}

// refusedConnection reports whether a connection failed for a permanent reason: credentials, or TLS.
func refusedConnection(err error) bool {
	if err == nil {
		return false
	}
	text := strings.ToLower(err.Error()) // the library has no typed error for rejected credentials
	for _, refusal := range []string{"authorization violation", "authentication expired", "authentication revoked"} {
		if strings.Contains(text, refusal) {
			return true
		}
	}
	for _, refusal := range []error{nats.ErrSecureConnRequired, nats.ErrSecureConnWanted, nats.ErrNkeysNotSupported} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return outage.RefusedTLS(err)
}

// connected returns nil if the connection can be used, and otherwise the reason: an error that is Unavailable, or a permanent one.
func connected(nc *nats.Conn) error {
	err := nc.LastError()
	switch {
	case nc.IsConnected():
		return nil
	case nc.IsClosed():
		return fmt.Errorf("queue: NATS at %s: the connection is closed: %w", servers(nc), errors.Join(nats.ErrConnectionClosed, err))
	case refusedConnection(err):
		return fmt.Errorf("queue: NATS at %s: %w", servers(nc), err)
	default:
		return fmt.Errorf("%w at %s", ErrDisconnected, servers(nc))
	}
}

func servers(nc *nats.Conn) string { return redact.URLs(strings.Join(nc.Servers(), ",")) }

// await repeats an attempt until NATS and JetStream are available, or ctx ends.
func (c *link) await(ctx context.Context, operation string, attempt func(context.Context) error) error {
	return c.outage.Await(ctx, outage.NATS, operation, Unavailable, func(ctx context.Context) error {
		if err := connected(c.nc); err != nil {
			return err
		}
		return attempt(ctx)
	})
}

// observe reports the outcome of an operation to the outage reporter.
func (c *link) observe(operation string, err error) {
	switch {
	case err == nil:
		c.outage.Succeeded(outage.NATS)
	case Unavailable(err):
		c.outage.Failed(outage.NATS, operation, err)
	}
}

// explain adds advice to errors of JetStream that give none.
func (c *link) explain(err error) error {
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		return c.withoutJetStream()
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("%w: start nats-server with -js, or enable it for the account", err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer from JetStream: %w", err)
	default:
		return err
	}
}

// withoutJetStream distinguishes a server without JetStream from one whose JetStream is temporarily unavailable. In a cluster another
// server may have it.
func (c *link) withoutJetStream() error {
	enabled, _ := c.nc.ConnectedServerJetStream()
	clustered := c.nc.ConnectedClusterName() != ""
	switch {
	case !c.nc.IsConnected():
		return ErrDisconnected
	case enabled || clustered:
		return errNoJetStream
	default:
		return fmt.Errorf("%w: start nats-server with -js, or enable it for the account", jetstream.ErrJetStreamNotEnabled)
	}
}
