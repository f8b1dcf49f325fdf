package resize_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/resize"
	"github.com/pawlrun/pawl/internal/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// namespace is a namespace without a fleet.
type namespace struct {
	*testing.T
	cfg   resize.Config
	rdb   redis.UniversalClient
	space redisx.Space
}

func newNamespace(t *testing.T, rdb redis.UniversalClient, partitions int) *namespace {
	t.Helper()
	n := &namespace{T: t, rdb: rdb, space: redisx.NewSpace("default")}
	nc := natstest.Dial(t, natstest.Start(t).ClientURL())
	conn, err := transport.Open(t.Context(), nc, transport.Options{Namespace: "default", Partitions: partitions})
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	n.must(rdb.HSet(t.Context(), n.space.Meta(), "partitions", partitions).Err())
	n.cfg = resize.Config{NATS: nc, Redis: rdb, Namespace: "default", Logger: slog.New(slog.DiscardHandler)}
	return n
}

func (n *namespace) must(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

// fill writes records of instances.
func (n *namespace) fill(instances, partitions int) {
	n.Helper()
	pipe := n.rdb.Pipeline()
	for i := range instances {
		id := fmt.Sprint("i-", i)
		pipe.HSet(n.Context(), n.space.Part(transport.PartitionOf(id, partitions)).Instance(id), "name", "o", "status", "running")
	}
	_, err := pipe.Exec(n.Context())
	n.must(err)
}

// misplaced returns the instances with data outside of the partition to which they belong.
func (n *namespace) misplaced(instances, partitions int) (all []string) {
	n.Helper()
	for i := range instances {
		id := fmt.Sprint("i-", i)
		for p := range partitions {
			found, err := n.rdb.HLen(n.Context(), n.space.Part(p).Instance(id)).Result()
			n.must(err)
			if want := p == transport.PartitionOf(id, partitions); want != (found == 2) {
				all = append(all, fmt.Sprintf("%s in %d: %d fields", id, p, found))
			}
		}
	}
	return all
}

// Trap: Redis loses its last writes while the command runs, among them copies, and the originals are removed nevertheless.
func TestRunEndsWhenRedisHasLostCopies(t *testing.T) {
	const instances = 3_000
	s := redistest.Start(t)
	n := newNamespace(t, s.Client(t), 1)
	n.fill(instances, 1)
	n.cfg.Partitions = 8
	var copying, removing sync.Once
	n.cfg.Progress = func(step string, done, _ int64) {
		switch {
		case step == "copy" && done > 0:
			copying.Do(func() {
				if err := n.rdb.Save(context.WithoutCancel(n.Context())).Err(); err != nil {
					n.Error(err)
				}
			})
		case step == "remove" && done > 0:
			removing.Do(func() { s.Restart(n.T) }) // with its last save
		}
	}
	if _, err := resize.Run(t.Context(), n.cfg); err == nil {
		t.Error("the run continues")
	}
	if _, err := resize.Run(t.Context(), n.cfg); err != nil {
		t.Fatal(err)
	}
	if wrong := n.misplaced(instances, 8); len(wrong) > 0 {
		t.Errorf("%d of %d instances: %s", len(wrong), instances, strings.Join(wrong[:min(len(wrong), 5)], "; "))
	}
}

// Trap: TASKS is in memory. If NATS restarts while the fleet is stopped, TASKS is missing until an orchestrator starts, and no orchestrator may
// start before the command has ended. So the command must not wait for TASKS.
func TestTasksStreamIsNotRequired(t *testing.T) {
	n := newNamespace(t, redistest.Start(t).Client(t), 1)
	n.fill(10, 1)
	js, err := jetstream.New(n.cfg.NATS)
	n.must(err)
	n.must(js.DeleteStream(t.Context(), "PAWL-default-TASKS"))
	n.cfg.Partitions = 2
	_, err = resize.Run(t.Context(), n.cfg)
	n.must(err)
	if wrong := n.misplaced(10, 2); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// A heartbeat in the future was written before the clock of Redis was set back, by a member that has died.
func TestMemberWithAFutureHeartbeatIsNotLive(t *testing.T) {
	n := newNamespace(t, redistest.Start(t).Client(t), 1)
	n.cfg.Partitions = 2
	beat := func(after time.Duration) {
		t.Helper()
		now, err := n.rdb.Time(t.Context()).Result()
		n.must(err)
		n.must(n.rdb.HSet(t.Context(), n.space.Members(), "o-1", fmt.Sprint(now.Add(after).UnixMilli(), " r")).Err())
	}
	beat(5 * time.Second) // still live when it is read
	busy := new(resize.BusyError)
	if _, err := resize.Run(t.Context(), n.cfg); !errors.As(err, &busy) {
		t.Errorf("a member is live: %v", err)
	}
	beat(time.Hour)
	if _, err := resize.Run(t.Context(), n.cfg); err != nil {
		t.Error(err)
	}
}
