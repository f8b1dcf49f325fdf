package gateway_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/gateway"
	"github.com/pawlrun/pawl/pawltest/integration"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/worker"
)

// A worker with one slot runs one of three activities of its queue: each of them is one of the demand, until it has ended.
func TestDemandHasClaimedAndUnclaimedTasks(t *testing.T) {
	work := pawl.NewActivity[int, int]("work", pawl.Queue("heavy"))
	all := pawl.NewOrchestration[int, int]("all")
	fleet := integration.Start(t, all.Do(func(ctx *pawl.Context, n int) (int, error) {
		calls := make([]*pawl.Future[int], n)
		for i := range calls {
			calls[i] = work.Start(ctx, i)
		}
		for _, c := range calls {
			if _, err := c.Get(ctx); err != nil {
				return 0, err
			}
		}
		return n, nil
	}))
	end := make(chan struct{})
	w, err := worker.New(worker.Config{NATS: fleet.NATS, Redis: fleet.Redis, Concurrency: 1}, work.Do(func(ctx context.Context, n int) (int, error) {
		select {
		case <-end:
		case <-ctx.Done():
		}
		return n, nil
	}))
	check(t, err)
	check(t, w.Start(t.Context()))
	t.Cleanup(func() { check(t, w.Stop(context.WithoutCancel(t.Context()))) })
	srv := httptest.NewServer(gateway.New(gateway.Config{
		Client: func() *client.Client { return fleet.Client }, Access: access.Policy{Loopback: true}, Logger: slog.New(slog.DiscardHandler),
	}))
	t.Cleanup(srv.Close)
	h := &harness{t: t, url: srv.URL, server: srv.Config}

	h.want(h.do(200, "GET", "/queues/heavy/demand", ""), "demand", 0)
	h.do(202, "POST", "/instances", `{"orchestration":"all","id":"a-1","input":3}`)
	var got map[string]any
	h.until("one is claimed", func() bool {
		got = h.do(200, "GET", "/queues/heavy/demand", "")
		return got["claimed"] == 1.0 && got["unclaimed"] == 2.0
	})
	h.want(got, "demand", 3)
	h.want(got, "slots", 1)
	h.want(got, "workers", 1)
	close(end)
	h.want(h.do(200, "GET", "/instances/a-1/result?wait=30s", ""), "result", 3)
	h.until("nothing is left", func() bool { return h.do(200, "GET", "/queues/heavy/demand", "")["demand"] == 0.0 })
}
