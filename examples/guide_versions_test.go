package examples

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/doctest"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pawltest"
	"github.com/pawlrun/pawl/pkg/client"
)

// The code of docs/guide/versions.md.

func welcomes() []pawl.OrchestrationBinding {
	return []pawl.OrchestrationBinding{
		Welcome.Do(welcomeByLetter, pawl.Version("1")),
		Welcome.Do(welcomeByMail, pawl.Version("2")),
	}
}

// renewAsItWas is patch.go before the change.
func renewAsItWas(ctx *pawl.Context, c Contract) (Contract, error) {
	if err := pawl.Sleep(ctx, 365*24*time.Hour); err != nil {
		return c, err
	}
	_, err := Announce.Call(ctx, c, pawl.Retry{})
	return c, err
}

// renewWrongly is the change without pawl.Patched.
func renewWrongly(ctx *pawl.Context, c Contract) (Contract, error) {
	c, err := Reprice.Call(ctx, c, pawl.Retry{})
	if err != nil {
		return c, err
	}
	return renewAsItWas(ctx, c)
}

func TestGuideNewPriceFitsInstancesOfEveryTurn(t *testing.T) {
	for turn := 1; ; turn++ {
		env := pawltest.New(t, Renew.Do(renewAsItWas), Reprice.Do(reprice), Announce.Do(announce))
		env.AfterTurn(turn).Deploy(Renew.Do(renew))
		if _, err := pawltest.Run(env, Renew, Contract{ID: "c-1", Cents: 1000}); err != nil {
			t.Errorf("released after turn %d: %v", turn, err)
		}
		if env.Turns() < turn {
			break
		}
	}
}

func TestContractStallsWithIncompatibleCodeAndResumesWithCompatibleCode(t *testing.T) {
	nc, rdb := servers(t)
	stop := orchestrate(t, nc, rdb, Renew.Do(renewAsItWas))
	c := connect(t, nc)
	run, err := client.Start(t.Context(), c, Renew, "c-1", Contract{ID: "c-1", Cents: 100})
	if err != nil {
		t.Fatal(err)
	}
	is := func(what string, yes func(client.Description) bool) {
		t.Helper()
		poll.Until(t, soon, what, func() bool {
			d, err := c.Describe(t.Context(), "c-1")
			return err == nil && yes(d)
		})
	}
	is("the contract waits for its year", func(d client.Description) bool { return d.Timers == 1 })
	stop()

	stop = orchestrate(t, nc, rdb, Renew.Do(renewWrongly))
	if err := c.Cancel(t.Context(), "c-1", "a cancellation waits, too"); err != nil {
		t.Fatal(err)
	}
	is("it stalls", func(d client.Description) bool {
		return d.Status == client.Running && strings.Contains(d.Stalled, "history has TimerScheduled, and replay met ActivityScheduled of reprice")
	})
	stop()

	orchestrate(t, nc, rdb, Renew.Do(renew))
	if _, err := run.Result(t.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestCustomerKeepsTheVersionOfTheStart(t *testing.T) {
	nc, rdb := servers(t)
	stop := orchestrate(t, nc, rdb, welcomes()[0])
	work(t, nc, rdb)
	c := connect(t, nc)
	old, err := client.Start(t.Context(), c, Welcome, "ada", Customer{Name: "Ada"})
	if err != nil {
		t.Fatal(err)
	}
	version := func(id, want string) {
		t.Helper()
		poll.Until(t, soon, id+" has version "+want, func() bool {
			d, err := c.Describe(t.Context(), id)
			return err == nil && d.Version == want
		})
	}
	version("ada", "1")
	stop()
	orchestrate(t, nc, rdb, welcomes()...)
	young, err := client.Start(t.Context(), c, Welcome, "bob", Customer{Name: "Bob"})
	if err != nil {
		t.Fatal(err)
	}
	version("bob", "2")
	for _, id := range []string{"ada", "bob"} {
		if err := client.Send(t.Context(), c, Confirmed, id, pawl.None{}); err != nil {
			t.Fatal(err)
		}
	}
	if a, err := old.Result(t.Context()); a != (Answer{To: "send-letter", Confirmed: true}) || err != nil {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := young.Result(t.Context()); a != (Answer{To: "send-mail", Confirmed: true}) || err != nil {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestGuideVersionsPageShowsThisCode(t *testing.T) {
	doctest.RequireShown(t, doctest.Read(t, "../docs/guide/versions.md"), 3, doctest.Read(t, "guide_versions_test.go", "versions.go", "patch.go"))
}
