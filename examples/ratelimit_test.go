package examples

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/worker"
)

// provider accepts debits that end when the test releases them, and counts them.
type provider struct {
	mu     sync.Mutex
	now    map[string]int // number of current debits by tenant
	most   map[string]int
	finish chan struct{}
}

func (p *provider) debit(ctx context.Context, a Amount) (string, error) {
	p.mu.Lock()
	p.now[a.Tenant]++
	p.most[a.Tenant] = max(p.most[a.Tenant], p.now[a.Tenant])
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.now[a.Tenant]--
	}()
	select {
	case <-p.finish:
		return "taken", nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (p *provider) running(tenants ...string) (n []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range tenants {
		n = append(n, p.now[t])
	}
	return n
}

func TestTenantOverItsLimitWaitsAndOthersDoNot(t *testing.T) {
	nc, rdb := servers(t)
	orchestrate(t, nc, rdb, Bill.Do(bill))
	p := &provider{now: make(map[string]int), most: make(map[string]int), finish: make(chan struct{})}
	w, err := worker.New(worker.Config{NATS: nc, Redis: rdb}, Debit.Do(p.debit))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	c := connect(t, nc)

	// Like an operator, allow fewer waiters than the code declares.
	policy := client.Policy{Concurrency: 2, Rate: 10, RateWindow: time.Second, Key: "tenant", QueueLimit: 3}
	if err := c.SetPolicy(t.Context(), "action:"+Debit.Name(), policy); err != nil {
		t.Fatal(err)
	}
	flood := Bills{Tenant: "acme", Cents: []int{1, 2, 3, 4, 5, 6, 7, 8}}
	if _, err := client.Start(t.Context(), c, Bill, "bill-acme", flood); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Start(t.Context(), c, Bill, "bill-zoo", Bills{Tenant: "zoo", Cents: []int{10, 20}}); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, soon, "two of each tenant run", func() bool { return slices.Equal(p.running("acme", "zoo"), []int{2, 2}) })
	stats, err := c.QueueStats(t.Context(), Debit.Name(), "acme")
	if err != nil || stats.Active != 2 || stats.Waiting != 3 || stats.Rejected != 3 || stats.Policy.Concurrency != 2 {
		t.Errorf("%+v, %v", stats, err)
	}

	close(p.finish)
	got, err := client.Attach(c, Bill, "bill-acme").Result(t.Context())
	if err != nil || got.Cents != 1+2+3+4+5 || !slices.Equal(got.Deferred, []int{6, 7, 8}) {
		t.Errorf("the first five are accepted: %+v, %v", got, err)
	}
	if got, err = client.Attach(c, Bill, "bill-zoo").Result(t.Context()); err != nil || got.Cents != 30 || got.Deferred != nil {
		t.Errorf("%+v, %v", got, err)
	}
	p.mu.Lock()
	if p.most["acme"] != 2 || p.most["zoo"] != 2 {
		t.Errorf("concurrent debits: %v", p.most)
	}
	p.mu.Unlock()
	poll.Until(t, time.Minute, "all slots are free", func() bool {
		stats, err := c.QueueStats(t.Context(), Debit.Name(), "acme")
		return err == nil && stats.Active == 0 && stats.Waiting == 0 && stats.Completed == 5
	})
}
