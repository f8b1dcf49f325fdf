package console_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/console"
	"github.com/pawlrun/pawl/internal/gateway"
	"github.com/pawlrun/pawl/pawltest/integration"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hostile is text that would be executed by a page that does not escape it.
const hostile = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>"'>{{.}}`

var (
	declined = pawl.NewError("shop.declined")
	approved = pawl.NewEvent[string]("approved")
	progress = pawl.NewStatus[string]()
	reserve  = pawl.NewActivity[string, string]("reserve-stock")
	quote    = pawl.NewActivity[string, string]("quote")
	debit    = pawl.NewActivity[string, string]("debit", pawl.Concurrency(1))
	charge   = pawl.NewActivity[string, string]("charge-card")
	fulfil   = pawl.NewOrchestration[string, string]("fulfil-order")
	ship     = pawl.NewOrchestration[string, string]("ship-parcel")
	settle   = pawl.NewOrchestration[string, string]("settle-invoice")
	pay      = pawl.NewOrchestration[string, string]("pay-card")
	long     = pawl.NewOrchestration[int, int]("long-history")
	wide     = pawl.NewOrchestration[int, int]("wide-fan-out")
	haggle   = pawl.NewOrchestration[string, string]("haggle")
	nest     = pawl.NewOrchestration[int, pawl.None]("nest", pawl.Concurrency(1))
	offer    = pawl.NewUpdate[string, string]("offer")
	decide   = pawl.NewUpdate[string, string]("decide")
	asking   = pawl.NewQuery[pawl.None, string]("asking")
)

func orchestrations() []pawl.Binding {
	return []pawl.Binding{
		fulfil.Do(func(ctx *pawl.Context, in string) (string, error) {
			if err := progress.Set(ctx, "waiting for approval"); err != nil {
				return "", err
			}
			hold, err := reserve.Call(ctx, in)
			if err != nil {
				return "", err
			}
			if _, err := ship.Call(ctx, in); err != nil {
				return "", err
			}
			if in != "lamp" {
				quote.Start(ctx, "tortoise") // the parent ends before its child
			}
			if _, err := approved.Receive(ctx); err != nil {
				return "", err
			}
			return "receipt of " + hold, nil
		}),
		ship.Do(func(_ *pawl.Context, in string) (string, error) { return in, nil }),
		settle.Do(func(ctx *pawl.Context, in string) (string, error) { return debit.Call(ctx, in) }),
		pay.Do(func(ctx *pawl.Context, in string) (string, error) {
			return charge.Call(ctx, in, pawl.Retry{Attempts: 2})
		}),
		haggle.Do(func(ctx *pawl.Context, price string) (string, error) {
			if err := asking.Handle(ctx, func(pawl.None) (string, error) { return price, nil }); err != nil {
				return "", err
			}
			for {
				u, err := offer.Next(ctx).Get(ctx)
				if err != nil {
					return "", err
				}
				if u.Input == "ask" { // a person decides
					d, err := decide.Next(ctx).Get(ctx)
					if err != nil {
						return "", err
					}
					return d.Input, errors.Join(d.Answer(ctx, "done"), u.Answer(ctx, "sold for "+d.Input))
				}
				if u.Input < price {
					err = u.Reject(ctx, fmt.Errorf("%s is too little", u.Input))
				} else {
					return u.Input, u.Answer(ctx, "sold for "+u.Input)
				}
				if err != nil {
					return "", err
				}
			}
		}),
		nest.Do(func(ctx *pawl.Context, deep int) (pawl.None, error) {
			if deep == 0 {
				return pawl.None{}, nil
			}
			return nest.Call(ctx, deep-1, pawl.ID(fmt.Sprint("nest-", deep-1)))
		}),
		wide.Do(func(ctx *pawl.Context, n int) (int, error) {
			for i := range n {
				quote.Start(ctx, fmt.Sprint("tortoise ", i))
			}
			_, err := approved.Receive(ctx)
			return n, err
		}),
		long.Do(func(ctx *pawl.Context, n int) (int, error) {
			for range n {
				if _, err := approved.Receive(ctx); err != nil {
					return 0, err
				}
			}
			return n, nil
		}),
	}
}

func activities() []pawl.ActivityBinding {
	untilCancelled := func(ctx context.Context, _ string) (string, error) { <-ctx.Done(); return "", ctx.Err() }
	return []pawl.ActivityBinding{
		reserve.Do(func(_ context.Context, in string) (string, error) { return in, nil }),
		charge.Do(func(_ context.Context, card string) (string, error) { return "", fmt.Errorf("%w: %s", declined, card) }),
		quote.Do(untilCancelled), debit.Do(untilCancelled),
	}
}

// harness is a fleet with a console.
type harness struct {
	testing.TB

	url    string
	client *client.Client
	nats   *nats.Conn
}

func newHarness(t testing.TB, a access.Policy) *harness {
	t.Helper()
	fleet := integration.Start(t, orchestrations()...)
	w, err := worker.New(worker.Config{NATS: fleet.NATS, Redis: fleet.Redis, Name: "w-1", Drain: time.Millisecond}, activities()...)
	check(t, err)
	check(t, w.Start(t.Context()))
	t.Cleanup(func() { check(t, w.Stop(context.WithoutCancel(t.Context()))) })
	srv := httptest.NewUnstartedServer(nil)
	handler := gateway.New(gateway.Config{
		Client: func() *client.Client { return fleet.Client }, Access: a,
		Faults: &console.Faults{Counts: func() console.FaultCounts { return console.FaultCounts{Instances: 21, Activities: 600} }, List: []console.Fault{
			{ID: "worker", Name: "Kill a worker", Text: "An additional worker is started, and killed while it runs activities.", Do: func(context.Context, *client.Client) (string, error) {
				return "w-2 (process 4711) was killed while it ran 6 activities.", nil
			}},
		}},
	})
	t.Cleanup(handler.Close)
	srv.Config = gateway.NewServer(handler, slog.New(slog.DiscardHandler))
	srv.Start()
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return &harness{TB: t, url: srv.URL, client: fleet.Client, nats: fleet.NATS}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// populate starts instances in every state. Entered texts contain text, or realistic values if it is empty.
func (h *harness) populate(text string) {
	h.Helper()
	entered := func(plain string) string { return cmp.Or(text, plain) }
	start := func(o pawl.Orchestration[string, string], id, in string) {
		_, err := client.Start(h.Context(), h.client, o, id, in, client.By("shop"))
		check(h.TB, err)
	}
	start(fulfil, "order-42", "lamp")
	start(fulfil, "order-43", "lamp")
	start(fulfil, "order-44", entered("lamp, gift-wrapped"))
	start(pay, "payment-7", entered("the card has expired"))
	for i, tenant := range []string{"acme", "zoo"} {
		_, err := h.client.StartRaw(h.Context(), ship.Name(), fmt.Sprintf("parcel-%d", i+1), history.Payload{Type: history.TypeJSON, Data: []byte(`"lamp"`)},
			client.Attributes(fmt.Sprintf(`{"tenant":%q,"pieces":%d}`, tenant, i+1)))
		check(h.TB, err)
	}
	_, err := h.client.StartRaw(h.Context(), "refund-order", "refund-7", history.Payload{}) // no orchestrator has registered it
	check(h.TB, err)
	start(settle, "invoice-1", "acme")
	h.status("invoice-1", client.Running)
	start(settle, "invoice-2", "acme")
	start(settle, "invoice-3", "acme")
	h.until("order-42 waits for its event", func(d client.Description) bool { return d.Events == 5 && len(d.Activities) == 0 }, "order-42")
	h.until("order-44 waits for its event", func(d client.Description) bool { return len(d.Activities) == 1 && d.Activities[0].Worker != "" }, "order-44")
	h.until("invoice-1 holds the limit", func(d client.Description) bool { return len(d.Activities) == 1 && d.Activities[0].Worker != "" }, "invoice-1")
	h.until("invoice-3 waits at the limit", func(d client.Description) bool { return len(d.LimitWaits) == 1 && d.LimitWaits[0].Position > 0 }, "invoice-3")
	check(h.TB, h.client.CreateSchedule(h.Context(), "invoices", client.Schedule{
		Times: client.Times{Cron: []string{"0 9 * * fri"}, Except: []client.Calendar{{Day: "24-26", Month: "dec"}}, Zone: "Europe/Zurich"},
		Start: &client.ScheduleStart{Orchestration: ship.Name(), Input: []byte(`"monthly"`)},
	}))
	check(h.TB, h.client.CreateSchedule(h.Context(), "back-up", client.Schedule{
		Times: client.Times{Cron: []string{"@every 6h"}}, Run: &client.Job{Activity: quote.Name()}, Paused: true, Note: entered("until the new disks are in"),
	}))
	check(h.TB, h.client.TriggerSchedule(h.Context(), "invoices"))
	_, err = h.client.RunRaw(h.Context(), reserve.Name(), "", "reserve-7", history.Payload{Type: history.TypeJSON, Data: []byte(`{"sku":"lamp","pieces":3}`)}, client.After(time.Hour))
	check(h.TB, err)
	_, err = h.client.StartBatch(h.Context(), "retry-declined", client.Batch{Verb: client.BatchRetry, Where: "code = bank.unreachable and ended > -2h", Reason: "the bank is up"}, client.By("ops"))
	check(h.TB, err)
	_, err = h.client.StartBatch(h.Context(), "note-invoices", client.Batch{Verb: client.BatchEvent, Event: "note", Where: "orchestration = settle-invoice and id starts invoice-", Rate: 1}, client.By("ops"))
	check(h.TB, err)
	if _, err = h.client.Pause(h.Context(), "note-invoices", client.Reason("month end"), client.By("ops")); err != nil {
		h.Log(err) // it has ended
	}
	h.until("the job waits", func(d client.Description) bool { return d.Timers == 1 }, "reserve-7")
	check(h.TB, h.client.Cancel(h.Context(), "order-44", entered("ordered twice"), client.By("ops")))
	h.status("order-44", client.Cancelled)
	h.status("payment-7", client.Failed)
}

func (h *harness) status(id string, want client.Status) {
	h.Helper()
	h.until(id+" is "+string(want), func(d client.Description) bool { return d.Status == want }, id)
}

func (h *harness) until(what string, done func(client.Description) bool, id string) {
	h.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); ; {
		if d, err := h.client.Describe(h.Context(), id); err == nil && done(d) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			h.Fatalf("not within a minute: %s", what)
		}
	}
}

// screens maps the name of a screenshot to its page.
var screens = map[string]string{
	"home": "/", "instances": "/instances?where=id+starts+order-+and+status+%3D+running", "instances-wrong": "/instances?where=status+is+failed", "instances-none": "/instances?where=id+%3D+nothing", "instance": "/instances/order-42", "instance-cancelled": "/instances/order-44",
	"instance-failed": "/instances/payment-7", "instance-waits": "/instances/invoice-3", "limits": "/limits", "limit": "/limits/debit", "policy": "/policies/action:debit",
	"workers": "/workers", "drain": "/workers/w-1/drain", "versions": "/versions", "updates": "/updates", "instances-columns": "/instances?where=id+starts+parcel-&view=Parcels", "stalled": "/stalled", "start": "/start", "send": "/instances/order-42/send", "cancel": "/instances/order-42/cancel",
	"purge": "/instances/order-42/purge", "clear": "/limits/debit/clear", "missing": "/instances/nothing-here", "faults": "/faults",
	"schedules": "/schedules", "schedule": "/schedules/invoices", "schedule-paused": "/schedules/back-up", "schedule-form": "/schedule?id=invoices", "backfill": "/schedules/invoices/backfill",
	"pause": "/instances/order-42/pause", "retry": "/instances/payment-7/retry", "rewind": "/instances/order-42/rewind?to=3", "update": "/instances/order-42/update?name=offer", "query": "/instances/order-42/query",
	"schedule-delete": "/schedules/invoices/delete", "run": "/run", "keys": "/keys", "tree": "/instances/order-42/tree", "job": "/instances/reserve-7",
	"pause-action": "/limits/debit/pause", "resume-action": "/limits/debit/resume", "import": "/import",
	"batches": "/batches", "batch": "/instances/note-invoices",
}

// tokens returns the tokens of three users.
func tokens(t testing.TB) *access.Tokens {
	t.Helper()
	all, err := access.ReadTokens(strings.NewReader("viewer-token-0123456789 viewer ada\noperator-token-01234567 operator bob\nadmin-token-01234567890 admin eve\n"))
	check(t, err)
	return all
}
