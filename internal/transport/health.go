package transport

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Health is the state of NATS as seen from a connection.
type Health struct {
	Server  string // name of the connected server
	Version string
	Latency time.Duration // round trip of a PING
	Streams []StreamHealth
}

// StreamHealth is the state of a stream.
type StreamHealth struct {
	Name      string
	Messages  uint64
	Bytes     uint64
	Consumers int
	Leader    string // empty: the server is not clustered
	Replicas  int    // configured number of replicas
	Behind    int    // replicas that are offline, or not current
	Error     string // reason for which the other fields are missing
}

// Health requests the state of the streams. The error is ErrDisconnected without a connection; the error of a single stream is in its
// StreamHealth.
func (c *Conn) Health(ctx context.Context) (Health, error) {
	h := Health{Server: c.nc.ConnectedServerName(), Version: c.nc.ConnectedServerVersion()}
	if !c.Connected() {
		return h, ErrDisconnected
	}
	begin := time.Now()
	if err := c.nc.FlushWithContext(ctx); err != nil {
		return h, fmt.Errorf("queue: health: %w", err)
	}
	h.Latency = time.Since(begin)
	for _, name := range []string{c.inputs.Name, c.tasks.Name} {
		info, err := c.info(ctx, name)
		h.Streams = append(h.Streams, streamHealth(name, info, err))
	}
	return h, nil
}

func streamHealth(name string, info *jetstream.StreamInfo, err error) StreamHealth {
	s := StreamHealth{Name: name}
	if err != nil {
		s.Error = err.Error()
		return s
	}
	s.Messages, s.Bytes, s.Consumers, s.Replicas = info.State.Msgs, info.State.Bytes, info.State.Consumers, info.Config.Replicas
	if info.Cluster == nil {
		return s
	}
	s.Leader = info.Cluster.Leader
	for _, r := range info.Cluster.Replicas {
		if r.Offline || !r.Current {
			s.Behind++
		}
	}
	return s
}
