package redisx_test

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
)

// Two servers share the slots. Each has its own lane, also the one that does not answer.
func TestHangingMasterDoesNotDelayOthers(t *testing.T) {
	hanging, live := redistest.Start(t), redistest.Start(t)
	const half = 8192
	rdb := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
		return []redis.ClusterSlot{
			{Start: 0, End: half - 1, Nodes: []redis.ClusterNode{{Addr: hanging.Addr}}},
			{Start: half, End: 2*half - 1, Nodes: []redis.ClusterNode{{Addr: live.Addr}}},
		}, nil
	}})
	t.Cleanup(func() { _ = rdb.Close() })
	r := redisx.NewRunner(rdb)
	defer r.Close()
	add := redisx.NewScript("add", "", addLua, "counter", "by")
	call := func(s *redistest.Server) redisx.Call {
		return redisx.Call{Script: add, Keys: []string{keyAt(t, rdb, s)}, Args: []any{1}}
	}
	slow, quick := call(hanging), call(live)
	for _, c := range []redisx.Call{slow, quick} { // load the script into both
		if _, err := r.Do(within(t), c); err != nil {
			t.Fatal(err)
		}
	}
	hanging.Pause()
	defer hanging.Resume()
	const waiting = 100
	answered := make(chan error, waiting)
	for range waiting {
		r.Go(slow, func(_ any, err error) { answered <- err })
	}
	for range waiting {
		if _, err := r.Do(within(t), quick); err != nil {
			t.Fatalf("the live master: %v", err)
		}
	}
	if n := len(answered); n > 0 {
		t.Errorf("%d calls to the hanging master were answered, the first with %v", n, <-answered)
	}
	hanging.Resume()
	for range waiting {
		if err := <-answered; err != nil {
			t.Errorf("a waiting call: %v", err)
		}
	}
}

// keyAt returns a key of a partition that the server has.
func keyAt(t *testing.T, rdb *redis.ClusterClient, s *redistest.Server) string {
	t.Helper()
	for p := range 64 {
		key := redisx.NewSpace("t").Part(p).Wakeups()
		node, err := rdb.MasterForKey(within(t), key)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(s.Addr, node.Options().Addr) { // the client omits the loopback address
			return key
		}
	}
	t.Fatalf("no partition of 64 is on %s", s.Addr)
	return ""
}
