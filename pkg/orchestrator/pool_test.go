package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/netfault"
	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

var (
	sale    = pawl.NewOrchestration[int, int]("sale")
	invoice = pawl.NewOrchestration[int, int]("invoice", pawl.Concurrency(100))
	addOne  = pawl.NewActivity[int, int]("add")
	booked  = pawl.NewActivity[int, int]("book", pawl.Concurrency(100))
	more    = pawl.NewUpdate[int, int]("more")
	total   = pawl.NewQuery[pawl.None, int]("total")
	closing = pawl.NewEvent[int]("closing")
	amount  = pawl.NewStatus[int]()
)

// sell is the code of one fleet: each sale starts an invoice, whose code the other fleet has.
func sell(ctx *pawl.Context, n int) (int, error) {
	n, err := addOne.Call(ctx, n)
	if err != nil {
		return 0, err
	}
	return invoice.Call(ctx, n)
}

// bill is the code of the other fleet: an invoice that updates raise until it is closed.
func bill(ctx *pawl.Context, n int) (int, error) {
	if err := errors.Join(
		total.Handle(ctx, func(pawl.None) (int, error) { return n, nil }),
		more.Validate(ctx, func(by int) error {
			if by < 0 {
				return errors.New("less")
			}
			return nil
		}),
		more.Handle(ctx, func(ctx *pawl.Context, by int) (int, error) {
			n += by
			return n, amount.Set(ctx, n)
		}),
	); err != nil {
		return 0, err
	}
	by, err := booked.Call(ctx, 1)
	if err != nil {
		return 0, err
	}
	_, err = closing.Receive(ctx)
	return n + by, err
}

func book(_ context.Context, n int) (int, error) { return n, nil }

// TestFleetsWithDisjointCodeShareANamespace runs instances of both fleets on partitions of both, with children across the two, updates,
// queries, a limit declared by the handle, and cancellations.
func TestFleetsWithDisjointCodeShareANamespace(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	sales := s.orchestrate(orchestrator.Config{Member: "sales"}, sale.Do(sell))
	billing := s.orchestrate(orchestrator.Config{Member: "billing"}, invoice.Do(bill, pawl.Version("1")))
	s.work(worker.Config{}, addOne.Do(book), booked.Do(book))
	s.until("both own partitions", func() bool { return len(sales.Partitions()) > 0 && len(billing.Partitions()) > 0 })
	c := s.client()
	const each = 8
	for i := range each {
		s.start("sale", fmt.Sprint("s-", i), "10")
		s.start("invoice", fmt.Sprint("i-", i), "10")
	}
	for i := range each {
		id := fmt.Sprint("i-", i)
		if got, err := client.Update(s.ctx(), c, more, id, 5); err != nil || got != 15 {
			t.Errorf("%s: %d, %v", id, got, err)
		}
		if _, err := client.Update(s.ctx(), c, more, id, -5); !client.Rejected(err) || !strings.Contains(err.Error(), "less") {
			t.Errorf("%s: the validator does not reject the update: %v", id, err)
		}
		s.until("the query of "+id+" is answered", func() bool {
			got, err := client.Query(s.ctx(), c, total, id, pawl.None{})
			if err != nil && strings.Contains(err.Error(), "answered") { // a query timed out on a slow machine
				return false
			}
			if err != nil || got.Value != 15 {
				t.Errorf("%s: the query is answered %d, %v", id, got.Value, err)
			}
			return true
		})
		if i%4 == 0 {
			if err := c.Cancel(s.ctx(), id, ""); err != nil {
				t.Error(err)
			}
			continue
		}
		s.event("closing", id, "0")
	}
	for i := range each {
		want, got := "completed 16", s.ended(fmt.Sprint("i-", i))
		if i%4 == 0 {
			want = "cancelled "
		}
		if text := got.Status + " " + string(got.Result.Data); text != want {
			t.Errorf("i-%d: %s, want %s", i, text, want)
		}
		child := ""
		s.until("the sale has an invoice", func() bool {
			if d := s.describe(fmt.Sprint("s-", i)); len(d.Children) > 0 {
				child = d.Children[0].Instance
			}
			return child != ""
		})
		s.event("closing", child, "0")
	}
	for i := range each {
		if got := s.ended(fmt.Sprint("s-", i)); got.Status != "completed" || string(got.Result.Data) != "11" {
			t.Errorf("s-%d: %s %s", i, got.Status, got.Result.Data)
		}
	}
	s.quiet("invoice")
}

// TestMemberDiesInATurnOfAnotherOwner disconnects a member while it decides a turn: another member that has the code decides it.
func TestMemberDiesInATurnOfAnotherOwner(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	proxy, err := netfault.Listen(strings.TrimPrefix(s.nats.ConnectedUrl(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	entered, cut := make(chan struct{}), make(chan struct{})
	var once sync.Once
	dies := func(ctx *pawl.Context, n int) (int, error) {
		once.Do(func() { close(entered); <-cut })
		return bill(ctx, n)
	}
	owner := s.orchestrate(orchestrator.Config{Member: "sales", TurnLimit: time.Second}, sale.Do(sell))
	near := *s
	near.nats = natstest.Dial(t, "nats://"+proxy.Addr())
	first := near.orchestrate(orchestrator.Config{Member: "first"}, invoice.Do(dies))
	s.work(worker.Config{}, booked.Do(book))
	members := []string{"sales", "first"}
	s.until("each owns its partitions", func() bool {
		for p := range s.conn.Partitions() {
			at := partition.Rendezvous(members, p)
			if slices.Contains(owner.Partitions(), p) != (at == "sales") || slices.Contains(first.Partitions(), p) != (at == "first") {
				return false
			}
		}
		return true
	})
	id, part := "", -1
	for i := 0; part < 0 || !slices.Contains(owner.Partitions(), part); i++ {
		id = fmt.Sprint("i-", i)
		part = s.conn.PartitionOf(id)
	}
	s.start("invoice", id, "1")
	decided := false
	select {
	case <-entered:
		decided = slices.Contains(owner.Partitions(), part)
	case <-s.ctx().Done():
	}
	proxy.Cut()
	close(cut)
	if !decided {
		t.Fatalf("the member decides no turn of the other member's partition %d", part)
	}
	s.orchestrate(orchestrator.Config{Member: "second"}, invoice.Do(bill))
	s.event("closing", id, "0")
	if d := s.ended(id); d.Status != "completed" {
		t.Errorf("%s: %s %v", id, d.Status, d.Failure)
	}
	proxy.Heal()
}
