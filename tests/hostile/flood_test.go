package hostile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlrun/pawl/examples"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

const (
	messages = 100_000

	// Instances of another tenant start at fixed times, whether or not earlier ones have ended.
	helloEvery = 50 * time.Millisecond
	helloQuiet = 2 * time.Second // duration before the flood
	helloAfter = 5 * time.Second // duration after the flood

	// maxHello is the maximum for half of the instances on an otherwise idle machine, where they take about 20 ms before the
	// flood, and maxStalled the maximum for 99 of 100, because a busy machine may stall for seconds. On a machine that is slow
	// even without a flood, they may take up to maxSlowdown times as long as before.
	maxHello    = time.Second
	maxStalled  = 5 * time.Second
	maxSlowdown = 50
)

// A client with permission to publish on every subject of the namespace publishes variations of real messages, of messages
// that once crashed processes, and random ones.
func TestFloodOfHostileMessagesDelaysNoOtherInstance(t *testing.T) {
	h := newHarness(t, 2, 2)
	captured := capture(t, h.nats.Client())
	ctx, stop := context.WithTimeout(t.Context(), 5*within)
	defer stop()

	expenses, races, targets := h.startTargets(ctx)
	always := make(chan struct{})
	close(always)
	slowdown := maxSlowdown * p99(h.hellos(ctx, "quiet", always, helloQuiet))
	g := newGenerator(1, captured(), targets, slices.Concat(expenses, races))
	flooded := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	nc := h.nats.Client()
	wg.Go(func() {
		defer close(flooded)
		began := time.Now()
		for i := range messages {
			if err := nc.PublishMsg(g.message()); err != nil {
				t.Error(err)
				return
			}
			if i%1000 == 999 {
				if err := nc.FlushWithContext(ctx); err != nil {
					t.Error(err)
					return
				}
			}
		}
		t.Logf("%d messages in %v: %v", messages, time.Since(began).Round(time.Millisecond), g.counts)
	})
	all := h.hellos(ctx, "other", flooded, helloAfter)
	for _, slow := range all[len(all)-3:] {
		h.logSteps(slow)
	}
	if got, limit := p50(all), max(maxHello, slowdown); got > limit {
		t.Errorf("p50 of the other instances is %v, want at most %v", got, limit)
	}
	if got, limit := p99(all), max(maxStalled, slowdown); got > limit {
		t.Errorf("p99 of the other instances is %v, want at most %v", got, limit)
	}
	for _, id := range expenses {
		h.checkApproved(ctx, id)
	}
	for _, id := range races {
		h.checkUnchanged(id)
		if err := h.Client.Cancel(ctx, id, "the flood has ended"); err != nil {
			t.Error(err)
		}
	}
	for _, id := range targets {
		d, err := h.Client.Describe(ctx, id) // it may have been purged and started as an unregistered orchestration, or have received an event
		if err != nil && !errors.Is(err, client.ErrNotFound) || d.Stalled != "" && !strings.HasPrefix(d.Stalled, "unregistered") && !strings.HasPrefix(d.Stalled, "not-started") {
			t.Errorf("%s: %+v, %v", id, d, err)
		}
	}
	h.checkBounds()
}

// startTargets starts instances that wait for an event or for their activities during the flood. It also runs other
// instances, so that messages of every kind are captured.
func (h *harness) startTargets(ctx context.Context) (expenses, races, targets []string) {
	h.t.Helper()
	for i := range 5 {
		for kind, all := range map[string]*[]string{"expense": &expenses, "target": &targets} {
			id := fmt.Sprintf("%s-%d", kind, i)
			start(ctx, h, examples.Expense, id, examples.Claim{Cents: 10_000, Approvers: []string{"finance"}})
			*all = append(*all, id)
		}
		id := fmt.Sprint("race-", i)
		start(ctx, h, examples.Race, id, examples.Times{Hare: 600_000, Tortoise: 600_000})
		races = append(races, id)
	}
	start(ctx, h, examples.Chain, "chain", 1)
	start(ctx, h, examples.FanOut, "fanout", 20)
	start(ctx, h, examples.Race, "won", examples.Times{Hare: 1, Tortoise: 600_000}) // a hint
	h.runsHello(ctx, "hello")
	if _, err := h.Client.Workers(ctx); err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.Client.Describe(ctx, races[0]); err != nil {
		h.t.Fatal(err)
	}
	h.committed(slices.Concat(expenses, races, targets)...)
	return expenses, races, targets
}

// hello is an instance of the other tenant: its planned start, and the time of its result.
type hello struct {
	id        string
	at, ended time.Time
}

func (one *hello) took() time.Duration { return one.ended.Sub(one.at) }

// hellos starts instances at fixed intervals until over is closed, and for some time after that, waits for their results,
// and returns them in the order of their durations. The starts do not wait for earlier instances, and a duration includes the
// delay of a late start.
func (h *harness) hellos(ctx context.Context, name string, over <-chan struct{}, then time.Duration) (all []*hello) {
	h.t.Helper()
	var wg sync.WaitGroup
	until := time.Time{}
	for at := time.Now(); until.IsZero() || at.Before(until); at = at.Add(helloEvery) {
		select {
		case <-over:
			over, until = nil, time.Now().Add(then)
		case <-time.After(time.Until(at)):
		}
		one := &hello{id: fmt.Sprint(name, "-", len(all)), at: at}
		all = append(all, one)
		wg.Go(func() {
			run, err := client.Start(ctx, h.Client, examples.Hello, one.id, "Ada")
			if err == nil {
				_, err = run.Result(ctx)
			}
			if err != nil {
				h.t.Errorf("%s: %v", one.id, err)
			}
			one.ended = time.Now()
		})
	}
	wg.Wait()
	slices.SortFunc(all, func(a, b *hello) int { return cmp.Compare(a.took(), b.took()) })
	load, _ := os.ReadFile("/proc/loadavg")
	h.t.Logf("%d %ss: p50 %v, p99 %v, max %v; load %s", len(all), name, p50(all).Round(time.Millisecond),
		p99(all).Round(time.Millisecond), all[len(all)-1].took().Round(time.Millisecond), strings.TrimSpace(string(load)))
	return all
}

func p50(sorted []*hello) time.Duration { return sorted[len(sorted)/2].took() }
func p99(sorted []*hello) time.Duration { return sorted[len(sorted)*99/100].took() }

// logSteps logs the times of the steps of an instance, relative to its planned start.
func (h *harness) logSteps(slow *hello) {
	h.t.Helper()
	var steps []string
	if rec := h.Record(slow.id); rec != nil {
		steps = append(steps, fmt.Sprintf("created %d ms", rec.Created-slow.at.UnixMilli()))
	}
	for _, e := range h.History(slow.id, 1) {
		steps = append(steps, fmt.Sprintf("%T %d ms", e, e.Meta().At-slow.at.UnixMilli()))
	}
	h.t.Logf("%s: %s; result after %v", slow.id, strings.Join(steps, ", "), slow.took().Round(time.Millisecond))
}

// checkApproved sends a waiting instance its event, and checks that its history contains nothing else.
func (h *harness) checkApproved(ctx context.Context, id string) {
	h.t.Helper()
	if err := client.Send(ctx, h.Client, examples.Answered, id, examples.Verdict{By: "finance", Approved: true}); err != nil {
		h.t.Fatal(err)
	}
	got, err := client.Attach(h.Client, examples.Expense, id).Result(ctx)
	if err != nil || got != (examples.Verdict{By: "finance", Approved: true}) {
		h.t.Errorf("%s: %+v, %v", id, got, err)
	}
	h.checkEvents(id, map[history.Kind]int{
		history.KindStarted: 1, history.KindActivityScheduled: 1, history.KindActivityCompleted: 1, history.KindTimerScheduled: 1,
		history.KindEventReceived: 1, history.KindCompleted: 1,
	})
}

// checkUnchanged checks that an instance with running activities is unchanged.
func (h *harness) checkUnchanged(id string) {
	h.t.Helper()
	h.checkEvents(id, map[history.Kind]int{history.KindStarted: 1, history.KindActivityScheduled: 2})
}

func (h *harness) checkEvents(id string, want map[history.Kind]int) {
	h.t.Helper()
	got := map[history.Kind]int{}
	for _, e := range h.History(id, 1) {
		received, ok := e.(*history.EventReceived)
		if e.Kind() == history.KindObserved || ok && received.Name != examples.Answered.Name() { // a start may contain an event that is never received
			continue
		}
		got[e.Kind()]++
	}
	if !maps.Equal(got, want) {
		h.t.Errorf("%s has events %v, want %v", id, got, want)
	}
}
