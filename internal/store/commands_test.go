package store_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/leases"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
)

// Each command of a script takes about a microsecond of the single thread of Redis. An instance with one activity executes these.
func TestCommandsOfTheScriptsOfAnActivity(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	run := redisx.NewRunner(rdb)
	t.Cleanup(run.Close)
	b := newHarness(t, rdb, run)
	leased, popped, wakeup := leases.New(run, b.space), "", b.now()+10_000
	claimed := leases.Claim{Token: "token", Ref: leases.Ref{Part: part, Instance: "a", Execution: 1, Activity: 2, Effect: "e2"}}
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"the first start", func() {
			_, err := b.ingest(0, 1, record.Message{Instance: "a", ID: "m", Kind: record.StartMessage, Element: element("!m")})
			b.must(err)
		}, "exists 1, hmget 2, hset 1, llen 1, lpush 1, pexpire 1, time 1, zadd 2, zcard 1"},
		{"the commit of the start", func() {
			_, err := b.commit(record.Commit{
				Instance: "a", Execution: 1, NewHead: "h1", Pop: []string{"!m"}, Events: [][]byte{[]byte("started"), []byte("scheduled")}, Create: leasesOf(2), MaxUnread: 1,
				Record: &record.Record{Name: "n", Origin: at(1), Execution: 1, Status: record.Running, Created: 5}, Wakeup: wakeup,
			})
			b.must(err)
		}, "hdel 1, hincrby 1, hmget 2, hset 2, llen 1, lrange 1, ltrim 1, rpush 1, time 1, zadd 4"},
		{"a read of the due set while nothing is due", func() {
			_, err := b.due(10)
			b.must(err)
		}, "hmget 1, time 1, zrange 2"},
		{"the claim", func() {
			_, err := redistest.Answer(func(done func(leases.ClaimReply, error)) {
				leased.Claim(leases.ClaimRequest{Claim: claimed, Worker: "worker-1", TTL: time.Minute, MaxClaims: 10}, done)
			})
			b.must(err)
		}, "hmget 1, hset 1, time 1"},
		{"the ack", func() {
			a, err := redistest.Answer(func(done func(leases.Acked, error)) {
				leased.Ack(leases.Completion{Claim: claimed, Body: []byte("done")}, done)
			})
			b.must(err)
			popped = a.Element.ID
		}, "del 1, hmget 1, rpush 1, time 1, zadd 1"},
		{"the commit of the completion, which ends the instance", func() {
			_, err := b.commit(record.Commit{
				Instance: "a", Execution: 1, Head: "h1", NewHead: "h2", From: record.Running, Pop: []string{popped}, Events: [][]byte{[]byte("completed"), []byte("ended")}, MaxUnread: 1,
				Record: &record.Record{Status: record.Completed, Ended: 9, End: []byte("ended")},
			})
			b.must(err)
		}, "hincrby 1, hmget 2, hset 1, llen 1, lrange 1, ltrim 1, rpush 1, time 1, zadd 1, zrem 2"},
	} {
		b.must(rdb.ConfigResetStat(b.ctx()).Err())
		step.do()
		info, err := rdb.Info(b.ctx(), "commandstats").Result()
		b.must(err)
		var got []string
		for _, m := range regexp.MustCompile(`cmdstat_(\w+):calls=(\d+)`).FindAllStringSubmatch(info, -1) {
			if !slices.Contains([]string{"evalsha", "hello", "hgetall"}, m[1]) { // commands outside the scripts
				got = append(got, m[1]+" "+m[2])
			}
		}
		if slices.Sort(got); strings.Join(got, ", ") != step.want {
			t.Errorf("%s: %s\nwant %s", step.name, strings.Join(got, ", "), step.want)
		}
	}
}
