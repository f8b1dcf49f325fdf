package bench

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
	beginTimeout  = time.Minute      // for the activities of one instance to run
	cancelTimeout = 15 * time.Second // for a context to end: longer than the TTL of a lease
)

// canceller starts instances, cancels them, and receives when the contexts of their activities end.
type canceller struct {
	*driver

	mu   sync.Mutex
	held map[string]*held
}

// held is an instance whose activities run.
type held struct {
	id    string
	want  int
	begun chan struct{} // closed when all have begun
	ended chan struct{} // closed when the contexts of all have ended

	n     int         // under mu: have begun
	at    []time.Time // under mu: when contexts ended
	wrong int         // under mu: ended with another reason than the cancellation
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
		if h.n++; h.n == h.want {
			close(h.begun)
		}
		return
	case r.Reason == cancel.Requested:
		h.at = append(h.at, time.Unix(0, r.At))
	default:
		h.wrong++
	}
	if len(h.at)+h.wrong == h.want {
		close(h.ended)
	}
}

// hold starts an instance of n activities and waits until all of them run.
func (c *canceller) hold(ctx context.Context, n int) (*held, error) {
	h := &held{id: c.id("cancel"), want: n, begun: make(chan struct{}), ended: make(chan struct{})}
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

// await waits until the contexts of all activities have ended, and returns when each did.
// Those that do not end in time, or with another reason, are missing.
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

// latencies are from the commit that cancelled. The time of the commit is what Redis wrote to the record: its TIME at the
// beginning of the script, truncated to a millisecond. So a latency is never too short, and up to one millisecond too long.
// All processes have the clock of one machine.
func (c *canceller) latencies(ctx context.Context, id string, at []time.Time) ([]time.Duration, error) {
	d, err := c.c.Describe(ctx, id)
	if err != nil {
		return nil, err
	}
	if d.Status != client.Cancelled {
		return nil, fmt.Errorf("%s was cancelled, and is %s", id, d.Status)
	}
	committed := d.Updated
	out := make([]time.Duration, len(at))
	for i, t := range at {
		out[i] = t.Sub(committed)
	}
	return out, nil
}

// goroutines requests the number of goroutines of the worker.
func (c *canceller) goroutines(ctx context.Context) (int, error) {
	m, err := c.nc.RequestWithContext(ctx, goroutinesSubject, nil)
	if err != nil {
		return 0, fmt.Errorf("count the worker's goroutines: %w", err)
	}
	return strconv.Atoi(string(m.Data))
}
