package worker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/netfault"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/worker"
)

// instant returns an owner, an activity that returns at once, and a configuration with a lease TTL that is longer than the tests wait.
func instant(t *testing.T) (*owner, *blocking, worker.Config) {
	t.Helper()
	o, b := newOwner(t), newBlocking()
	close(b.release)
	cfg := o.config()
	cfg.LeaseTTL = 10 * time.Second
	return o, b, cfg
}

// throughFault returns a proxy in front of a Redis server, and a client that connects through it.
func (o *owner) throughFault(addr string) (*netfault.Proxy, redis.UniversalClient) {
	o.Helper()
	p, err := netfault.Listen(addr)
	o.must(err)
	o.Cleanup(p.Close)
	rdb := redis.NewClient(&redis.Options{Addr: p.Addr(), DisableIdentity: true})
	o.Cleanup(func() { _ = rdb.Close() })
	return p, rdb
}

// latencies sends n tasks, one after another, and returns the time until each was completed.
func (o *owner) latencies(name string, n int) []time.Duration {
	o.Helper()
	took := make([]time.Duration, n)
	for i := range n {
		begun := time.Now()
		o.completed(o.send(name, nothing))
		took[i] = time.Since(begun)
	}
	return took
}

// slow counts the durations longer than limit.
func slow(took []time.Duration, limit time.Duration) (n int) {
	for _, d := range took {
		if d > limit {
			n++
		}
	}
	return n
}

// A worker that cannot reach Redis shares a queue with one that can. Only the tasks that it had taken before it detected the fault may be
// delayed, and it takes tasks again when Redis is reachable.
func TestWorkerWithoutRedisDelaysNoTaskThatAnotherCanRun(t *testing.T) {
	for name, fault := range map[string]func(*netfault.Proxy){"black hole": (*netfault.Proxy).BlackHole, "cut": (*netfault.Proxy).Cut} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // mostly waits
			o, b, cfg := instant(t)
			proxy, rdb := o.throughFault(o.redis.Addr)
			faulty := cfg
			faulty.NATS, faulty.Redis, faulty.Name = o.dial(), rdb, "faulty"
			w := o.start(faulty, b.do("block"))
			o.completed(o.send("block", nothing))
			healthy := o.worker(cfg, b.do("block"))
			fault(proxy)
			took := o.latencies("block", 40)
			t.Logf("longest wait %v; over 300 ms: %d of %d", longest(took), slow(took, 300*time.Millisecond), len(took))
			// The faulty worker may hold two tasks before it detects the fault: one whose claim is outstanding, and one of a trial.
			if n := slow(took, 900*time.Millisecond); n > 8 {
				t.Errorf("%d of %d tasks waited for a worker that has no Redis: %v", n, len(took), took)
			}
			if w.Ready() == nil {
				t.Error("a worker that cannot claim is ready")
			}
			proxy.Heal()
			o.must(o.stop(healthy, 20*time.Second))
			o.latencies("block", 5) // the faulty worker takes tasks again
			o.drained("block")
		})
	}
}

func longest(took []time.Duration) (most time.Duration) {
	for _, d := range took {
		most = max(most, d)
	}
	return most
}

// A single worker, and a Redis that refuses writes. The worker must not take and return tasks as fast as it can, and must take all of
// them when Redis accepts writes again.
func TestWorkerWhoseClaimsFailRequestsFewTasks(t *testing.T) {
	t.Parallel() // mostly waits
	o, b, cfg := instant(t)
	reg := prometheus.NewRegistry()
	cfg.Metrics = reg
	o.start(cfg, b.do("block"))
	o.completed(o.send("block", nothing))
	tasks := make([]transport.Task, 50)
	for i := range tasks {
		tasks[i] = o.schedule("block", "block", nothing)
	}
	o.must(o.rdb.ConfigSet(context.Background(), "maxmemory", "1").Err())
	o.publishAll(tasks...)
	unclaimed := func() float64 { return counted(t, reg, "pawl_worker_tasks_total", "unclaimed") }
	o.until("a claim fails", func() bool { return unclaimed() > 0 })
	settled := time.After(2 * time.Second) // a rate is measured
	<-settled
	before := unclaimed()
	<-time.After(3 * time.Second)
	if n := unclaimed() - before; n > 20 {
		t.Errorf("%v tasks were taken and returned within 3 s", n)
	}
	o.must(o.rdb.ConfigSet(context.Background(), "maxmemory", "0").Err())
	for _, task := range tasks {
		o.completed(task)
	}
}

// keySlot returns the cluster slot of a key's hash tag.
func keySlot(key string) int {
	tag := key[strings.IndexByte(key, '{')+1:]
	crc := 0
	for _, b := range []byte(tag[:strings.IndexByte(tag, '}')]) {
		crc ^= int(b) << 8
		for range 8 {
			if crc <<= 1; crc&0x10000 != 0 {
				crc ^= 0x11021
			}
		}
	}
	return crc % 16384
}

// One of two Redis nodes does not answer. The worker continues with the tasks that have their leases on the other.
func TestWorkerContinuesWithTheNodesThatAnswer(t *testing.T) {
	t.Parallel() // mostly waits
	o, b, cfg := instant(t)
	other := redistest.Start(t)
	proxy, _ := o.throughFault(other.Addr)
	lost := keySlot(o.space.Part(0).Owner()) // only partition 0 is on the other node
	split := func(second string) *redis.ClusterClient {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{DisableIdentity: true, ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{
				{Start: 0, End: lost - 1, Nodes: []redis.ClusterNode{{Addr: o.redis.Addr}}},
				{Start: lost, End: lost, Nodes: []redis.ClusterNode{{Addr: second}}},
				{Start: lost + 1, End: 16383, Nodes: []redis.ClusterNode{{Addr: o.redis.Addr}}},
			}, nil
		}})
		t.Cleanup(func() { _ = rdb.Close() })
		return rdb
	}
	o.rdb = split(other.Addr)
	cfg.Redis = split(proxy.Addr())
	o.start(cfg, b.do("block"))
	var here, there []transport.Task
	for len(here) < 30 || len(there) < 10 {
		if task := o.schedule("block", "block", nothing); o.ref(task).Part == 0 {
			there = append(there, task)
		} else {
			here = append(here, task)
		}
	}
	proxy.BlackHole()
	begun := time.Now()
	o.publishAll(there...)
	o.publishAll(here...)
	for _, task := range here {
		o.completed(task)
	}
	t.Logf("%d tasks after %d tasks of the unresponsive node took %v", len(here), len(there), time.Since(begun))
	proxy.Heal()
	for _, task := range there {
		o.until("the end of a task of the other node", func() bool {
			if l := o.lease(task); l["e"] != "" && l["t"] == "" {
				o.publish(task) // as the owner reconciles: a claim that was answered too late is released, uncounted
			}
			return len(o.inbox(task)) > 0
		})
	}
}

// Tasks that are sent into a dead connection of a worker, before the server has detected that it is dead.
func TestTasksSentIntoADeadConnectionAreDeliveredToOtherWorkers(t *testing.T) {
	t.Parallel() // mostly waits
	o, b, cfg := instant(t)
	proxy, err := netfault.Listen(o.url[len("nats://"):])
	o.must(err)
	t.Cleanup(proxy.Close)
	faulty := cfg
	faulty.NATS, faulty.Name = natstest.Dial(t, "nats://"+proxy.Addr()), "faulty"
	o.start(faulty, b.do("block"))
	o.completed(o.send("block", nothing))
	o.start(cfg, b.do("block"))
	proxy.BlackHole()
	took := o.latencies("block", 40)
	t.Logf("longest wait %v; over 300 ms: %d of %d", longest(took), slow(took, 300*time.Millisecond), len(took))
	if most := longest(took); most > 15*time.Second {
		t.Errorf("a task waited for %v", most)
	}
	if n := slow(took, 900*time.Millisecond); n > 8 {
		t.Errorf("%d of %d tasks were sent to a worker that is cut off: %v", n, len(took), took)
	}
	proxy.Heal()
	o.drained("block")
}
