package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/client"
)

const (
	beginPatience = time.Minute      // for the activities of one instance to run
	tellPatience  = 15 * time.Second // for a context to be done: more than the TTL of a lease. Then it is missed.
)

// canceller starts instances, cancels them, and hears when their activities are told.
type canceller struct {
	*bench
	subject string

	mu    sync.Mutex
	holds map[string]*held
}

// held is an instance whose activities run.
type held struct {
	id    string
	want  int
	begun chan struct{} // closed when all have begun
	ended chan struct{} // closed when all have been told

	n     int         // under mu: have begun
	told  []time.Time // under mu
	wrong int         // under mu: were told another reason than the one that there is
}

func newCanceller(b *bench, subject string) (*canceller, error) {
	c := &canceller{bench: b, subject: subject, holds: make(map[string]*held)}
	sub, err := b.nc.Subscribe(subject, c.heard)
	if err != nil {
		return nil, err
	}
	return c, sub.SetPendingLimits(-1, -1)
}

func (c *canceller) heard(m *nats.Msg) {
	var r report
	if json.Unmarshal(m.Data, &r) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.holds[r.Instance]
	switch {
	case h == nil:
		return
	case r.Why == 0:
		if h.n++; h.n == h.want {
			close(h.begun)
		}
		return
	case r.Why == cancel.Requested:
		h.told = append(h.told, time.Unix(0, r.At))
	default:
		h.wrong++
	}
	if len(h.told)+h.wrong == h.want {
		close(h.ended)
	}
}

// hold starts an instance of n activities and waits until all of them run.
func (c *canceller) hold(ctx context.Context, n int) (*held, error) {
	h := &held{id: c.id("cancel"), want: n, begun: make(chan struct{}), ended: make(chan struct{})}
	c.mu.Lock()
	c.holds[h.id] = h
	c.mu.Unlock()
	if _, err := client.Start(ctx, c.c, holdAll, h.id, n); err != nil {
		return nil, err
	}
	limit := time.NewTimer(beginPatience)
	defer limit.Stop()
	select {
	case <-h.begun:
		return h, nil
	case <-limit.C:
		c.mu.Lock()
		defer c.mu.Unlock()
		return nil, fmt.Errorf("%s: %d of its %d activities run after %s", h.id, h.n, n, beginPatience)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (c *canceller) cancel(ctx context.Context, h *held) error {
	return c.c.Cancel(ctx, h.id, "bench", client.By("bench"))
}

// await waits until all activities have been told, and gives the moments; fewer of them
// than activities if some were not told in time, or not why.
func (c *canceller) await(ctx context.Context, h *held) ([]time.Time, error) {
	limit := time.NewTimer(tellPatience)
	defer limit.Stop()
	select {
	case <-h.ended:
	case <-limit.C:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.holds, h.id)
	return h.told, nil
}

// latencies are from the commit that cancelled to each moment. The commit's time is what
// Redis wrote in the record: the TIME at the beginning of the script, without its
// fraction of a millisecond; so a latency is never told too short, and up to one
// millisecond too long. Every process here has the clock of one machine.
func (c *canceller) latencies(ctx context.Context, id string, told []time.Time) ([]time.Duration, error) {
	d, err := c.c.Describe(ctx, id)
	if err != nil {
		return nil, err
	}
	if d.Status != client.Cancelled {
		return nil, fmt.Errorf("%s was cancelled, and is %s", id, d.Status)
	}
	decided := d.Updated
	out := make([]time.Duration, len(told))
	for i, at := range told {
		out[i] = at.Sub(decided)
	}
	return out, nil
}

// goroutines asks the worker how many it has.
func (c *canceller) goroutines(ctx context.Context) (int, error) {
	m, err := c.nc.RequestWithContext(ctx, goroutines(c.subject), nil)
	if err != nil {
		return 0, fmt.Errorf("ask the worker for its goroutines: %w", err)
	}
	return strconv.Atoi(string(m.Data))
}
