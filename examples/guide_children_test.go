package examples

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/doctest"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pkg/client"
)

// The code of docs/guide/children.md.

var (
	Settle  = pawl.NewOrchestration[Month, int]("settle")
	Branch  = pawl.NewOrchestration[string, int]("settle-branch")
	Archive = pawl.NewOrchestration[int, pawl.None]("archive")
)

type Month struct {
	Name     string   `json:"name"`
	Branches []string `json:"branches"`
}

func settle(ctx *pawl.Context, m Month) (int, error) {
	totals, err := pawl.Map(ctx, 10, m.Branches, func(ctx *pawl.Context, branch string) (int, error) {
		return Branch.Call(ctx, branch, pawl.ID(branch+":"+m.Name), pawl.Within(time.Hour))
	})
	if errors.Is(err, pawl.ErrIDTaken) {
		return 0, fmt.Errorf("another instance settles %s: %w", m.Name, err)
	}
	if err != nil {
		return 0, err
	}
	sum := 0
	for _, total := range totals {
		sum += total
	}
	return sum, Archive.StartDetached(ctx, "archive:"+m.Name, sum)
}

func settleBranch(_ *pawl.Context, branch string) (int, error) { return len(branch), nil }

func archive(ctx *pawl.Context, _ int) (pawl.None, error) {
	return pawl.None{}, pawl.Sleep(ctx, time.Millisecond)
}

func TestGuideMonthIsSettledAndArchived(t *testing.T) {
	c := fleets(t, Settle.Do(settle), Branch.Do(settleBranch), Archive.Do(archive))
	month := Month{Name: "2026-10", Branches: []string{"Ulm", "Jena"}}
	run, err := client.Start(t.Context(), c, Settle, "settle:2026-10", month)
	if err != nil {
		t.Fatal(err)
	}
	if sum, err := run.Result(t.Context()); sum != 7 || err != nil {
		t.Errorf("%d, %v", sum, err)
	}
	poll.Until(t, soon, "the month is archived", func() bool {
		d, err := c.Describe(t.Context(), "archive:2026-10")
		return err == nil && d.Status == client.Completed && d.Parent == ""
	})
	again, err := client.Start(t.Context(), c, Settle, "settle-again:2026-10", month)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Result(t.Context()); !errors.Is(err, pawl.ErrIDTaken) {
		t.Errorf("%v", err)
	}
}

func TestGuideChildrenPageShowsThisCode(t *testing.T) {
	doctest.RequireShown(t, doctest.Read(t, "../docs/guide/children.md"), 3, doctest.Read(t, "guide_children_test.go", "parcels.go"))
}
