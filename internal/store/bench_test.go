package store_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/leases"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/pkg/history"
)

// BenchmarkScripts reports the processor time that Redis spends in each script of an activity, alone and with other calls pending,
// as Redis measures it: the minimum over the rounds, because other processes compete for the processor.
func BenchmarkScripts(b *testing.B) {
	for _, pending := range []int{1, 512} {
		b.Run(fmt.Sprintf("pending=%d", pending), func(b *testing.B) {
			rdb := redistest.Start(b, "--appendonly", "yes", "--save", "").Client(b)
			run := redisx.NewRunner(rdb)
			defer run.Close()
			space := redisx.NewSpace(redistest.Namespace())
			s := &scripts{
				B: b, rdb: rdb, pending: pending, best: map[string]float64{}, st: store.New(run, space), leases: leases.New(run, space),
				own: store.Tenure{Part: part, Token: token},
			}
			until := strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
			if err := rdb.HSet(b.Context(), space.Part(part).Owner(), "owner", token, "until", until, "span", time.Hour.Milliseconds()).Err(); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				s.activity()
			}
			for name, us := range s.best {
				b.ReportMetric(us, name+"-us")
			}
		})
	}
}

type scripts struct {
	*testing.B
	rdb     redis.UniversalClient
	st      *store.Store
	leases  *leases.Scripts
	own     store.Tenure
	pending int
	round   int
	best    map[string]float64
}

// activity takes one instance per pending call through the second activity of a chain.
func (s *scripts) activity() {
	s.round++
	id := func(i int) string { return fmt.Sprintf("chain-GqDlXG-%d-%d", s.round, i) }
	claim := func(i int) leases.Claim {
		return leases.Claim{Token: "token-" + id(i), Ref: leases.Ref{Part: part, Instance: id(i), Execution: 1, Activity: 2, Effect: "e2"}}
	}
	begin := func(prefix, attributes string) func(int, func(error)) {
		return func(i int, done func(error)) {
			c := &record.Commit{
				Instance: prefix + id(i), Execution: 1, NewHead: "h1", Events: [][]byte{make([]byte, 80), make([]byte, 120)}, Create: leasesOf(2),
				Record: &record.Record{Name: "chain", Version: "1", Origin: at(1), Execution: 1, Status: record.Running, Created: 5, Attributes: attributes},
				Wakeup: time.Now().UnixMilli(), MaxUnread: 256,
			}
			c.Reindex(nil)
			s.st.Commit(s.own, c, func(_ record.Committed, err error) { done(err) })
		}
	}
	s.measure("first-commit", begin("", ""))
	s.measure("first-commit-attributes", begin("two-", fmt.Sprintf(`{"items":%d,"tenant":"t-%d"}`, s.round, s.round%100)))
	s.measure("claim", func(i int, done func(error)) {
		s.leases.Claim(leases.ClaimRequest{Claim: claim(i), Worker: "worker-1", TTL: time.Minute, MaxClaims: 10}, func(_ leases.ClaimReply, err error) { done(err) })
	})
	popped := make([]string, s.pending)
	s.measure("ack", func(i int, done func(error)) {
		s.leases.Ack(leases.Completion{Claim: claim(i), Body: make([]byte, 60)}, func(a leases.Acked, err error) {
			popped[i] = a.Element.ID
			done(err)
		})
	})
	s.measure("commit", func(i int, done func(error)) {
		s.st.Commit(s.own, &record.Commit{
			Instance: id(i), Execution: 1, Head: "h1", NewHead: "h2", Pop: popped[i : i+1], Events: [][]byte{make([]byte, 60), make([]byte, 120)},
			Create: []record.Lease{{Activity: 4, Effect: "e4"}}, Record: &record.Record{}, From: record.Running, Wakeup: time.Now().UnixMilli(), MaxUnread: 256,
		}, func(_ record.Committed, err error) { done(err) })
	})
	s.measure("end", func(i int, done func(error)) {
		c := &record.Commit{
			Instance: id(i), Execution: 1, Head: "h2", NewHead: "h3", Events: [][]byte{make([]byte, 60)}, Delete: []record.Lease{{Activity: 4, Effect: "e4"}},
			Record: &record.Record{Status: record.Completed, Ended: 9, End: make([]byte, 60)}, From: record.Running, MaxUnread: 256,
		}
		c.Reindex(&record.Record{Name: "chain", Version: "1", Status: record.Running})
		s.st.Commit(s.own, c, func(_ record.Committed, err error) { done(err) })
	})
	s.measure("ingest", func(i int, done func(error)) {
		if i > 0 { // one outstanding batch per partition
			done(nil)
			return
		}
		var all []record.Message
		for k := range s.pending {
			all = append(all, record.Message{Instance: "new" + id(k), ID: "m", Kind: record.StartMessage, Element: element("!m")})
		}
		n := uint64(s.round)
		from := history.Position{}
		if n > 1 {
			from = at(n - 1)
		}
		s.st.Ingest(s.own, from, at(n), all,
			func(_ int64, _ []record.Ingested, err error) { done(err) })
	})
}

// measure makes the pending calls, and records the minimum time per call.
func (s *scripts) measure(name string, call func(i int, done func(error))) {
	s.Helper()
	s.rdb.ConfigResetStat(s.Context())
	cpu := s.cpu()
	var wg sync.WaitGroup
	for i := range s.pending {
		wg.Add(1)
		call(i, func(err error) {
			if err != nil {
				s.Errorf("%s: %v", name, err)
			}
			wg.Done()
		})
	}
	wg.Wait()
	info, err := s.rdb.Info(s.Context(), "commandstats").Result()
	if err != nil {
		s.Fatal(err)
	}
	_, stats, _ := strings.Cut(info, "cmdstat_evalsha:")
	var calls int
	var us float64
	if _, err := fmt.Sscanf(strings.ReplaceAll(stats, ",", " "), "calls=%d usec=%g", &calls, &us); err != nil {
		s.Fatalf("%q: %v", stats, err)
	}
	if s.round == 1 { // this round loads the scripts
		return
	}
	s.keep(name, us/float64(s.pending))
	s.keep(name+"-cpu", (s.cpu()-cpu)/float64(s.pending))
}

func (s *scripts) keep(name string, us float64) {
	if best, ok := s.best[name]; !ok || us < best {
		s.best[name] = us
	}
}

// cpu returns the processor time of Redis in µs, including reading calls, writing replies and the append-only file.
func (s *scripts) cpu() float64 {
	info, err := s.rdb.Info(s.Context(), "cpu").Result()
	if err != nil {
		s.Fatal(err)
	}
	var sum float64
	for _, field := range []string{"used_cpu_sys:", "used_cpu_user:"} {
		_, text, _ := strings.Cut(info, field)
		text, _, _ = strings.Cut(text, "\r")
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil {
			s.Fatal(err)
		}
		sum += 1e6 * seconds
	}
	return sum
}
