package pawl_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestLimitOptionsSetTheirFieldsOfThePolicy(t *testing.T) {
	got := must(author.Policy(
		pawl.Concurrency(5), pawl.Rate(100, time.Second), pawl.Quota(1_000_000, 24*time.Hour),
		pawl.KeyBy("customer.id"), pawl.QueueLimit(7), pawl.QueueTimeout(time.Minute), pawl.Reject()))
	want := history.Policy{
		Concurrency: 5, Rate: 100, RateWindow: 1000, Quota: 1_000_000, QuotaWindow: 86_400_000,
		Key: "customer.id", QueueLimit: 7, QueueTimeout: 60_000, Reject: true,
	}
	if got != want {
		t.Errorf("%+v", got)
	}
	if got := must(author.Policy[pawl.LimitOption]()); got != (history.Policy{}) {
		t.Errorf("no options: %+v", got)
	}
	if got := must(author.Policy(pawl.Concurrency(5), pawl.Concurrency(6))); got.Concurrency != 6 {
		t.Errorf("two options of one kind: %+v", got)
	}
	if got := must(author.Policy(pawl.Concurrency(1), pawl.QueueTimeout(-time.Hour))); got.QueueTimeout != -1 {
		t.Errorf("forever: %+v", got)
	}
	if got := must(author.Policy(pawl.Rate(1, 1500*time.Microsecond), pawl.QueueTimeout(1))); got.RateWindow != 2 || got.QueueTimeout != 1 {
		t.Errorf("rounded up: %+v", got)
	}
}

func TestInvalidLimitNamesTheOptionAndItsRule(t *testing.T) {
	for _, c := range []struct {
		option pawl.LimitOption
		want   string
	}{
		{pawl.Concurrency(0), "Concurrency(0): 1 to 2147483647 may run at a time; leave the option out for any number"},
		{pawl.Concurrency(-3), "Concurrency(-3): "},
		{pawl.Rate(0, time.Second), "Rate(0, 1s): at least 1"},
		{pawl.Rate(50_000, time.Second), "Rate(50000, 1s): at most 10000 are admitted in a window, because their times are stored; use a smaller window, such as Rate(5000, 100ms)"},
		{pawl.Rate(2_000_000, time.Second), "such as Rate(2000, 1ms)"},
		{pawl.Rate(1, time.Microsecond), "Rate(1, 1µs): the window is at least 1ms"},
		{pawl.Rate(1, 11*365*24*time.Hour), "the window is at most ten years"},
		{pawl.Quota(0, time.Hour), "Quota(0, 1h0m0s): at least 1"},
		{pawl.Quota(math.MaxInt, time.Hour), "at most 9007199254740992"},
		{pawl.Quota(1, 999*time.Millisecond), "Quota(1, 999ms): the window is at least 1s; use Rate for shorter ones"},
		{pawl.Quota(1, 11*365*24*time.Hour), "the window is at most ten years"},
		{pawl.KeyBy(""), `KeyBy(""): a path is names of fields`},
		{pawl.KeyBy("a..b"), `KeyBy("a..b"): `},
		{pawl.KeyBy(".a"), `KeyBy(".a"): `},
		{pawl.KeyBy("a."), `KeyBy("a."): `},
		{pawl.KeyBy(strings.Repeat("x", 201)), "at most 200 bytes, this has 201"},
		{pawl.QueueLimit(0), "QueueLimit(0): 1 to 2147483647 may wait; use Reject() if none may"},
		{pawl.QueueTimeout(0), "QueueTimeout(0): it must be positive, or negative to wait forever; use Reject() if no call may wait"},
		{pawl.QueueTimeout(11 * 365 * 24 * time.Hour), "at most ten years"},
	} {
		_, err := author.Policy(pawl.Concurrency(1), c.option, pawl.Reject())
		var bad *pawl.LimitError
		if !errors.Is(err, pawl.ErrBadLimit) || !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), "pawl: bad limit ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v\nnot %s", err, c.want)
		}
	}
}

func TestAcceptedLimitOptionsMakeAValidPolicy(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(-2, 12_000), rapid.Int()).Draw(rt, "n")
		d := time.Duration(rapid.OneOf(rapid.Int64Range(-1e9, 1e10), rapid.Int64()).Draw(rt, "d"))
		path := rapid.OneOf(rapid.StringMatching(`[ab.]{0,6}`), rapid.StringN(150, 220, 220)).Draw(rt, "path")
		for _, o := range []pawl.LimitOption{
			pawl.Concurrency(n), pawl.Rate(n, d), pawl.Quota(n, d), pawl.KeyBy(path), pawl.QueueLimit(n), pawl.QueueTimeout(d), pawl.Reject(),
		} {
			alone, _ := author.Policy(pawl.Concurrency(1))
			p, err := author.Policy(pawl.Concurrency(1), o)
			switch {
			case err != nil && !errors.Is(err, pawl.ErrBadLimit):
				rt.Fatalf("%v", err)
			case err != nil:
			case p == alone && n != 1:
				rt.Fatal("the option sets no field")
			case p.Validate() != nil:
				rt.Fatalf("%+v: %v", p, p.Validate())
			}
		}
	})
}

func TestInvalidLimitIsTheErrorOfEveryUse(t *testing.T) {
	bad := pawl.NewActivity[int, int]("bad", pawl.Concurrency(0))
	badGroup := pawl.NewActivity[int, int]("bad-group", pawl.Group("payments", pawl.Rate(0, time.Second)))
	badOrchestration := pawl.NewOrchestration[int, int]("bad", pawl.KeyBy(""), pawl.Concurrency(1))
	_, a := author.Input(bad).Encode(1)
	_, g := author.Input(badGroup).Encode(1)
	_, o := author.Input(badOrchestration).Encode(1)
	errs := []error{a, g, o}
	for _, b := range []pawl.Binding{bad.Do(nil), badGroup.Do(nil), badOrchestration.Do(nil)} {
		_, err := author.NewRegistry(b)
		errs = append(errs, err)
	}
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (pawl.None, error) {
		_, call := bad.Call(ctx, 1)
		_, child := badOrchestration.Call(ctx, 1)
		errs = append(errs, call, child)
		return pawl.None{}, nil
	}, pawl.None{})
	r.End()
	for i, err := range errs {
		if !errors.Is(err, pawl.ErrBadLimit) {
			t.Errorf("use %d: %v", i, err)
		}
	}
	for want, err := range map[string]error{
		`activity "bad": pawl: bad limit Concurrency(0): `:                    a,
		`activity "bad-group": group payments: pawl: bad limit Rate(0, 1s): `: g,
		`orchestration "bad": pawl: bad limit KeyBy(""): `:                    o,
	} {
		if !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v\nnot %s", err, want)
		}
	}
	for _, name := range []string{"", "no spaces"} {
		if _, err := author.Input(pawl.NewActivity[int, int]("a", pawl.Group(name))).Encode(1); !errors.Is(err, pawl.ErrBadName) {
			t.Errorf("group %q: %v", name, err)
		}
	}
}

func TestOptionsWithoutALimitAreRejected(t *testing.T) {
	group := pawl.Group("payments", pawl.Concurrency(1))
	for want, o := range map[string]pawl.LimitOption{
		`KeyBy("tenant")`: pawl.KeyBy("tenant"), "QueueLimit(5)": pawl.QueueLimit(5), "QueueTimeout": pawl.QueueTimeout(time.Second), "Reject()": pawl.Reject(),
	} {
		_, activity := author.Input(pawl.NewActivity[int, int]("a", group, o)).Encode(1)
		_, orchestration := author.Input(pawl.NewOrchestration[int, int]("o", group, o)).Encode(1)
		_, inGroup := author.Input(pawl.NewActivity[int, int]("a", pawl.Group("g", o))).Encode(1)
		_, global := author.Policy(o)
		for i, err := range []error{activity, orchestration, inGroup, global} {
			if !errors.Is(err, pawl.ErrBadLimit) || !strings.Contains(err.Error(), "pawl: bad limit "+want+": it has no effect by itself") {
				t.Errorf("%d: %v, not %s", i, err, want)
			}
		}
	}
}

func TestLimitsOfAHandleAreRecordedWithItsCalls(t *testing.T) {
	payments := pawl.Group("payments", pawl.Rate(100, time.Second))
	charge := pawl.NewActivity[int, int]("charge", pawl.Queue("bank"), pawl.Concurrency(5), payments, pawl.KeyBy("id"))
	refund := pawl.NewActivity[int, int]("refund", pawl.Group("payments"))
	plain := pawl.NewActivity[int, int]("plain")
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (pawl.None, error) {
		charge.Start(ctx, 1, pawl.KeepSlot())
		refund.Start(ctx, 1)
		plain.Start(ctx, 1)
		_, err := plain.Call(ctx, 1, pawl.KeepSlot())
		return pawl.None{}, err
	}, pawl.None{})
	lim := func(event int) *history.Limit { return r.History[event-1].(*history.ActivityScheduled).Limit }
	if g := lim(2); g == nil || *g.Declared.Action != (history.Policy{Concurrency: 5, Key: "id"}) || g.Declared.Group != "payments" ||
		*g.Declared.GroupPolicy != (history.Policy{Rate: 100, RateWindow: 1000}) || !g.Retain {
		t.Errorf("%+v", g)
	}
	if g := lim(3); g == nil || g.Declared != (history.Declared{Group: "payments"}) || g.Retain {
		t.Errorf("%+v", g)
	}
	if g := lim(4); g != nil {
		t.Errorf("a limit without a policy: %+v", g)
	}
	if g := lim(5); g == nil || *g != (history.Limit{Retain: true}) {
		t.Errorf("%+v", g)
	}
	r.CheckReplay()

	fulfil := pawl.NewOrchestration[int, int]("fulfil", pawl.Concurrency(3), payments).Do(nil)
	if d := author.OrchestrationOf(fulfil).Declared; *d.Action != (history.Policy{Concurrency: 3}) || d.Group != "payments" || d.GroupPolicy == nil {
		t.Errorf("%+v", d)
	}
	if d := author.OrchestrationOf(pawl.NewOrchestration[int, int]("free").Do(nil)).Declared; d != (history.Declared{}) {
		t.Errorf("%+v", d)
	}
	if d := author.OrchestrationOf(pawl.NewOrchestration[int, int]("moved", payments, pawl.Group("others")).Do(nil)).Declared; d != (history.Declared{Group: "others"}) {
		t.Errorf("of two groups: %+v", d)
	}
}

func TestRejectionByALimitIsFinalUnlessRetryLimited(t *testing.T) {
	charge := pawl.NewActivity[int, int]("charge", pawl.Concurrency(1))
	for _, refusal := range []*pawl.Error{pawl.ErrQueueFull, pawl.ErrQueueTimeout, pawl.ErrQueueCleared, pawl.ErrLimited} {
		for _, limited := range []bool{false, true} {
			t.Run(refusal.Code(), func(t *testing.T) {
				r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (int, error) {
					return charge.Call(ctx, 1, pawl.Retry{Attempts: 3, Limited: limited})
				}, pawl.None{})
				r.Limit("charge", false)
				refuse(r.Driver, charge, refusal)
				if !limited {
					var f *pawl.Failure
					if err := r.failure(); !errors.Is(err, refusal) || !errors.As(err, &f) {
						t.Errorf("%v", err)
					}
					return
				}
				r.Fire()
				r.Grant(r.Only("charge"))
				answer(r.Driver, charge, 7)
				if got := r.result(); got != 7 {
					t.Errorf("%d", got)
				}
			})
		}
	}
}

func TestWaitingOrchestrationRunsNoCode(t *testing.T) {
	limited := pawl.NewOrchestration[pawl.None, string]("test", pawl.Concurrency(1))
	d := replaytest.New(t, author.Program(limited.Do(func(ctx *pawl.Context, _ pawl.None) (string, error) {
		return pawl.Now(ctx).Format(time.TimeOnly), pawl.Err(ctx)
	})), replay.Options{Strict: true})
	d.Limit("test", false)
	d.Start(history.Payload{})
	d.Advance(time.Minute)
	d.Grant(1)
	end, ok := d.End().(*history.Completed)
	if !ok {
		t.Fatalf("%+v", d.End())
	}
	if got := must(author.Result(limited).Decode(end.Result)); got != "22:14:20" {
		t.Errorf("it began at %s, want the time of its admission", got)
	}
	d.CheckReplay()
}
