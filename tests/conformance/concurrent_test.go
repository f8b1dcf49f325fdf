package conformance

import (
	"bytes"
	"fmt"
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/leases"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
)

// scenario is a partition with an owner and workers, which use their own scripts and interact through Redis.
type scenario struct {
	*testing.T
	rdb    redis.UniversalClient
	part   redisx.Part
	store  *store.Store
	leases *leases.Scripts
	own    store.Tenure
	heads  int // number of heads of the instance "a"
}

// How owner and workers interact; docs/conformance.md lists the promise of each case.
func TestOwnersAndWorkersShareTheStore(t *testing.T) {
	cases := map[string]func(*scenario){
		"the lease of a cancelled activity is deleted, and no worker can claim, renew, ack or release it": cancelledIsDeleted,
		"cancelling a missing lease repeatedly changes nothing":                                           cancelTwice,
		"a renewal extends the claim to a TTL from now":                                                   renewalExtends,
		"a token that was never issued renews, acks and releases nothing":                                 invalidTokens,
		"claims are counted per activity, from one, and a claim after an expiry counts":                   countsAreSeparate,
		"a failed ack changes neither lease nor inbox, and can be repeated":                               ackRollsBack,
		"a failed commit changes neither leases nor inbox, and can be repeated":                           commitRollsBack,
		"a completion that arrives during a turn is kept for the next":                                    arrivesDuringATurn,
		"activities of different executions and instances are isolated":                                   isolation,
	}
	redistest.All(t, func(t *testing.T, rdb redis.UniversalClient) {
		for name, f := range cases {
			t.Run(name, func(t *testing.T) { f(newScenario(t, rdb)) })
		}
	})
}

func newScenario(t *testing.T, rdb redis.UniversalClient) *scenario {
	t.Helper()
	run := redisx.NewRunner(rdb)
	t.Cleanup(run.Close)
	space := redisx.NewSpace(redistest.Namespace())
	s := &scenario{
		T: t, rdb: rdb, part: space.Part(partition), store: store.New(run, space), leases: leases.New(run, space),
		own: store.Tenure{Part: partition, Token: "owner"},
	}
	s.must(rdb.HSet(t.Context(), s.part.Owner(), "owner", "owner", "until", s.now()+60_000, "span", 60_000).Err())
	return s
}

func (s *scenario) now() int64 {
	s.Helper()
	at, err := s.rdb.Time(s.Context()).Result()
	s.must(err)
	return at.UnixMilli()
}

func (s *scenario) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// turn commits a turn of the instance a: the activities that it schedules and cancels, and the inputs that it consumes.
func (s *scenario) turn(create, remove []uint64, pop ...string) (record.Committed, error) {
	c := record.Commit{
		Instance: "a", Execution: 1, Pop: pop, Events: [][]byte{[]byte("an event")}, Create: named(create), Delete: named(remove),
		From: record.Running, Record: &record.Record{}, MaxUnread: 10, NewHead: fmt.Sprint("h", s.heads+1),
	}
	if s.heads == 0 {
		c.From, c.Record = "", &record.Record{Name: "n", Origin: history.Position{Seq: 1, Time: 1}, Execution: 1, Status: record.Running}
	} else {
		c.Head = fmt.Sprint("h", s.heads)
	}
	done, err := redistest.Answer(func(done func(record.Committed, error)) { s.store.Commit(s.own, &c, done) })
	if err == nil {
		s.heads++
	}
	return done, err
}

func (s *scenario) turned(create, remove []uint64, pop ...string) record.Committed {
	s.Helper()
	done, err := s.turn(create, remove, pop...)
	s.must(err)
	return done
}

func named(activities []uint64) []record.Lease {
	var out []record.Lease
	for _, a := range activities {
		out = append(out, record.Lease{Activity: a, Effect: fmt.Sprint("e", a)})
	}
	return out
}

// held returns a claim of an activity with the token of a worker.
func held(instance string, execution, activity uint64, token string) leases.Claim {
	return leases.Claim{Token: token, Ref: leases.Ref{
		Part: partition, Instance: instance, Execution: execution, Activity: activity, Effect: fmt.Sprint("e", activity),
	}}
}

func (s *scenario) claim(g leases.Claim) leases.ClaimReply {
	s.Helper()
	c, err := redistest.Answer(func(done func(leases.ClaimReply, error)) {
		s.leases.Claim(leases.ClaimRequest{Claim: g, Worker: "w-" + g.Token, TTL: time.Minute, MaxClaims: 5}, done)
	})
	s.must(err)
	return c
}

func (s *scenario) renew(g leases.Claim, ttl time.Duration) leases.Outcome {
	s.Helper()
	out, err := redistest.Answer(func(done func([]leases.Outcome, error)) { s.leases.Renew(g.Part, []leases.Claim{g}, ttl, done) })
	s.must(err)
	return out[0]
}

func (s *scenario) ack(g leases.Claim) (leases.Acked, error) {
	return redistest.Answer(func(done func(leases.Acked, error)) {
		s.leases.Ack(leases.Completion{Claim: g, Body: []byte("done")}, done)
	})
}

func (s *scenario) release(g leases.Claim) leases.Outcome {
	s.Helper()
	out, err := redistest.Answer(func(done func(leases.Outcome, error)) {
		s.leases.Release(leases.ReleaseRequest{Claim: g, Uncounted: true}, done)
	})
	s.must(err)
	return out
}

// wantAll requires the same outcome of renewing, acking and releasing.
func (s *scenario) wantAll(g leases.Claim, want leases.Outcome) {
	s.Helper()
	acked, err := s.ack(g)
	s.must(err)
	if renewed, back := s.renew(g, time.Minute), s.release(g); renewed != want || acked.Outcome != want || back != want {
		s.Errorf("%s by %s: renewed %s, acked %s, released %s; want %s", g.Ref, g.Token, renewed, acked.Outcome, back, want)
	}
}

func (s *scenario) wantClaim(g leases.Claim, want leases.Outcome, claims uint32) {
	s.Helper()
	if c := s.claim(g); c.Outcome != want || c.Claims != claims {
		s.Errorf("%s by %s: %s after %d claims, want %s after %d", g.Ref, g.Token, c.Outcome, c.Claims, want, claims)
	}
}

func (s *scenario) fields(g leases.Claim) map[string]string {
	s.Helper()
	m, err := s.rdb.HGetAll(s.Context(), s.part.Lease(g.Instance, g.Execution, g.Activity)).Result()
	s.must(err)
	return m
}

func (s *scenario) wantUnread(n int64) {
	s.Helper()
	if got := s.rdb.LLen(s.Context(), s.part.Inbox("a")).Val(); got != n {
		s.Errorf("%d elements in the inbox, want %d", got, n)
	}
}

func cancelledIsDeleted(s *scenario) {
	s.turned([]uint64{2, 3}, nil)
	claimed, free := held("a", 1, 2, "t"), held("a", 1, 3, "t")
	s.wantClaim(claimed, leases.Acquired, 1)
	done := s.turned(nil, []uint64{2, 3})
	if !maps.Equal(done.Workers, map[uint64]string{2: "w-t"}) {
		s.Errorf("holders %v", done.Workers)
	}
	for _, g := range []leases.Claim{claimed, free} {
		s.wantClaim(g, leases.Gone, 0)
		s.wantAll(g, leases.Gone)
		if f := s.fields(g); len(f) > 0 {
			s.Errorf("%s exists again: %v", g.Ref, f)
		}
	}
	s.wantUnread(0) // ends without a completion
}

func cancelTwice(s *scenario) {
	s.turned([]uint64{2}, nil)
	s.wantClaim(held("a", 1, 2, "t"), leases.Acquired, 1)
	for range 3 {
		if done := s.turned(nil, []uint64{7, 8}); len(done.Workers) > 0 {
			s.Errorf("holders %v", done.Workers)
		}
	}
	if got := s.renew(held("a", 1, 2, "t"), time.Minute); got != leases.OK {
		s.Errorf("renewal of the existing lease: %s", got)
	}
	s.wantUnread(0)
}

func renewalExtends(s *scenario) {
	s.turned([]uint64{2}, nil)
	g := held("a", 1, 2, "t")
	first := s.claim(g)
	before := s.now()
	if got := s.renew(g, time.Hour); got != leases.OK {
		s.Fatalf("renewed %s", got)
	}
	until, err := strconv.ParseInt(s.fields(g)["u"], 10, 64)
	s.must(err)
	if hour := time.Hour.Milliseconds(); until < before+hour || until > s.now()+hour || until <= first.Until {
		s.Errorf("claimed until %d, renewed at %d for an hour: until %d", first.Until, before, until)
	}
}

func invalidTokens(s *scenario) {
	s.turned([]uint64{2}, nil)
	for _, token := range []string{"invented", "", "t ", "T"} {
		s.wantAll(held("a", 1, 2, token), leases.Stolen) // it has no holder
	}
	g := held("a", 1, 2, "t")
	s.wantClaim(g, leases.Acquired, 1)
	was := s.fields(g)
	for _, token := range []string{"invented", "", "t ", "T"} {
		s.wantAll(held("a", 1, 2, token), leases.Stolen)
		s.wantClaim(held("a", 1, 2, token), leases.Held, 0)
	}
	if got := s.fields(g); !maps.Equal(got, was) {
		s.Errorf("the lease was %v and is %v", was, got)
	}
	s.wantUnread(0)
}

func countsAreSeparate(s *scenario) {
	s.turned([]uint64{2, 3}, nil)
	s.wantClaim(held("a", 1, 2, "t1"), leases.Acquired, 1)
	for n := uint32(2); n <= 3; n++ {
		s.must(s.rdb.HSet(s.Context(), s.part.Lease("a", 1, 2), "u", s.now()-1).Err())
		s.wantClaim(held("a", 1, 2, fmt.Sprint("t", n)), leases.Acquired, n)
	}
	s.wantClaim(held("a", 1, 3, "t1"), leases.Acquired, 1)
}

// The inbox is a key of another type, which no correct program creates: the push fails.
func ackRollsBack(s *scenario) {
	s.turned([]uint64{2}, nil)
	g := held("a", 1, 2, "t")
	s.wantClaim(g, leases.Acquired, 1)
	was := s.fields(g)
	s.must(s.rdb.Set(s.Context(), s.part.Inbox("a"), "not a list", 0).Err())
	if a, err := s.ack(g); err == nil {
		s.Fatalf("acked %s", a.Outcome)
	}
	if got := s.fields(g); !maps.Equal(got, was) {
		s.Errorf("the lease was %v and is %v", was, got)
	}
	s.must(s.rdb.Del(s.Context(), s.part.Inbox("a")).Err())
	if a, err := s.ack(g); err != nil || a.Outcome != leases.OK {
		s.Errorf("acked again: %s, %v", a.Outcome, err)
	}
	s.wantUnread(1)
}

func commitRollsBack(s *scenario) {
	s.turned([]uint64{2}, nil)
	g := held("a", 1, 2, "t")
	s.wantClaim(g, leases.Acquired, 1)
	was := s.fields(g)
	for name, key := range map[string]string{"inbox": s.part.Inbox("a"), "history": s.part.History("a", 1)} {
		kept := s.rdb.LRange(s.Context(), key, 0, -1).Val()
		s.must(s.rdb.Set(s.Context(), key, "not a list", 0).Err())
		if _, err := s.turn([]uint64{3}, []uint64{2}); err == nil {
			s.Errorf("committed although the key of the %s has another type", name)
		}
		if got := s.fields(g); !maps.Equal(got, was) || len(s.fields(held("a", 1, 3, ""))) > 0 {
			s.Errorf("%s: the lease was %v and is %v", name, was, got)
		}
		s.must(s.rdb.Del(s.Context(), key).Err())
		for _, element := range kept {
			s.must(s.rdb.RPush(s.Context(), key, element).Err())
		}
	}
	s.turned([]uint64{3}, []uint64{2})
	s.wantAll(g, leases.Gone)
}

func arrivesDuringATurn(s *scenario) {
	s.turned([]uint64{2, 3}, nil)
	first, second := held("a", 1, 2, "t1"), held("a", 1, 3, "t2")
	s.wantClaim(first, leases.Acquired, 1)
	s.wantClaim(second, leases.Acquired, 1)
	read, err := s.ack(first)
	s.must(err)
	late, err := s.ack(second) // between the read and the commit of the owner
	s.must(err)
	done := s.turned(nil, nil, read.Element.ID)
	if len(done.Unread) != 1 || !bytes.Equal(done.Unread[0], late.Element.Encode()) {
		s.Errorf("the reply has %q, want %q", done.Unread, late.Element.Encode())
	}
	if at, err := s.rdb.ZScore(s.Context(), s.part.Wakeups(), "a").Result(); err != nil || int64(at) > s.now()+2000 {
		s.Errorf("the next wakeup is at %.0f, %v", at, err)
	}
	if done := s.turned(nil, nil, late.Element.ID); len(done.Unread) != 0 {
		s.Errorf("%q are left", done.Unread)
	}
}

func isolation(s *scenario) {
	s.turned([]uint64{2}, nil)
	for _, other := range []leases.Claim{held("a", 2, 2, "t"), held("b", 1, 2, "t"), held("a:1", 2, 2, "t"), held("a", 1, 22, "t")} {
		s.wantClaim(other, leases.Gone, 0)
		s.wantAll(other, leases.Gone)
	}
	s.wantClaim(held("a", 1, 2, "t"), leases.Acquired, 1)
	s.wantUnread(0)
}

// A single consumer receives the tasks of a queue in the order in which they were published.
func TestSingleConsumerDispatchesInOrder(t *testing.T) {
	conn, err := transport.Open(t.Context(), natstest.Dial(t, natstest.Start(t).ClientURL()), transport.Options{Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	puller, err := conn.Pull(t.Context(), "q")
	if err != nil {
		t.Fatal(err)
	}
	defer puller.Stop()
	const n = 300
	for i := range uint64(n) {
		task := transport.Task{Instance: fmt.Sprint("i-", i%7), Execution: 1, Activity: i + 1, Name: "a", Queue: "q", Attempt: 1}
		task.Effect = task.ContentID()
		if _, err := redistest.Answer(func(done func(any, error)) { conn.PublishTask(task, func(err error) { done(nil, err) }) }); err != nil {
			t.Fatal(err)
		}
	}
	puller.Request(3)
	for i := range uint64(n) {
		select {
		case d := <-puller.Tasks():
			if d.Task.Activity != i+1 {
				t.Fatalf("task %d was delivered as number %d", d.Task.Activity, i+1)
			}
			d.Ack()
			puller.Request(1)
		case <-time.After(time.Minute):
			t.Fatalf("timed out waiting for task %d", i)
		}
	}
}
