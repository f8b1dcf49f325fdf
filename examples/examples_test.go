package examples

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/pawltest"
	"github.com/pawlrun/pawl/pkg/cancel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// all lists what fleets load with --examples.
func all() []pawl.Binding {
	var all []pawl.Binding
	for _, o := range Orchestrations() {
		all = append(all, o)
	}
	for _, a := range Activities() {
		all = append(all, a)
	}
	return all
}

func TestExamplesHaveUniqueNames(t *testing.T) {
	if _, err := author.NewRegistry(all()...); err != nil {
		t.Error(err)
	}
}

// end runs the orchestration that is bound in the registry.
func end[In, Out any](t *testing.T, o pawl.Orchestration[In, Out], in In) (Out, error) {
	t.Helper()
	return pawltest.Run(pawltest.New(t, all()...), o, in)
}

func TestSmallExamplesReturnTheirResults(t *testing.T) {
	if got, err := end(t, Hello, "Ada"); got != "Hello, Ada!" || err != nil {
		t.Errorf("hello: %q, %v", got, err)
	}
	if got, err := end(t, Chain, 7); got != 7+ChainLength || err != nil {
		t.Errorf("chain: %d, %v", got, err)
	}
	for n, want := range map[int]int{-1: 0, 0: 0, 1: 0, 100: 328350} {
		if got, err := end(t, FanOut, n); got != want || err != nil {
			t.Errorf("fanout %d: %d, %v", n, got, err)
		}
	}
	if got, err := end(t, Burst, Pieces{Count: 20, Millis: 100}); got != 20 || err != nil {
		t.Errorf("burst: %d, %v", got, err)
	}
	if got, err := end(t, Burst, Pieces{Count: 1 << 40}); err == nil {
		t.Errorf("a burst without a bound: %d", got)
	}
	if got, err := end(t, FanOut, 1<<40); err == nil {
		t.Errorf("a fanout without a bound: %d", got)
	}
	if got, err := end(t, Race, Times{Hare: 1, Tortoise: 60_000}); got != "race-hare after 1 ms" || err != nil {
		t.Errorf("race: %q, %v", got, err)
	}
	env := pawltest.New(t, all()...)
	pawltest.Send(env.At(time.Hour), Poke, "now")
	if got, err := pawltest.Run(env, Wait, pawl.None{}); got != "now" || err != nil {
		t.Errorf("event: %q, %v", got, err)
	}
}

func TestApprovedOrderIsCharged(t *testing.T) {
	env := pawltest.New(t, all()...)
	pawltest.Send(env.Blocked(), Approved, Approval{By: "finance"})
	got, err := pawltest.Run(env, Fulfil, Order{ID: "42", Quantity: 1, Cents: 990})
	if err != nil || got.Order != "42" || got.Cents != 990 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFailedOrderReleasesItsStockAndReturnsTheCause(t *testing.T) {
	approved := func(m pawltest.Moment) { pawltest.Send(m, Approved, Approval{By: "finance"}) }
	for _, c := range []struct {
		what  string
		order Order
		then  func(pawltest.Moment)
		want  error
	}{
		{"out of stock", Order{Quantity: 101}, nil, ErrOutOfStock},
		{"not approved", Order{Quantity: 1}, nil, ErrNotApproved},
		{"declined", Order{Quantity: 1, Cents: 100_001}, approved, ErrCardDeclined},
		{"approved by nonsense", Order{Quantity: 1}, func(m pawltest.Moment) { pawltest.Send(m, pawl.NewEvent[int](Approved.Name()), 1) }, pawl.ErrUndecodable},
		{"cancelled", Order{Quantity: 1}, func(m pawltest.Moment) { m.Cancel("Ada", "changed her mind") }, context.Canceled},
	} {
		env := pawltest.New(t, all()...)
		if c.then != nil {
			c.then(env.Blocked())
		}
		if _, err := pawltest.Run(env, Fulfil, c.order); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.what, err)
		}
		if c.want != ErrOutOfStock {
			env.WantLines("ActivityScheduled release-stock", "ActivityCompleted")
		}
	}
}

func TestDownloadIsRetriedUntilItSucceedsOrFailsPermanently(t *testing.T) {
	if got, err := end(t, FetchReport, Fetch{Report: "q3", Outages: 2}); got != "q3, at attempt 3" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := end(t, FetchReport, Fetch{Report: "q3", Outages: 9}); err == nil || err.Error() != "the server is away" {
		t.Errorf("%v", err)
	}
	env := pawltest.New(t, all()...)
	if _, err := pawltest.Run(env, FetchReport, Fetch{}); !errors.Is(err, ErrNoSuchReport) || env.Now().Second() != 0 {
		t.Errorf("%v at %s", err, env.Now())
	}
}

func TestInvoiceIsCollectedOrWrittenOff(t *testing.T) {
	const day = 24 * time.Hour
	in := Invoice{ID: "i-1", Intervals: []time.Duration{14 * day, 7 * day, 7 * day}}
	env := pawltest.New(t, all()...)
	pawltest.Send(env.At(15*day), Paid, Payment{Cents: 990})
	if got, err := pawltest.Run(env, Collect, in); got.Cents != 990 || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	env.WantLines("336h0m0s ActivityScheduled remind", "360h0m0s EventReceived paid", "TimerCancelled", "Completed")

	env = pawltest.New(t, all()...)
	if _, err := pawltest.Run(env, Collect, in); !errors.Is(err, ErrUnpaid) || env.Now().Format(time.DateOnly) != "2026-01-29" {
		t.Errorf("%v at %s", err, env.Now())
	}
}

func TestExpenseIsDecidedByARequestedApprover(t *testing.T) {
	in := Claim{Cents: 10_000, Approvers: []string{"Ada", "Bob"}}
	for _, c := range []struct {
		at   time.Duration
		by   string
		want string
	}{
		{time.Hour, "Ada", "Ada"},
		{60 * time.Hour, "Ada", "Ada"}, // late, but Ada was asked
		{60 * time.Hour, "Bob", "Bob"},
		{time.Hour, "Bob", ""}, // Bob is not asked yet, and this verdict does not count later either
	} {
		env := pawltest.New(t, all()...)
		pawltest.Send(env.At(c.at), Answered, Verdict{By: c.by, Approved: true})
		got, err := pawltest.Run(env, Expense, in)
		if got.By != c.want || (c.want == "") != errors.Is(err, ErrUndecided) {
			t.Errorf("%s after %s: %+v, %v", c.by, c.at, got, err)
		}
	}
	if got, err := end(t, Expense, Claim{Cents: 5_000}); got.By != "no approver" || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFirstGoodOfferCancelsTheOthers(t *testing.T) {
	env := pawltest.New(t, all()...)
	env.Script(Quote, pawltest.Succeed().After(3*time.Second), pawltest.Succeed().After(2*time.Second), pawltest.Never())
	got, err := pawltest.Run(env, Buy, Request{Suppliers: []string{"expensive", "good", "silent"}, Limit: 4})
	if got.Supplier != "good" || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	env.WantLines("2s ActivityCompleted", "2s ActivityCancelRequested of 2: scope-ended", "2s Completed")

	if got, err := end(t, Buy, Request{Suppliers: []string{"expensive", "cheaper"}, Limit: 4}); got.Supplier != "cheaper" || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := end(t, Buy, Request{Suppliers: []string{""}, Limit: 4}); !errors.Is(err, ErrNoOffer) {
		t.Errorf("%v", err)
	}
}

func TestContestantThatIsCancelledStops(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	lost := &cancel.Cancelled{Reason: cancel.LostSelect}
	stop(lost)
	if _, err := run(ctx, 60_000); !errors.Is(err, lost) {
		t.Errorf("%v", err)
	}
}
