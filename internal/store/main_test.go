package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const part, token = 3, "mine"

// harness is one partition with an owner, on one of the kinds of Redis.
type harness struct {
	*testing.T
	rdb   redis.UniversalClient
	st    *store.Store
	p     redisx.Part
	space redisx.Space
	own   store.Tenure
}

// each runs every case in its own namespace on miniredis, a redis-server and a cluster.
func each(t *testing.T, cases map[string]func(b *harness)) {
	t.Helper()
	redistest.All(t, func(t *testing.T, rdb redis.UniversalClient) { suite(t, rdb, cases) })
}

// onReal runs every case in its own namespace on a redis-server and a cluster.
func onReal(t *testing.T, cases map[string]func(b *harness)) {
	t.Helper()
	redistest.Real(t, func(t *testing.T, rdb redis.UniversalClient) { suite(t, rdb, cases) })
}

func suite(t *testing.T, rdb redis.UniversalClient, cases map[string]func(b *harness)) {
	t.Helper()
	run := redisx.NewRunner(rdb)
	defer run.Close()
	for name, f := range cases {
		t.Run(name, func(t *testing.T) {
			f(newHarness(t, rdb, run))
		})
	}
}

func newHarness(t *testing.T, rdb redis.UniversalClient, run *redisx.Runner) *harness {
	t.Helper()
	space := redisx.NewSpace(redistest.Namespace())
	b := &harness{T: t, rdb: rdb, st: store.New(run, space), p: space.Part(part), space: space, own: store.Tenure{Part: part, Token: token}}
	b.owner(token, time.Hour)
	return b
}

func (b *harness) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// ctx ends with the test.
func (b *harness) ctx() context.Context { return b.Context() }

// owner makes token the owner of the partition for the time left.
func (b *harness) owner(token string, left time.Duration) {
	b.Helper()
	span := max(left, time.Minute)
	b.must(b.rdb.HSet(b.ctx(), b.p.Owner(), "owner", token, "until", b.now()+left.Milliseconds(), "span", span.Milliseconds()).Err())
}

func (b *harness) now() int64 {
	b.Helper()
	t, err := b.rdb.Time(b.ctx()).Result()
	b.must(err)
	return t.UnixMilli()
}

func (b *harness) ingest(from, to uint64, ms ...record.Message) ([]record.Ingested, error) {
	return redistest.Answer(func(done func([]record.Ingested, error)) {
		b.st.Ingest(b.own, at(from), at(to), ms, func(_ int64, a []record.Ingested, err error) { done(a, err) })
	})
}

func (b *harness) commit(c record.Commit) (record.Committed, error) {
	if c.Execution == 0 {
		c.Execution = 1
	}
	was, _ := b.st.Record(b.ctx(), part, c.Instance)
	c.Reindex(was)
	return redistest.Answer(func(done func(record.Committed, error)) { b.st.Commit(b.own, &c, done) })
}

func (b *harness) reconcile(l record.Reconciliation) (record.Reconciled, error) {
	l.Execution = 1
	return redistest.Answer(func(done func(record.Reconciled, error)) { b.st.Reconcile(b.own, &l, done) })
}

func (b *harness) due(n int) (record.DueSet, error) {
	return redistest.Answer(func(done func(record.DueSet, error)) { b.st.Due(b.own, n, done) })
}

// at returns a position whose time exceeds the exact integers of Lua.
func at(seq uint64) history.Position {
	if seq == 0 {
		return history.Position{}
	}
	return history.Position{Seq: seq, Time: 1_790_000_000_123_456_000 + int64(seq)}
}

func element(id string) []byte {
	return eventcodec.Element{ID: id, At: 1_790_000_000_000, Body: []byte("body of " + id)}.Encode()
}

func message(instance, id string, kind record.MessageKind) record.Message {
	name := id
	if kind == record.StartMessage || kind == record.PlainStart {
		name = "!" + id
		id = ""
	}
	return record.Message{Instance: instance, ID: id, Kind: kind, Element: element(name)}
}

// inbox returns the ids in an inbox, separated by spaces.
func (b *harness) inbox(instance string) string {
	b.Helper()
	all, err := b.rdb.LRange(b.ctx(), b.p.Inbox(instance), 0, -1).Result()
	b.must(err)
	for i, e := range all {
		all[i], _, _ = strings.Cut(e, "\n")
	}
	return strings.Join(all, " ")
}

// wakeupIn returns the time until the wakeup of the instance, ms; ok is false if it has none.
func (b *harness) wakeupIn(instance string) (in int64, ok bool) {
	b.Helper()
	v, err := b.rdb.ZScore(b.ctx(), b.p.Wakeups(), instance).Result()
	if err == redis.Nil {
		return 0, false
	}
	b.must(err)
	return int64(v) - b.now(), true
}

// wantWakeup checks that the wakeup is in milliseconds from now, with a tolerance of 20 s for slow machines.
func (b *harness) wantWakeup(instance string, in int64) {
	b.Helper()
	if got, ok := b.wakeupIn(instance); !ok || got > in || got < in-20_000 {
		b.Errorf("wakeup of %s in %d ms (set: %v), want in %d", instance, got, ok, in)
	}
}

func (b *harness) wantNoWakeup(instance string) {
	b.Helper()
	if got, ok := b.wakeupIn(instance); ok {
		b.Errorf("wakeup of %s in %d ms, want none", instance, got)
	}
}

func (b *harness) wantApplied(seq uint64) {
	b.Helper()
	if got, err := b.st.Applied(b.ctx(), part); err != nil || got != at(seq) {
		b.Errorf("applied is %v, %v; want %v", got, err, at(seq))
	}
}

func (b *harness) wantInbox(instance, ids string) {
	b.Helper()
	if got := b.inbox(instance); got != ids {
		b.Errorf("inbox of %s is %q, want %q", instance, got, ids)
	}
}

// started commits the first turn of an instance, which schedules activities with the given event ids.
func (b *harness) started(instance, head string, activities ...uint64) {
	b.Helper()
	_, err := b.commit(record.Commit{
		Instance: instance, NewHead: head, Events: [][]byte{[]byte("first")}, Create: leasesOf(activities...),
		Record: &record.Record{Name: "n", Origin: at(1), Execution: 1, Status: record.Running, Created: 5}, Wakeup: b.now() + 10_000,
	})
	b.must(err)
}

func leasesOf(activities ...uint64) []record.Lease {
	var out []record.Lease
	for _, a := range activities {
		out = append(out, record.Lease{Activity: a, Effect: fmt.Sprint("e", a)})
	}
	return out
}

func (b *harness) lease(instance string, activity uint64) map[string]string {
	b.Helper()
	m, err := b.rdb.HGetAll(b.ctx(), b.p.Lease(instance, 1, activity)).Result()
	b.must(err)
	return m
}

// claim writes a claim as the script of workers does; a negative left has expired.
func (b *harness) claim(instance string, activity uint64, claims int, left time.Duration) {
	b.Helper()
	b.must(b.rdb.HSet(b.ctx(), b.p.Lease(instance, 1, activity), "t", "tok", "w", fmt.Sprint("w", activity),
		"u", b.now()+left.Milliseconds(), "d", max(left, time.Minute).Milliseconds(), "n", claims).Err())
}
