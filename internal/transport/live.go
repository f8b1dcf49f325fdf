package transport

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/message"
)

// The messages in this file are JSON, for NATS clients in any language: docs/http-api.md lists the subjects. See decision 48.

const (
	// WatchTTL is how long changes are published after a call of Watching.
	WatchTTL = 15 * time.Second

	outcomeServed = 16 // requests for outcomes that a process serves concurrently
)

// PublishChange publishes a change to watchers. The error need not be handled.
func (c *signals) PublishChange(n message.Change) error {
	return c.sendJSON(c.subj.change(n.Instance), n)
}

// OnChanges calls fn for every change, in the order of their arrival. A change may be forged.
func (c *signals) OnChanges(fn func(message.Change)) (*Subscription, error) {
	return onMessage(c.link, c.subj.change("*"), func(m *nats.Msg) error {
		n, err := decodeChange(m.Data)
		if err == nil {
			fn(n)
		}
		return err
	})
}

func decodeChange(b []byte) (n message.Change, err error) {
	if err := json.Unmarshal(b, &n); err != nil {
		return n, fmt.Errorf("%w: change: %.200s", ErrMalformed, err.Error())
	}
	return n, CheckInstance(n.Instance)
}

// Watching requests that orchestrators publish changes for the next WatchTTL.
func (c *signals) Watching() error { return c.send(c.subj.watch(), nil) }

// OnWatching calls fn for every request of Watching.
func (c *signals) OnWatching(fn func()) (*Subscription, error) {
	return subscribe(c.nc, c.subj.watch(), func(*nats.Msg) { fn() })
}

// PublishOutcome publishes how an instance ended. The error need not be handled.
func (c *signals) PublishOutcome(o message.Outcome) error {
	return c.sendJSON(c.subj.ended(o.Instance), c.fitted(o))
}

// fitted omits a result that is too large for the server.
func (c *link) fitted(o message.Outcome) message.Outcome {
	if int64(len(o.Result)+maxEnvelope) > c.nc.MaxPayload() {
		o.Result, o.Omitted = nil, true
	}
	return o
}

// ServeOutcomes answers requests for the outcome of an instance until Stop. Each request is received by one of the processes that serve
// them. fn is called on its own goroutine, at most 16 concurrently; its context ends with Stop.
func (c *requests) ServeOutcomes(fn func(ctx context.Context, instance string) message.Outcome) (*Subscription, error) {
	prefix := len(c.subj.result(""))
	return c.serve(c.subj.result("*"), "pawl", outcomeServed, func(ctx context.Context, m *nats.Msg) {
		instance, err := instanceOf(m.Subject[prefix:])
		if err != nil || !c.RepliesTo(m.Reply) {
			c.ignore(m, fmt.Errorf("%w: request for an outcome", ErrMalformed))
			return
		}
		b, err := json.Marshal(c.fitted(fn(ctx, instance)))
		if err != nil {
			c.log.Debug("reply not sent", "subject", m.Subject, "error", err)
			return
		}
		c.reply(m, b)
	})
}

func (c *link) sendJSON(subject string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("queue: encode for %s: %w", subject, err)
	}
	return c.send(subject, b)
}
