package orchestrator_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// corrupted starts an instance that waits for an event, corrupts its data, and sends the event.
func corrupted(t *testing.T, corrupt func(s *harness, p redisx.Part, id string)) (*harness, string) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, race.Do(waitPing))
	s.work(worker.Config{}, greet.Do(doGreet))
	const id = "broken-1"
	s.corrupted = id
	s.start("race", id, `"x"`)
	s.until("it waits", func() bool { return s.describe(id).Events > 0 })
	corrupt(s, s.space.Part(s.conn.PartitionOf(id)), id)
	s.event("ping", id, `"go"`)
	return s, id
}

func waitPing(ctx *pawl.Context, _ string) (string, error) { return ping.Receive(ctx) }

func (s *harness) stalledReason(part int) string {
	s.t.Helper()
	var r request.InstancePage
	err := request.Call(s.ctx(), s.conn, part, new(request.Stalled), &r)
	if err != nil {
		return ""
	}
	var all []string
	for _, row := range r.Instances {
		all = append(all, row.Instance+" "+row.Stalled)
	}
	return strings.Join(all, "\n")
}

func TestHistoryLostUnderAnOwnerStallsTheInstanceAndIsNotAppendedTo(t *testing.T) {
	s, id := corrupted(t, func(s *harness, p redisx.Part, id string) { s.redis.Del(s.ctx(), p.History(id, 1)) })
	part := s.conn.PartitionOf(id)
	s.until("it is listed", func() bool { return strings.Contains(s.stalledReason(part), id+" unreadable") })
	if n := s.redis.LLen(s.ctx(), s.space.Part(part).History(id, 1)).Val(); n != 0 {
		t.Fatalf("%d events were appended to the lost history", n)
	}
	if n := s.redis.LLen(s.ctx(), s.space.Part(part).Inbox(id)).Val(); n != 1 {
		t.Fatalf("%d inputs are unread, want 1", n)
	}
}

func TestHistoryOfAnotherRedisTypeStallsOnlyItsInstance(t *testing.T) {
	s, id := corrupted(t, func(s *harness, p redisx.Part, id string) {
		s.redis.Del(s.ctx(), p.History(id, 1))
		s.redis.Set(s.ctx(), p.History(id, 1), "a text", 0)
	})
	s.until("it is listed", func() bool { return strings.Contains(s.stalledReason(s.conn.PartitionOf(id)), id+" unreadable") })
	s.neighborOf(id)
}

func TestInboxOfAnotherRedisTypeDelaysNoOtherInstance(t *testing.T) {
	s, id := corrupted(t, func(s *harness, p redisx.Part, id string) { s.redis.Set(s.ctx(), p.Inbox(id), "a text", 0) })
	s.until("the input is listed", func() bool { return strings.Contains(s.stalledReason(s.conn.PartitionOf(id)), "refused: input") })
	s.neighborOf(id)
}

func TestInputOfANewerVersionIsListed(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, race.Do(waitPing))
	m := nats.NewMsg(s.subject("to.v-1.event.ping"))
	m.Header.Set(transport.HeaderVersion, "99")
	if _, err := s.nats.RequestMsgWithContext(s.ctx(), m); err != nil {
		t.Fatal(err)
	}
	s.until("it is listed", func() bool {
		got := s.stalledReason(s.conn.PartitionOf("v-1"))
		return strings.Contains(got, "v-1 refused: input 1") && strings.Contains(got, "99")
	})
}

// neighborOf runs another instance of the same partition to its end.
func (s *harness) neighborOf(id string) {
	s.t.Helper()
	for i := 0; ; i++ {
		other := fmt.Sprint("neighbor-", i)
		if s.conn.PartitionOf(other) != s.conn.PartitionOf(id) {
			continue
		}
		s.start("race", other, `"x"`)
		s.event("ping", other, `"go"`)
		if d := s.ended(other); record.Status(d.Status) != record.Completed {
			s.t.Fatalf("%+v", d)
		}
		return
	}
}
