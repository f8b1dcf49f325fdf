package orchestrator_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/pool"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/internal/turn"
	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

var (
	crate   = pawl.NewOrchestration[string, string]("crate")
	pack    = pawl.NewActivity[string, string]("pack")
	stamped = pawl.NewEvent[string]("stamped")
)

// TestInstanceIsNotStalledWhileAMemberIsBusy: the only member that has the code is busy three times, and the owner waits for it.
func TestInstanceIsNotStalledWhileAMemberIsBusy(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{Member: "sales"}, sale.Do(sell))
	programs, err := author.NewRegistry(crate.Do(func(_ *pawl.Context, in string) (string, error) { return in, nil }))
	if err != nil {
		t.Fatal(err)
	}
	const busy = 3
	requests, stalls := 0, 0
	m := pool.NewMember(s.conn, "crates")
	t.Cleanup(m.Leave)
	if err := m.Join(programs, func(to string, r pool.Request) error {
		g := &r.Turn.Given
		stalled, err := s.store.StalledIDs(s.ctx(), s.conn.PartitionOf(g.Identity.Instance))
		stalls += len(stalled)
		if requests++; requests <= busy || err != nil {
			return m.Answer(to, &pool.Answer{Busy: true, Missing: "it is busy"})
		}
		b, _ := programs.Requested(g.Name, g.Place.Version)
		code, err := turn.Replay(g, replay.New(g.Identity, b.Program, replay.Options{}))
		if err != nil {
			return err
		}
		a := pool.AnswerOf(g, turn.Decide(g, code), replay.Awaited{})
		return m.Answer(to, a)
	}); err != nil {
		t.Fatal(err)
	}
	s.start("crate", "p-1", `"p"`)
	if d := s.ended("p-1"); d.Status != "completed" || stalls > 0 || requests <= busy {
		t.Errorf("%s after %d requests; it was stalled at %d of them", d.Status, requests, stalls)
	}
}

// TestLargePayloadsOfATurnElsewhereAreObjects: the owner lacks the code, and all payloads of the instance are in the object store: its input,
// an event, the input and the result of an activity, and its result. Another member reads and writes them, even when it replays.
func TestLargePayloadsOfATurnElsewhereAreObjects(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	codec, err := pawlcodec.New(pawlcodec.Options{Store: true})
	if err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", transport.MaxPayload+1)
	wrap := func(ctx *pawl.Context, in string) (string, error) {
		packed, err := pack.Call(ctx, in+"i")
		if err != nil {
			return "", err
		}
		seal, err := stamped.Receive(ctx)
		return packed + seal, err
	}
	owner := s.orchestrate(orchestrator.Config{Member: "sales", Codec: codec}, sale.Do(sell))
	first := s.orchestrate(orchestrator.Config{Member: "first", Codec: codec}, crate.Do(wrap))
	s.work(worker.Config{Codec: codec}, pack.Do(func(_ context.Context, in string) (string, error) { return in + "p", nil }))
	id := "p-1"
	for slices.ContainsFunc([][]string{{"sales", "first"}, {"sales", "first", "second"}, {"sales", "second"}}, func(members []string) bool {
		return partition.Rendezvous(members, s.conn.PartitionOf(id)) != "sales"
	}) {
		id += "1"
	}
	s.until("the owner has its partition", func() bool { return slices.Contains(owner.Partitions(), s.conn.PartitionOf(id)) })
	c, err := client.New(s.ctx(), s.nats, client.Options{Namespace: s.ns, Codec: codec})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	run, err := client.Start(s.ctx(), c, crate, id, large)
	if err != nil {
		t.Fatal(err)
	}
	s.until("the activity has completed", func() bool { return s.describe(id).Events == 3 })
	s.orchestrate(orchestrator.Config{Member: "second", Codec: codec}, crate.Do(wrap))
	s.stop(first) // the history that the other member replays refers to objects
	if err := client.Send(s.ctx(), c, stamped, id, large); err != nil {
		t.Fatal(err)
	}
	got, err := run.Result(s.ctx())
	if err != nil || got != large+"ip"+large {
		t.Errorf("a result of %d bytes, %v", len(got), err)
	}
	for _, ev := range s.history(id) {
		if b, err := eventcodec.Encode(ev); err != nil || len(b) > 4096 {
			t.Errorf("%T has %d bytes in the history: %v", ev, len(b), err)
		}
	}
}
