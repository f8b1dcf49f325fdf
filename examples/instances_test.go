package examples

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/pawltest"
	"github.com/pawlrun/pawl/pkg/client"
)

// The examples with more than one instance, execution or version.

func TestEveryKindOfOrchestrationHasAnExample(t *testing.T) {
	registry, err := author.NewRegistry(all()...)
	if err != nil {
		t.Fatal(err)
	}
	for kind, name := range map[string]string{
		"hello": Hello.Name(), "order": Fulfil.Name(), "fan-out and fan-in": FanOut.Name(), "timer with reminder": Collect.Name(),
		"human approval": Expense.Name(), "children": Ship.Name(), "their orchestration": Parcel.Name(), "endless": Counter.Name(),
		"race with cancellation": Race.Name(), "retries": FetchReport.Name(), "versions": Welcome.Name(), "patch": Renew.Name(), "tenant": Tenant.Name(),
		"limits": Bill.Name(),
	} {
		if _, ok := registry.Requested(name, ""); !ok {
			t.Errorf("%s: %s is not registered", kind, name)
		}
	}
	if v := registry.Versions(Welcome.Name()); !slices.Equal(v, []string{"2", "1"}) {
		t.Errorf("versions %q", v)
	}
}

func TestRecalledParcelIsReturnedAndTheOthersArrive(t *testing.T) {
	env := pawltest.New(t, all()...)
	env.Instance("s-1")
	at := env.At(24 * time.Hour)
	for _, n := range []int{0, 4, 2} { // there is neither a parcel 0 nor a parcel 4
		pawltest.Send(at, Recall, n)
	}
	pawltest.Send(env.At(48*time.Hour).To("s-1:1"), Arrived, Delivery{To: "Ada"})
	pawltest.Send(env.At(72*time.Hour).To("s-1:3"), Arrived, Delivery{To: "Bob"})
	got, err := pawltest.Run(env, Ship, Shipment{Parcels: []string{"book", "lamp", "vase"}})
	if fmt.Sprint(got) != "{[1 3] [2]}" || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	env.Of("s-1:2").WantLines("24h0m0s CancelRequested requested by s-1: recalled", `ActivityScheduled bring-back {"content":"lamp"}`, "Cancelled")
}

func TestLostParcelFailsTheOrderAndCancelsTheOthers(t *testing.T) {
	env := pawltest.New(t, all()...)
	env.Instance("s-1")
	pawltest.Send(env.At(time.Hour).To("s-1:1"), Arrived, Delivery{To: "Ada"})
	env.Script(HandOver, pawltest.Succeed().Times(2), pawltest.Succeed().After(24*time.Hour))
	_, err := pawltest.Run(env, Ship, Shipment{Parcels: []string{"book", "lamp", "vase"}})
	if !errors.Is(err, ErrLost) || env.Now().Day() != 6 {
		t.Errorf("%v at %s", err, env.Now())
	}
	env.Advance(time.Minute)
	if _, err := pawltest.Result(env.Of("s-1:3"), Parcel); !errors.Is(err, context.Canceled) {
		t.Errorf("the third parcel: %v", err)
	}
	env.Of("s-1:3").WantLines("ActivityScheduled bring-back", "Cancelled")
}

func TestCancelledOrderReturnsItsParcels(t *testing.T) {
	env := pawltest.New(t, all()...)
	env.Instance("s-1")
	env.Blocked().Cancel("Ada", "changed her mind")
	if _, err := pawltest.Run(env, Ship, Shipment{Parcels: []string{"book", "lamp"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	env.Advance(time.Minute)
	for _, id := range []string{"s-1:1", "s-1:2"} {
		env.Of(id).WantLines("CancelRequested", "ActivityScheduled bring-back", "Cancelled")
	}
}

func TestParcelThatWasNotHandedOverIsNotReturned(t *testing.T) {
	env := pawltest.New(t, all()...)
	env.Script(HandOver, pawltest.Fail(errors.New("no carrier")).Times(0))
	if _, err := pawltest.Run(env, Parcel, Box{Content: "book"}); err == nil || err.Error() != "no carrier" {
		t.Errorf("%v", err)
	}
}

func TestCounterLosesNothingWhereverItContinuesAsNew(t *testing.T) {
	env := pawltest.New(t, all()...)
	const n = 2*AddsAnExecution + 50
	for i := 1; i <= n; i++ {
		pawltest.Send(env.BeforeStart(), Add, i)
	}
	pawltest.Send(env.Blocked(), pawl.NewEvent[string](Add.Name()), "not a number")
	pawltest.Send(env.Blocked(), Add, 1)
	env.Blocked().Cancel("Ada", "enough")
	if _, err := pawltest.Run(env, Counter, Tally{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	env.Execution(2).WantLines(`Started counter {"sum":5050,"adds":100}`, `ContinuedAsNew {"sum":20100,"adds":200}`)
	seen := pawltest.Statuses(env, Counted)
	if last := seen[len(seen)-1]; last != (Tally{Sum: n*(n+1)/2 + 1, Adds: n + 1}) {
		t.Errorf("%+v", last)
	}
}

func TestTenantIsAccountedForAndItsSumIsForwarded(t *testing.T) {
	env := pawltest.New(t, all()...)
	env.Instance("acme")
	pawltest.Start(env.At(time.Hour).To(AllTenants), Counter, Tally{}) // after the first report to it
	for range ReportsAnExecution + 10 {
		pawltest.Send(env.BeforeStart(), Used, Usage{Units: 3})
	}
	pawltest.Send(env.Blocked(), pawl.NewEvent[string](Used.Name()), "nonsense")
	pawltest.Send(env.At(2*time.Hour), Used, Usage{Units: 5})
	pawltest.Send(env.At(2*time.Hour), Close, pawl.None{})
	pawltest.Send(env.At(2*time.Hour), Used, Usage{Units: 100}) // too late
	got, err := pawltest.Run(env, Tenant, Account{})
	want := Account{Units: 185, Reports: ReportsAnExecution + 11}
	if got != want || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if books := pawltest.Statuses(env, Books); books[len(books)-1] != want {
		t.Errorf("%+v", books)
	}
	env.Advance(time.Minute)
	sums := pawltest.Statuses(env.Of(AllTenants), Counted)
	if last := sums[len(sums)-1]; last != (Tally{Sum: 185, Adds: 2}) {
		t.Errorf("%+v", sums)
	}
}

func TestTenantWithoutReportsForwardsNothing(t *testing.T) {
	env := pawltest.New(t, all()...)
	pawltest.Send(env.BeforeStart(), Close, pawl.None{})
	if got, err := pawltest.Run(env, Tenant, Account{}); got != (Account{}) || err != nil || len(env.Sent()) != 0 {
		t.Errorf("%+v, %v, %q", got, err, env.Sent())
	}
}

func TestFirstReportStartsTheAccountAndARepeatCountsOnce(t *testing.T) {
	c := fleets(t)
	if _, err := client.Start(t.Context(), c, Counter, AllTenants, Tally{}); err != nil {
		t.Fatal(err)
	}
	for i := range 2*ReportsAnExecution + 1 {
		for range 2 { // the sender of a report cannot distinguish a lost report from a lost reply
			if err := reportUsage(t.Context(), c, "acme", fmt.Sprint("report-", i), Usage{Units: 2}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := client.Send(t.Context(), c, Close, "acme", pawl.None{}); err != nil {
		t.Fatal(err)
	}
	want := Account{Units: 4*ReportsAnExecution + 2, Reports: 2*ReportsAnExecution + 1}
	if got, err := client.Attach(c, Tenant, "acme").Result(t.Context()); got != want || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	for at, err := range client.WatchStatus(t.Context(), c, Counted, AllTenants) {
		if err != nil {
			t.Fatal(err)
		}
		if at.Value == (Tally{Sum: want.Units, Adds: 3}) {
			break
		}
	}
}

func TestCustomerIsWelcomedByTheirVersion(t *testing.T) {
	for _, c := range []struct {
		version pawl.Version
		at      time.Duration
		want    Answer
	}{
		{"1", time.Hour, Answer{To: "send-letter", Confirmed: true}},
		{"2", time.Hour, Answer{To: "send-mail", Confirmed: true}},
		{"", 72 * time.Hour, Answer{To: "send-letter", Confirmed: true}}, // the newest
		{"1", 15 * 24 * time.Hour, Answer{To: "send-letter"}},
		{"2", 17 * 24 * time.Hour, Answer{To: "send-letter"}},
	} {
		env := pawltest.New(t, all()...)
		env.Version(c.version)
		pawltest.Send(env.At(c.at), Confirmed, pawl.None{})
		if got, err := pawltest.Run(env, Welcome, Customer{Name: "Ada"}); got != c.want || err != nil {
			t.Errorf("version %q, confirmed after %s: %+v, %v", c.version, c.at, got, err)
		}
	}
	env := pawltest.New(t, all()...)
	env.Script(Mail, pawltest.Fail(errors.New("no such address")).Times(0))
	if _, err := pawltest.Run(env, Welcome, Customer{Name: "Ada"}); err == nil || err.Error() != "no such address" {
		t.Errorf("%v", err)
	}
}

func TestContractIsRepricedUnlessItWasRenewedBeforeTheChange(t *testing.T) {
	if got, err := end(t, Renew, Contract{ID: "c-1", Cents: 1000}); got.Cents != 1030 || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	env := pawltest.New(t, Renew.Do(renewAsItWas), Announce.Do(announce))
	env.At(time.Hour).Deploy(Renew.Do(renew))
	if got, err := pawltest.Run(env, Renew, Contract{ID: "c-1", Cents: 1000}); got.Cents != 1000 || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	env = pawltest.New(t, all()...)
	env.Script(Reprice, pawltest.Fail(errors.New("no index")).Times(0))
	if _, err := pawltest.Run(env, Renew, Contract{}); err == nil || env.Now().Day() != 1 {
		t.Errorf("%v at %s", err, env.Now())
	}
}
