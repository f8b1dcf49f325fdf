package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/client"
)

const (
	beginTimeout  = time.Minute      // maximum time until all activities of an instance run
	cancelTimeout = 15 * time.Second // maximum time until a context ends: longer than the TTL of a lease
)

// canceller starts instances, cancels them, and receives the reports of their activities.
type canceller struct {
	*driver

	mu   sync.Mutex
	held map[string]*held
}

// held is an instance whose activities run until they are cancelled.
type held struct {
	id         string
	activities int
	begun      chan struct{} // closed when all have begun
	ended      chan struct{} // closed when the contexts of all have ended

	// Under mu of the canceller:
	n     int         // activities that have begun
	at    []time.Time // when contexts ended because of the cancellation
	wrong int         // contexts that ended for another reason
}

func newCanceller(d *driver) (*canceller, error) {
	c := &canceller{driver: d, held: make(map[string]*held)}
	sub, err := d.nc.Subscribe(reportSubject, c.onReport)
	if err != nil {
		return nil, err
	}
	return c, sub.SetPendingLimits(-1, -1)
}

func (c *canceller) onReport(m *nats.Msg) {
	var r holdReport
	if json.Unmarshal(m.Data, &r) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.held[r.Instance]
	switch {
	case h == nil:
		return
	case r.Reason == 0:
		if h.n++; h.n == h.activities {
			close(h.begun)
		}
		return
	case r.Reason == cancel.Requested:
		h.at = append(h.at, time.Unix(0, r.At))
	default:
		h.wrong++
	}
	if len(h.at)+h.wrong == h.activities {
		close(h.ended)
	}
}

// holdMany starts n instances, at most limit at a time, each with fanout activities, and waits until all of these run.
func (c *canceller) holdMany(ctx context.Context, n, limit, fanout int) ([]*held, error) {
	holds := make([]*held, n)
	err := each(ctx, n, limit, func(ctx context.Context, i int) (err error) {
		holds[i], err = c.hold(ctx, fanout)
		return err
	})
	return holds, err
}

// hold starts an instance of n activities and waits until all of them run.
func (c *canceller) hold(ctx context.Context, n int) (*held, error) {
	h := &held{id: c.id("cancel"), activities: n, begun: make(chan struct{}), ended: make(chan struct{})}
	c.mu.Lock()
	c.held[h.id] = h
	c.mu.Unlock()
	if _, err := client.Start(ctx, c.c, holdAll, h.id, n); err != nil {
		return nil, err
	}
	limit := time.NewTimer(beginTimeout)
	defer limit.Stop()
	select {
	case <-h.begun:
		return h, nil
	case <-limit.C:
		c.mu.Lock()
		defer c.mu.Unlock()
		return nil, fmt.Errorf("%s: %d of its %d activities run after %s", h.id, h.n, n, beginTimeout)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (c *canceller) request(ctx context.Context, h *held) error {
	return c.c.Cancel(ctx, h.id, "bench", client.By("bench"))
}

// await waits until the contexts of all activities have ended, and returns the time of each end. Contexts that do not end in time, or
// that end for another reason, are left out.
func (c *canceller) await(ctx context.Context, h *held) ([]time.Time, error) {
	limit := time.NewTimer(cancelTimeout)
	defer limit.Stop()
	select {
	case <-h.ended:
	case <-limit.C:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, h.id)
	return h.at, nil
}

// latencies returns the times from the commit that cancelled to each of the given times. The time of the commit is the one in the record:
// TIME of Redis at the beginning of the script, truncated to a millisecond. So a latency is never too short, and at most one millisecond
// too long. All processes use the clock of one machine.
func (c *canceller) latencies(ctx context.Context, id string, at []time.Time) ([]time.Duration, error) {
	d, err := c.c.Describe(ctx, id)
	if err != nil {
		return nil, err
	}
	if d.Status != client.Cancelled {
		return nil, fmt.Errorf("%s is %s after its cancellation", id, d.Status)
	}
	out := make([]time.Duration, len(at))
	for i, t := range at {
		out[i] = t.Sub(d.Updated)
	}
	return out, nil
}

// goroutines returns the number of goroutines of the worker.
func (c *canceller) goroutines(ctx context.Context) (int, error) {
	return request[int](ctx, c.driver, goroutinesSubject, "")
}
