package examples

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/doctest"
	"github.com/pawlrun/pawl/pawltest"
	"github.com/pawlrun/pawl/pkg/client"
)

// The code of docs/guide/coming-from.md.

// Spending is a request.
type Spending struct {
	Cents int `json:"cents"`
}

var (
	Wallet    = pawl.NewOrchestration[int, pawl.None]("wallet")
	Spend     = pawl.NewUpdate[Spending, int]("spend") // answered with the balance
	ErrTooFew = pawl.NewError("wallet.too-few")
)

func wallet(ctx *pawl.Context, balance int) (pawl.None, error) {
	for range 200 {
		request, err := Spend.Next(ctx).Get(ctx)
		if err != nil {
			return pawl.None{}, err
		}
		if request.Input.Cents > balance {
			err = request.Reject(ctx, ErrTooFew)
		} else {
			balance -= request.Input.Cents
			err = request.Answer(ctx, balance)
		}
		if err != nil {
			return pawl.None{}, err
		}
	}
	return Wallet.ContinueAsNew(ctx, balance)
}

// spend sends a request to the instance and waits for its answer. A repeat of the id gets the same answer.
func spend(ctx context.Context, c *client.Client, wallet, id string, cents int) (balance int, _ error) {
	return client.Update(ctx, c, Spend, wallet, Spending{Cents: cents}, client.UpdateID(id))
}

// awaitWithin waits until cond holds, for at most d.
func awaitWithin(ctx *pawl.Context, d time.Duration, cond func() bool) (ok bool, err error) {
	met := pawl.Go(ctx, func(ctx *pawl.Context) (pawl.None, error) {
		return pawl.None{}, pawl.Await(ctx, cond)
	})
	first, err := pawl.Select(ctx, met, pawl.After(ctx, d)) // the loser is cancelled
	return err == nil && first == met, err
}

var (
	Batcher    = pawl.NewOrchestration[pawl.None, int]("batcher")
	Item       = pawl.NewEvent[string]("item")
	CloseBatch = pawl.NewEvent[pawl.None]("close")
	Store      = pawl.NewActivity[[]string, pawl.None]("store-batch")
)

// batcher stores items every minute, or ten at a time, until it is closed.
func batcher(ctx *pawl.Context, _ pawl.None) (stored int, err error) {
	var batch []string
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		_, err := Store.Call(ctx, batch, pawl.Retry{})
		stored, batch = stored+len(batch), nil
		return err
	}
	item, closed, tick := Item.Next(ctx), CloseBatch.Next(ctx), pawl.After(ctx, time.Minute)
	for {
		first, err := pawl.Any(ctx, item, tick, closed) // unlike Select, it cancels none
		switch {
		case err != nil:
			return stored, err
		case first == closed:
			return stored, flush()
		case first == tick:
			tick = pawl.After(ctx, time.Minute)
			err = flush()
		default:
			var name string
			if name, err = item.Get(ctx); err != nil {
				return stored, err
			}
			item = Item.Next(ctx)
			if batch = append(batch, name); len(batch) == 10 {
				err = flush()
			}
		}
		if err != nil {
			return stored, err
		}
	}
}

// mutex is held by one sibling of an orchestration at a time.
type mutex struct{ locked bool }

func (m *mutex) lock(ctx *pawl.Context) error {
	err := pawl.Await(ctx, func() bool { return !m.locked })
	if err == nil {
		m.locked = true
	}
	return err
}

func (m *mutex) unlock() { m.locked = false }

var (
	PublishPage = pawl.NewActivity[string, int]("publish-page")
	IndexPage   = pawl.NewActivity[string, int]("index-page")
)

// publish runs both activities, stops at the first error, and returns when both have ended.
func publish(ctx *pawl.Context, page string) (int, error) {
	var sum int
	err := pawl.Scope(ctx, func(ctx *pawl.Context) error {
		counts, err := pawl.AllOrFail(ctx, PublishPage.Start(ctx, page), IndexPage.Start(ctx, page))
		for _, n := range counts {
			sum += n
		}
		return err
	})
	return sum, err
}

func TestGuideRequestIsAnswered(t *testing.T) {
	c := fleets(t, Wallet.Do(wallet))
	if _, err := client.Start(t.Context(), c, Wallet, "wallet-ada", 100); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		id          string
		cents, left int
	}{{"r-1", 60, 40}, {"r-2", 41, -1}, {"r-2", 1, -1}, {"r-1", 40, 40}, {"r-3", 40, 0}} { // repeats are not carried out
		left, err := spend(t.Context(), c, "wallet-ada", x.id, x.cents)
		if x.left < 0 != errors.Is(err, ErrTooFew) || err == nil && left != x.left {
			t.Errorf("%+v: %d, %v", x, left, err)
		}
	}
}

func TestGuideAwaitEndsWithItsConditionOrItsTimeout(t *testing.T) {
	wait := pawl.NewOrchestration[time.Duration, bool]("await-within")
	for name, test := range map[string]struct {
		within time.Duration
		want   bool
	}{"met": {2 * time.Hour, true}, "timed out": {30 * time.Minute, false}} {
		t.Run(name, func(t *testing.T) {
			env := pawltest.New(t, wait.Do(func(ctx *pawl.Context, d time.Duration) (bool, error) {
				ready := false
				pawl.Go(ctx, func(ctx *pawl.Context) (pawl.None, error) {
					err := pawl.Sleep(ctx, time.Hour)
					ready = err == nil
					return pawl.None{}, err
				})
				return awaitWithin(ctx, d, func() bool { return ready })
			}))
			if got, err := pawltest.Run(env, wait, test.within); got != test.want || err != nil {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

func TestGuideBatcherStoresByTimeAndBySize(t *testing.T) {
	env := pawltest.New(t, Batcher.Do(batcher), Store.Do(func(context.Context, []string) (pawl.None, error) { return pawl.None{}, nil }))
	pawltest.Send(env.At(10*time.Second), Item, "one")
	for range 11 {
		pawltest.Send(env.At(90*time.Second), Item, "more")
	}
	pawltest.Send(env.At(100*time.Second), CloseBatch, pawl.None{})
	if n, err := pawltest.Run(env, Batcher, pawl.None{}); n != 12 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	env.WantLines(`store-batch ["one"]`, `store-batch ["more","more"`, `store-batch ["more"]`)
}

func TestGuideMutexIsHeldByOneSiblingAtATime(t *testing.T) {
	work := pawl.NewOrchestration[int, int]("locked-work")
	env := pawltest.New(t, work.Do(func(ctx *pawl.Context, siblings int) (int, error) {
		var m mutex
		held, most := 0, 0
		_, err := pawl.MapOrFail(ctx, siblings, make([]int, siblings), func(ctx *pawl.Context, _ int) (pawl.None, error) {
			if err := m.lock(ctx); err != nil {
				return pawl.None{}, err
			}
			defer m.unlock()
			held++
			defer func() { held-- }()
			most = max(most, held)
			return pawl.None{}, pawl.Sleep(ctx, time.Second)
		})
		return most, err
	}))
	if most, err := pawltest.Run(env, work, 5); most != 1 || err != nil {
		t.Errorf("%d, %v", most, err)
	}
}

func TestGuidePublishStopsAtTheFirstError(t *testing.T) {
	pages := pawl.NewOrchestration[string, int]("publish")
	env := pawltest.New(t, pages.Do(publish))
	broken := pawl.NewError("broken")
	env.Script(PublishPage, pawltest.Never())
	env.Script(IndexPage, pawltest.Fail(broken))
	if _, err := pawltest.Run(env, pages, "index"); !errors.Is(err, broken) {
		t.Error(err)
	}
	env.WantLines("ActivityCancelRequested")
}

func TestGuideRecipesPageShowsThisCode(t *testing.T) {
	doctest.RequireShown(t, doctest.Read(t, "../docs/guide/coming-from.md"), 6,
		doctest.Read(t, "guide_recipes_test.go", "guide_events_test.go", "guide_limits_test.go"))
}
