package gateway_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/gateway"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pawltest/integration"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/worker"
)

// A worker with one slot runs one of three activities of its queue. Each of the three counts toward the demand until it has
// ended.
func TestDemandCountsClaimedAndUnclaimedTasks(t *testing.T) {
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
	w, err := worker.New(worker.Config{NATS: fleet.NATS, Redis: fleet.Redis, Concurrency: 1, Name: "w-heavy"}, work.Do(func(ctx context.Context, n int) (int, error) {
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

	demand := func() (got map[string]any) { // JetStream may not answer in time on a busy machine
		poll.Until(h.t, time.Minute, "the tasks are counted", func() bool {
			status, object := h.try("GET", "/queues/heavy/demand", "")
			got = object
			return status == 200
		})
		return got
	}
	h.want(demand(), "demand", 0)
	h.do(202, "POST", "/instances", `{"orchestration":"all","id":"a-1","input":3}`)
	var got map[string]any
	poll.Until(h.t, time.Minute, "one is claimed", func() bool {
		got = demand()
		return got["claimed"] == 1.0 && got["unclaimed"] == 2.0
	})
	h.want(got, "demand", 3)
	h.want(got, "slots", 1)
	h.want(got, "workers", 1)
	close(end)
	h.want(h.do(200, "GET", "/instances/a-1/result?wait=30s", ""), "result", 3)
	poll.Until(h.t, time.Minute, "no task is left", func() bool { return demand()["demand"] == 0.0 })
	h.storesAreHealthy()
	h.stalledIsRequeued()

	h.do(404, "POST", "/workers/absent/drain", "")
	for range 2 { // a busy worker may not answer within the two seconds of a request
		poll.Until(h.t, time.Minute, "the worker is drained", func() bool { status, _ := h.try("POST", "/workers/w-heavy/drain", ""); return status == 204 })
	}
	h.do(202, "POST", "/instances", `{"orchestration":"all","id":"a-2","input":1}`)
	poll.Until(h.t, time.Minute, "its task stays in the queue", func() bool { return demand()["unclaimed"] == 1.0 })
	if err := w.Ready(); err == nil || !strings.Contains(err.Error(), "drained") || len(w.Running()) != 0 {
		t.Errorf("the drained worker: %v, %v", err, w.Running())
	}
}

func (h *harness) storesAreHealthy() {
	h.t.Helper()
	var got api.Health
	body, err := json.Marshal(h.do(200, "GET", "/health", ""))
	check(h.t, err)
	check(h.t, json.Unmarshal(body, &got))
	if len(got.Redis.Nodes) != 1 || got.Redis.Error != "" || len(got.NATS.Streams) != 2 || got.NATS.Error != "" {
		h.t.Fatalf("%+v", got)
	}
	if n, s := got.Redis.Nodes[0], got.NATS.Streams[0]; n.Role != "master" || n.LatencyMS <= 0 || n.MemoryBytes == 0 || n.Error != "" || s.Name != "PAWL-default-INPUTS" || s.Error != "" {
		h.t.Errorf("%+v", got)
	}
}

func (h *harness) stalledIsRequeued() {
	h.t.Helper()
	h.do(202, "POST", "/instances", `{"orchestration":"nowhere","id":"n-1"}`)
	poll.Until(h.t, time.Minute, "it is stalled", func() bool { return h.do(200, "GET", "/counts?by=status", "")["stalled"] == 1.0 })
	h.do(204, "POST", "/instances/n-1/requeue", "")
	h.do(409, "POST", "/instances/a-1/requeue", "")
	if got := h.do(200, "GET", "/refused", ""); len(got["refused"].([]any)) != 0 {
		h.t.Errorf("%v", got)
	}
	h.do(404, "DELETE", "/refused/a-1", "")
}
