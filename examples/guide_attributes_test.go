package examples

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/doctest"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pawltest/integration"
	"github.com/pawlrun/pawl/pkg/client"
)

// The code of docs/guide/attributes.md.

var (
	Dispatch   = pawl.NewOrchestration[int, pawl.None]("dispatch")
	Dispatched = pawl.NewEvent[pawl.None]("dispatched")
	Buyer      = pawl.NewAttribute[string]("customer")
	Items      = pawl.NewAttribute[int]("items")
	Due        = pawl.NewAttribute[time.Time]("due")
	Late       = pawl.NewAttribute[bool]("late")
)

func dispatch(ctx *pawl.Context, items int) (pawl.None, error) {
	if err := Items.Set(ctx, items); err != nil {
		return pawl.None{}, err
	}
	if err := Late.Set(ctx, items > 10); err != nil {
		return pawl.None{}, err
	}
	_, err := Dispatched.Receive(ctx)
	return pawl.None{}, err
}

func dispatchOrder(ctx context.Context, c *client.Client, id, tenant string, items int, due time.Time) error {
	_, err := client.Start(ctx, c, Dispatch, id, items, client.With(Buyer.Is(tenant)), client.With(Due.Is(due)))
	return err
}

func overdue(ctx context.Context, c *client.Client) (ids []string, _ error) {
	for s, err := range c.List(ctx, client.ListOptions{Where: `orchestration = dispatch and customer in (acme, globex) and due < -1h`}) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, s.Instance)
	}
	return ids, nil
}

func openOrders(ctx context.Context, c *client.Client) (map[string]uint64, error) {
	n, err := c.Count(ctx, client.CountOptions{Where: "status = running", By: "customer"})
	if err != nil {
		return nil, err
	}
	orders := make(map[string]uint64)
	for _, g := range n.Groups {
		orders[g.Value] = g.Count
	}
	return orders, nil
}

// An instance is found by its attributes as set by the start and the code, and by no other values.
func TestInstancesAreFoundByAttributes(t *testing.T) {
	t.Parallel()
	fleet := integration.Start(t, Dispatch.Do(dispatch))
	c, ctx := fleet.Client, t.Context()
	past := time.Now().Add(-2 * time.Hour)
	for id, o := range map[string]struct {
		tenant string
		items  int
		due    time.Time
	}{"s-1": {"acme", 5, past}, "s-2": {"globex", 20, past}, "s-3": {"acme", 30, past.Add(24 * time.Hour)}, "s-4": {"initech", 5, past}} {
		if err := dispatchOrder(ctx, c, id, o.tenant, o.items, o.due); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.Send(ctx, c, Dispatched, "s-2", pawl.None{}); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, time.Minute, "s-2 has completed", func() bool {
		d, err := c.Describe(ctx, "s-2")
		return err == nil && d.Status == client.Completed
	})
	for _, id := range []string{"s-1", "s-3", "s-4"} { // once they are known to wait, their first turn is committed
		waits(t, c, id)
	}
	ids, err := overdue(ctx, c)
	if slices.Sort(ids); err != nil || !slices.Equal(ids, []string{"s-1", "s-2"}) {
		t.Errorf("overdue: %v, %v", ids, err)
	}
	for where, want := range map[string][]string{
		"late = true":                                   {"s-2", "s-3"},
		"late = true and status = running":              {"s-3"},
		"items >= 20 and customer = globex":             {"s-2"},
		"items = 5 and id starts s-":                    {"s-1", "s-4"},
		`customer != acme and orchestration = dispatch`: {"s-2", "s-4"},
		`other = "" and items > 25`:                     {"s-3"},
		"customer starts in":                            {"s-4"},
		"customer = acme and late = x":                  nil,
	} {
		var got []string
		for s, err := range c.List(ctx, client.ListOptions{Where: where}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, s.Instance)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", where, got, want)
		}
	}
	if open, err := openOrders(ctx, c); err != nil || !maps.Equal(open, map[string]uint64{"acme": 2, "initech": 1}) {
		t.Errorf("open orders: %v, %v", open, err)
	}
	n, err := c.Count(ctx, client.CountOptions{Where: "items > 10", By: "late"})
	if err != nil || n.Count != 2 || n.AtLeast || n.Other != 0 || len(n.Groups) != 1 || n.Groups[0] != (client.Group{Value: "true", Count: 2}) {
		t.Errorf("orders of many items: %+v, %v", n, err)
	}
	d, err := c.Describe(ctx, "s-2")
	if want := `{"customer":"globex","due":{"time":"` + past.UTC().Format("2006-01-02T15:04:05.000Z") + `"},"items":20,"late":true}`; err != nil || d.Attributes != want {
		t.Errorf("%s, %v, want %s", d.Attributes, err, want)
	}
	_, err = client.Start(ctx, c, Dispatch, "s-5", 1, client.With(pawl.NewAttribute[string]("status").Is("x")))
	if !errors.Is(err, pawl.ErrBadAttribute) {
		t.Errorf("a reserved name: %v", err)
	}
}

// waits waits until an instance waits for its event.
func waits(t *testing.T, c *client.Client, id string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if d, err := c.Describe(t.Context(), id); err == nil && d.Events > 0 {
			return
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal(id)
		}
	}
}

func TestGuideAttributesPageShowsThisCode(t *testing.T) {
	doctest.RequireShown(t, doctest.Read(t, "../docs/guide/attributes.md"), 3, doctest.Read(t, "guide_attributes_test.go"))
}
