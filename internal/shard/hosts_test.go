package shard

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/netfault"
	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/pool"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/internal/wire"
	"github.com/pawlrun/pawl/pkg/history"
)

// hostHarness is a member that has an orchestration, and the caller of an owner that does not have it.
type hostHarness struct {
	*objectHarness

	host    *host
	found   pool.Found
	entered chan struct{} // receives at the beginning of each turn
	release func()        // ends the wait of all turns
}

func newHostHarness(t *testing.T) *hostHarness {
	t.Helper()
	released := make(chan struct{})
	w := &hostHarness{objectHarness: newObjectHarness(t), entered: make(chan struct{}, 8), release: sync.OnceFunc(func() { close(released) })}
	large := pawl.NewOrchestration[int, string]("large").Do(func(*pawl.Context, int) (string, error) {
		w.entered <- struct{}{}
		<-released
		return strings.Repeat("x", 1<<20), nil
	})
	var err error
	w.cfg.Programs, err = author.NewRegistry(large)
	w.ok(err)
	w.cfg.Member, w.cfg.TurnLimit, w.cfg.Parked, w.cfg.Logger, w.log = "billing", time.Minute, 16, slog.New(slog.DiscardHandler), slog.New(slog.DiscardHandler)
	w.caller, err = pool.NewCaller(w.conn)
	w.ok(err)
	t.Cleanup(w.caller.Close)
	w.host = newHost(w.Process, newTurners(time.Minute))
	w.ok(w.host.member.Join(w.cfg.Programs, w.host.request))
	t.Cleanup(func() { // closing twice is allowed
		w.release()
		w.host.close()
	})
	poll.Until(t, time.Minute, "the member is found", func() bool { // a search ends after two seconds
		w.found, err = w.find("large")
		return err == nil
	})
	return w
}

type foundMember struct {
	pool.Found
	err error
}

func (w *hostHarness) find(name string) (pool.Found, error) {
	got := make(chan foundMember, 1)
	findMember(w.Process, name, "", true, func(f pool.Found, err error) { got <- foundMember{f, err} })
	f := <-got
	return f.Found, f.err
}

// turn requests the first turn of an instance.
func (w *hostHarness) turn(id string) <-chan *pool.Answer {
	start := &history.Started{Name: "large", Payload: history.Payload{Type: history.TypeJSON, Data: []byte("1")}, Execution: 1}
	r := pool.Request{Turn: &pool.Turn{ID: "t" + id, Given: core.Given{
		Source: core.Source{Name: "large"}, Identity: effectid.Identity{Instance: id, Execution: 1}, Inputs: []core.Unread{{ID: "1.1", Ev: start}}, Now: 1,
	}}}
	return w.send(r, time.Minute)
}

func (w *hostHarness) send(r pool.Request, within time.Duration) <-chan *pool.Answer {
	got := make(chan *pool.Answer, 1)
	w.caller.Send(w.found.At, r.Encode(""), within, func(b []byte, err error) {
		if err != nil {
			got <- &pool.Answer{Error: err.Error()}
			return
		}
		a, err := pool.DecodeAnswer(b)
		if err != nil {
			a = &pool.Answer{Error: err.Error()}
		}
		got <- a
	})
	return got
}

// TestMemberWithTooManyRequestsIsBusy checks that a member rejects requests beyond its limits of number and bytes at once as busy, and accepts
// requests again after earlier ones are answered.
func TestMemberWithTooManyRequestsIsBusy(t *testing.T) {
	t.Parallel()
	w := newHostHarness(t)
	fill := func(requests, bytes int) {
		w.host.mu.Lock()
		defer w.host.mu.Unlock()
		w.host.requests += requests
		w.host.bytes += bytes
	}
	fill(maxHostRequests-1, 0)
	first := w.turn("first")
	<-w.entered
	if a := <-w.turn("second"); !a.Busy || !strings.Contains(a.Missing, "billing is busy") {
		t.Errorf("beyond the number of requests: %+v", a)
	}
	w.release()
	if a := <-first; len(a.Events) == 0 || a.Error != "" || a.Missing != "" {
		t.Errorf("the last request within the limit: %q %q", a.Error, a.Missing)
	}
	if a := <-w.turn("third"); len(a.Events) == 0 {
		t.Errorf("after its answer: %q %q", a.Error, a.Missing)
	}
	fill(1-maxHostRequests, maxHostBytes-10)
	if a := <-w.turn("fourth"); !a.Busy {
		t.Errorf("beyond the bytes of requests: %q %q", a.Error, a.Missing)
	}
	fill(0, 10-maxHostBytes)
	if a := <-w.turn("fifth"); len(a.Events) == 0 {
		t.Errorf("within the bytes again: %q %q", a.Error, a.Missing)
	}
	if w.host.requests != 0 || w.host.bytes != 0 {
		t.Errorf("%d requests of %d bytes are counted, and none is outstanding", w.host.requests, w.host.bytes)
	}
}

// TestStoppingMemberFinishesItsTurns checks that a stopping member still writes the objects of an outstanding turn, and answers busy after its
// timeout, so that the owner tries another member.
func TestStoppingMemberFinishesItsTurns(t *testing.T) {
	t.Parallel()
	for name, inTime := range map[string]bool{"in time": true, "late": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newHostHarness(t)
			answer := w.turn("i")
			<-w.entered
			closed := make(chan struct{})
			go func() { w.host.close(); close(closed) }()
			poll.Until(t, time.Minute, "the member takes no more requests", func() bool {
				a := <-w.send(pool.Request{Query: &pool.Query{Identity: effectid.Identity{Instance: "none"}}}, time.Second)
				return strings.Contains(a.Error, pool.ErrNoMember.Error())
			})
			if !inTime {
				w.host.stop()
			}
			w.release()
			a := <-answer
			<-closed
			if objects := w.listed(); inTime != (len(a.Events) == 2 && a.Error == "" && len(objects) == 1) || inTime == a.Busy {
				t.Errorf("%d events, %d objects, busy %v: %q %q", len(a.Events), len(objects), a.Busy, a.Error, a.Missing)
			}
		})
	}
}

// TestSearchForCodeIsRepeatedOnce checks that an owner repeats a search without an answer once: the message may have been lost.
func TestSearchForCodeIsRepeatedOnce(t *testing.T) {
	t.Parallel()
	w := newHostHarness(t)
	searches := make(chan struct{}, 8)
	lost := 1
	sub, err := w.conn.ServeCode("unanswered", "", true, func() []byte {
		if searches <- struct{}{}; len(searches) <= lost {
			return []byte("not a part of a message")
		}
		at, of, found := 0, 1, pool.Found{At: "m", Version: "3"}.Encode()
		return wire.Encode(func(c *wire.Codec) { c.Count(&at); c.Count(&of); c.Bytes(&found) })
	})
	w.ok(err)
	t.Cleanup(sub.Stop)
	if f, err := w.find("unanswered"); err != nil || f.Version != "3" || len(searches) != 2 {
		t.Errorf("%+v, %v, after %d searches", f, err, len(searches))
	}
	lost = 8
	if f, err := w.find("unanswered"); !errors.Is(err, pool.ErrUnanswered) || len(searches) != 4 {
		t.Errorf("%+v, %v, after %d searches", f, err, len(searches))
	}
}

// TestInstancesAreRetriedWhenTheConnectionIsRestored checks that an owner searches for missing code as soon as its connection is restored, because it may
// have missed the notice of a new member.
func TestInstancesAreRetriedWhenTheConnectionIsRestored(t *testing.T) {
	t.Parallel()
	proxy, err := netfault.Listen(strings.TrimPrefix(natstest.Start(t).ClientURL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	conn, err := transport.Open(t.Context(), natstest.Dial(t, "nats://"+proxy.Addr()), transport.Options{Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	p := &Process{shards: newShards(), backends: backends{conn: conn}}
	box := newMailbox()
	p.shards.add(&shard{shell: &shell{box: box}})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { p.watchConnection(ctx); close(ended) }()
	t.Cleanup(func() { stop(); <-ended })
	var got []core.MessageKind
	poll.Until(t, time.Minute, "the instances are retried", func() bool {
		proxy.Cut() // again, if the connection was restored before it was watched
		proxy.Heal()
		poll.Until(t, time.Minute, "the connection is restored", conn.Connected)
		box.each(func(m *mail) { got = append(got, m.Kind) })
		return len(got) > 0
	})
	if got[0] != core.CodeJoined {
		t.Errorf("message %v", got)
	}
}

// TestPartitionIsNotDeclinedForATurnOfAnotherMember checks that an owner keeps its partition if another member reports a divergence, and declines it
// if it detects the divergence itself.
func TestPartitionIsNotDeclinedForATurnOfAnotherMember(t *testing.T) {
	t.Parallel()
	s := &shell{process: &Process{}, tenure: &partition.Tenure{}, resident: resident{guests: map[string]guest{}, remoteTurns: map[string]*guestTurn{}, failed: map[string]bool{}}}
	stalled := &record.Reconciliation{Instance: "i", Stalled: `{"kind":"non-determinism"}`}
	turn := &guestTurn{instance: "i", decided: &core.Decided{Err: errors.New("the history differs"), Diverged: true}}
	s.remoteTurns["i"] = turn
	if !s.guestDone(turn) || s.guestDone(turn) {
		t.Error("the turn was not accepted exactly once")
	}
	if s.declineFor(stalled); len(s.process.declines.all) != 0 {
		t.Errorf("declined: %v", s.process.declines.all)
	}
	again := &guestTurn{instance: "i", decided: &core.Decided{Missing: "no member has the code"}}
	s.remoteTurns["i"] = again
	s.guestDone(again)
	if s.declineFor(stalled); len(s.process.declines.all) != 1 {
		t.Error("not declined for its own turn")
	}
}
