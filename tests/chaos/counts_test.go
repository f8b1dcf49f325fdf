//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"maps"

	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/tests/chaos/verdict"
	"github.com/pawlrun/pawl/tests/chaos/work"
)

// checkCounts compares the results of counts and lists with the instances that the verdict has read one by one.
func (h *harness) checkCounts(ctx context.Context, c *client.Client, e verdict.Evidence) error {
	want := map[string]map[string]uint64{} // keyed by kind and status
	seen := map[string]bool{}
	for _, call := range e.Calls {
		if seen[call.ID] {
			continue
		}
		seen[call.ID] = true
		inst, err := e.Find(call.ID)
		if err != nil {
			return err
		}
		k := work.KindOf(call.ID)
		if !inst.Exists || k.Code == nil || k.Name == "tree" { // built-in, or with children of the same kind
			continue
		}
		if want[k.Name] == nil {
			want[k.Name] = map[string]uint64{}
		}
		want[k.Name][inst.Status]++
	}
	for name, statuses := range want {
		for _, where := range []string{"orchestration = " + name, fmt.Sprintf("id starts '%[1]s-' and orchestration = %[1]s", name)} {
			if err := h.count(ctx, c, name, where, statuses); err != nil {
				return err
			}
		}
	}
	return stillRunning(ctx, h, c)
}

func (h *harness) count(ctx context.Context, c *client.Client, name, where string, want map[string]uint64) error {
	n, err := retryRead(ctx, func() (client.Counts, error) {
		return c.Count(ctx, client.CountOptions{Where: where, By: "status"})
	})
	if err != nil {
		return fmt.Errorf("count %s: %w", where, err)
	}
	got := map[string]uint64{}
	for _, g := range n.Groups {
		got[g.Value] = g.Count
	}
	if !n.AtLeast && !maps.Equal(got, want) {
		h.violationf("%s: a count of %s returns %v, want %v", name, where, got, want)
		return nil
	}
	listed, err := retryRead(ctx, func() (map[string]uint64, error) {
		listed := map[string]uint64{}
		for s, err := range c.List(ctx, client.ListOptions{Where: where}) {
			if err != nil {
				return nil, err
			}
			listed[string(s.Status)]++
		}
		return listed, nil
	})
	if err != nil {
		return fmt.Errorf("list %s: %w", where, err)
	}
	if !maps.Equal(listed, want) {
		h.violationf("%s: a list of %s has %v, want %v", name, where, listed, want)
	}
	return nil
}

// stillRunning returns an error for instances that are running although all should have ended. Exempt are ballots without
// enough votes. After a rollback, a child of a lost turn may wait for a batch that was addressed to its predecessor: if the
// payload key was exchanged in between, the turn made another start of the same id when it was decided again.
func stillRunning(ctx context.Context, h *harness, c *client.Client) error {
	n, err := retryRead(ctx, func() (client.Counts, error) {
		return c.Count(ctx, client.CountOptions{Where: "status in (pending, running, paused)", By: "orchestration"})
	})
	if err != nil {
		return fmt.Errorf("count running instances: %w", err)
	}
	for _, g := range n.Groups {
		if g.Value == work.Ballot.Name() || g.Value == work.Bird.Name() && h.servers.rollback() {
			continue
		}
		h.violationf("%d instances of %q run although all have ended", g.Count, g.Value)
	}
	return nil
}
