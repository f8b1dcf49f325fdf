package transport

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/internal/outage"
	"github.com/pawlrun/pawl/internal/timers"
)

const (
	contactGap   = 2500 * time.Millisecond // silence after which a contact has ended
	probeEvery   = time.Second
	probeTimeout = 2 * time.Second
)

// contact records when something was last received from INPUTS: a message or heartbeat of any reader, or the reply to a probe. It does not
// depend on options of the NATS connection, or on a lock that a write to a dead connection may hold.
type contact struct {
	began time.Time
	last  atomic.Int64 // ns since began
	since atomic.Int64 // start of the current contact, ns since began
}

func newContact() *contact { return &contact{began: time.Now()} }

// received records contact. It is called for every message of every reader; a nil contact ignores it.
func (k *contact) received(now time.Time) {
	if k == nil {
		return
	}
	at := int64(now.Sub(k.began))
	if at-k.last.Swap(at) > int64(contactGap) {
		k.since.Store(at)
	}
}

// InputsSilence returns how long nothing has been received from INPUTS (silent), and how long messages had arrived without a gap of 2.5 s
// before that (steady). ProbeInputs and readers keep it up to date.
func (c *inputStream) InputsSilence() (silent, steady time.Duration) {
	k := c.contact
	last := k.last.Load()
	return max(0, time.Since(k.began)-time.Duration(last)), max(0, time.Duration(last-k.since.Load()))
}

// ProbeInputs sends a request to the leader of INPUTS whenever nothing has been received for a second, until ctx ends, so that
// InputsSilence is also meaningful in a process that reads no partition. The requested message cannot exist, so the reply costs the leader
// no work.
func (c *inputStream) ProbeInputs(ctx context.Context) {
	for {
		if silent, _ := c.InputsSilence(); silent > probeEvery && c.nc.IsConnected() {
			c.probe(ctx)
		}
		if !outage.Sleep(ctx, timers.Until(probeEvery)) {
			return
		}
	}
}

func (c *inputStream) probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, err := c.streams.message(ctx, c.streams.inputs.Name, messageGet{Seq: math.MaxInt64})
	if err == nil || errors.Is(err, jetstream.ErrMsgNotFound) {
		c.contact.received(time.Now())
	}
}
