package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// What is in this file is JSON, for NATS clients of any language: docs/http-api.md has the subjects. See decision 48.

const (
	// WatchTTL is how long changes are published after a Watching.
	WatchTTL = 15 * time.Second

	outcomeServed = 16 // requests for outcomes that a process serves at a time
)

// PublishChange publishes a change to watchers. The error need not be handled.
func (c *signals) PublishChange(n Change) error { return c.sendJSON(c.subj.change(n.Instance), n) }

// OnChanges calls fn for every change, in the order of their arrival. A change may be forged.
func (c *signals) OnChanges(fn func(Change)) (*Subscription, error) {
	return subscribe(c.nc, c.subj.change("*"), func(m *nats.Msg) {
		var n Change
		err := json.Unmarshal(m.Data, &n)
		if err == nil {
			err = CheckInstance(n.Instance)
		}
		if err != nil {
			c.ignore(m, err)
			return
		}
		fn(n)
	})
}

// Watching requests that orchestrators publish changes for WatchTTL.
func (c *signals) Watching() error { return c.send(c.subj.watch(), nil) }

// OnWatching calls fn for every Watching.
func (c *signals) OnWatching(fn func()) (*Subscription, error) {
	return subscribe(c.nc, c.subj.watch(), func(*nats.Msg) { fn() })
}

// PublishOutcome publishes how an instance ended. The error need not be handled.
func (c *signals) PublishOutcome(o Outcome) error {
	return c.sendJSON(c.subj.ended(o.Instance), c.fitted(o))
}

// fitted omits a result that the server would reject.
func (c *link) fitted(o Outcome) Outcome {
	if int64(len(o.Result)+maxEnvelope) > c.nc.MaxPayload() {
		o.Result, o.Omitted = nil, true
	}
	return o
}

// ServeOutcomes answers requests for the outcome of an instance until Stop. One of all processes that serve them receives a
// request. fn is called on a goroutine of its own, at most 16 at a time; its context ends with Stop.
func (c *requests) ServeOutcomes(fn func(ctx context.Context, instance string) Outcome) (*Subscription, error) {
	ctx, cancel := context.WithCancel(c.ctx)
	var running sync.WaitGroup
	places := make(chan struct{}, outcomeServed)
	prefix := len(c.subj.result(""))
	s, err := subscribeGroup(c.nc, c.subj.result("*"), "pawl", func(m *nats.Msg) {
		instance, err := instanceOf(m.Subject[prefix:])
		if err != nil || !c.RepliesTo(m.Reply) {
			c.ignore(m, fmt.Errorf("%w: request for an outcome", ErrMalformed))
			return
		}
		places <- struct{}{}
		running.Go(func() {
			defer func() { <-places }()
			b, err := json.Marshal(c.fitted(fn(ctx, instance)))
			if err == nil {
				err = c.answer(m.Reply, b)
			}
			if err != nil {
				c.log.Debug("reply not sent", "subject", m.Subject, "error", err)
			}
		})
	})
	if err != nil {
		cancel()
		return nil, err
	}
	s.before, s.after = cancel, running.Wait
	return s, nil
}

func (c *link) sendJSON(subject string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("queue: encode for %s: %w", subject, err)
	}
	return c.send(subject, b)
}
