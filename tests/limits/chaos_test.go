package limits

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pkg/client"
)

// Random operations are applied to many concurrent instances, while orchestrators die and are restarted. All instances must end, no
// member may be left at a limit, and every caller must be counted once.
func TestConcurrentOperationsLeaveNoMember(t *testing.T) {
	t.Parallel()
	a := newHarness(t, 3, settings{})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c := chaos{harness: a, rnd: rand.New(rand.NewPCG(seed, 1))}
	const n = 200
	for i := range n {
		c.begin(fmt.Sprintf("chaos-%d", i))
		c.disturb()
		if i%25 == 24 {
			p := a.fleets[i/25%len(a.fleets)]
			p.Kill()
			p.Start()
		}
	}
	poll.Until(t, within, "every instance has ended", func() bool { return c.running() == 0 })
	for _, name := range slices.Concat(actionsOfChaos(), hallsOfChaos(), []string{"keyed/red", "keyed/blue"}) {
		s := a.awaitStats(name, "no member is left", func(s limiter.Stats) bool { return s.QueueLength == 0 && s.Active == 0 })
		if s.TotalEnqueued != s.TotalCompleted+s.Withdrawn+s.TimedOut+s.Cleared {
			t.Errorf("%s: %+v", name, s)
		}
		for _, err := range a.limits.Check(a.ctx, name) {
			t.Errorf("invariant broken: %v", err)
		}
	}
	a.check()
}

type chaos struct {
	*harness
	rnd *rand.Rand
	ids []string
}

func actionsOfChaos() []string {
	return []string{"three", "busy", "keyed", "full", "late", "kept", "rejecting"}
}
func hallsOfChaos() []string { return []string{"hall", "annex", "late-hall", "rejecting-hall"} }

func (c *chaos) yes() bool { return c.rnd.IntN(2) == 0 }

// begin starts an instance with random calls, some of which fail.
func (c *chaos) begin(id string) {
	c.ids = append(c.ids, id)
	if c.rnd.IntN(4) == 0 {
		c.stay(pick(c, hallsOfChaos()), id, Stay{Again: c.rnd.IntN(2)})
		return
	}
	crowd := Crowd{
		Action: pick(c, actionsOfChaos()), Retry: 1 + c.rnd.IntN(3), Pause: c.upTo(50), Keep: c.yes(), Limited: c.yes(),
		Within:  pick(c, []time.Duration{0, 0, 0, 500 * time.Millisecond}),
		Attempt: pick(c, []time.Duration{0, 0, 0, 300 * time.Millisecond}),
	}
	for range 1 + c.rnd.IntN(4) {
		crowd.Visits = append(crowd.Visits, Visit{Key: pick(c, []string{"", "red", "blue"}), Fails: uint32(c.rnd.IntN(3)), Dwell: c.upTo(30)})
	}
	c.visit(id, crowd)
}

// disturb sometimes cancels or purges an instance, or changes or clears a limit.
func (c *chaos) disturb() {
	id, name := pick(c, c.ids), pick(c, actionsOfChaos())
	switch c.rnd.IntN(24) {
	case 0, 1, 2, 3:
		c.must(c.client.Cancel(c.ctx, id, "no longer needed"))
	case 4, 5:
		if err := c.client.Purge(c.ctx, id, client.Force()); err != nil && !errors.Is(err, client.ErrNotFound) {
			c.Fatal(err)
		}
	case 6:
		c.must(c.client.SetPolicy(c.ctx, "action:"+name, client.Policy{Concurrency: 1 + c.rnd.Uint32N(3)}))
	case 7:
		if _, err := c.client.ClearQueue(c.ctx, name, ""); err != nil && !errors.Is(err, client.ErrNotFound) {
			c.Fatal(err)
		}
	}
}

func (c *chaos) upTo(ms int) time.Duration { return time.Duration(1+c.rnd.IntN(ms)) * time.Millisecond }

func pick[T any](c *chaos, from []T) T { return from[c.rnd.IntN(len(from))] }

// running returns the number of instances that have not ended, or -1 while a partition does not answer. A pending instance may begin to run
// between the two lists.
func (c *chaos) running() (n int) {
	for _, status := range []client.Status{client.Pending, client.Running} {
		for _, err := range c.client.List(c.ctx, client.ListOptions{Status: status}) {
			if err != nil {
				return -1
			}
			n++
		}
	}
	return n
}
