package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawlrun/pawl/pkg/history"
)

// An orchestrator that has died owns its partitions for some more seconds, and no other one does.
func TestRequestWaitsForAnOwnerUntilItsContextEnds(t *testing.T) {
	w, c := startOwner(t, Options{})
	_, err := c.StartRaw(soon(t), "x", "a", history.Payload{})
	ok(t, err)
	w.input(0)
	p := c.conn.PartitionOf("a")
	w.subs[p].Stop()
	ok(t, w.conn.NATS().Flush()) // otherwise the first request may reach the server before the end of the subscription

	const longer = 2500 * time.Millisecond // than the default of Options.OwnerTimeout for waits
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), longer)
	defer cancel()
	if _, err := c.Describe(ctx, "a"); !errors.Is(err, ErrNoOwner) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) < longer {
		t.Errorf("after %v: %v", time.Since(began), err)
	}

	answered := make(chan error, 1)
	go func() { _, err := c.Describe(soon(t), "a"); answered <- err }()
	w.serve(p)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// A disconnected orchestrator is still subscribed according to its server, but does not answer.
func TestUnansweredRequestIsRepeated(t *testing.T) {
	w, c := startOwner(t, Options{})
	_, err := c.StartRaw(soon(t), "x", "a", history.Payload{})
	ok(t, err)
	w.input(0)
	p := c.conn.PartitionOf("a")
	w.subs[p].Stop()
	mute, err := w.conn.NATS().SubscribeSync("pawl.default.request.*.read")
	ok(t, err)
	answered := make(chan error, 1)
	go func() { _, err := c.Describe(soon(t), "a"); answered <- err }()
	_, err = mute.NextMsgWithContext(soon(t))
	ok(t, err)
	w.serve(p)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}
