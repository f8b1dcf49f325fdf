package pawlotel_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/gateway"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pawlotel"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

var measured = pawl.NewOrchestration[int, string]("measured")

// runMeasured waits for a timer and at a limit, and runs an activity that ends when it is cancelled.
func runMeasured(ctx *pawl.Context, _ int) (string, error) {
	first, second := grow.Start(ctx, "a"), grow.Start(ctx, "b")
	if err := errors.Join(pawl.Sleep(ctx, time.Millisecond), errorOf(first.Get(ctx)), errorOf(second.Get(ctx))); err != nil {
		return "", err
	}
	return block.Start(ctx, "").Get(ctx)
}

func errorOf(_ string, err error) error { return err }

// exemplar is a bucket of a histogram with an exemplar: the metric and the trace.
var exemplar = regexp.MustCompile(`(?m)^(pawl_[a-z_]+)_bucket\{[^}]*\} \d+ # \{trace_id="([0-9a-f]{32})"\} `)

// scrape returns the traces by metric, as Prometheus reads them.
func scrape(reg *prometheus.Registry) map[string]string {
	r, w := httptest.NewRequest(http.MethodGet, "/metrics", nil), httptest.NewRecorder()
	r.Header.Set("Accept", "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;q=0.5")
	gateway.New(gateway.Config{Metrics: reg}).ServeHTTP(w, r)
	traces := make(map[string]string)
	for _, m := range exemplar.FindAllStringSubmatch(w.Body.String(), -1) {
		traces[m[1]] = m[2]
	}
	return traces
}

func TestMeasurementsOfSampledInstancesHaveTheirTrace(t *testing.T) {
	h := newHarness(t)
	reg, running, log := prometheus.NewRegistry(), make(chan struct{}), new(bytes.Buffer)
	tracer, err := pawlotel.NewTracer(provider(h.all))
	h.must(err)
	o, err := orchestrator.New(orchestrator.Config{NATS: h.nats, Redis: h.redis, Partitions: partitions, Tracer: tracer, Metrics: reg}, measured.Do(runMeasured))
	h.must(err)
	h.must(o.Start(h.ctx))
	w, err := worker.New(worker.Config{NATS: h.nats, Redis: h.redis, Metrics: reg, Logger: slog.New(slog.NewTextHandler(log, nil))},
		grow.Do(func(_ context.Context, in string) (string, error) { return in, nil }),
		block.Do(func(ctx context.Context, _ string) (string, error) {
			close(running)
			<-ctx.Done()
			return "", ctx.Err()
		}))
	h.must(err)
	h.must(w.Start(h.ctx))
	c := h.client()
	run, err := client.Start(h.ctx, c, measured, "m-1", 1)
	h.must(err)
	select {
	case <-running:
	case <-h.ctx.Done():
		t.Fatal("the activity has not started")
	}
	h.must(c.Cancel(h.ctx, "m-1", ""))
	if _, err := run.Result(h.ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}

	all := []string{
		"pawl_orchestrator_turn_seconds", "pawl_orchestrator_commit_seconds", "pawl_orchestrator_turn_bytes", "pawl_orchestrator_timer_lateness_seconds",
		"pawl_limit_wait_seconds", "pawl_worker_activity_schedule_to_start_seconds", "pawl_worker_activity_start_to_end_seconds",
		"pawl_worker_cancellation_seconds", "pawl_worker_cancellation_return_seconds",
	}
	trace := h.all.GetSpans()[0].SpanContext.TraceID().String() // there is one instance, and so one trace
	var missing string
	defer func() { t.Log("last without its trace:", missing) }()
	poll.Until(t, time.Minute, "each histogram has an exemplar", func() bool { // the worker measures after the result
		traces := scrape(reg)
		for _, name := range all {
			if traces[name] != trace {
				missing = name
				return false
			}
		}
		return true
	})
	h.must(w.Stop(h.ctx))
	h.must(o.Stop(h.ctx))
	if !regexp.MustCompile(`msg="activity stopped, result dropped" worker=\S+ activity=block of="activity \d+ of m-1 \(execution 1\)" trace_id=` + trace).Match(log.Bytes()) {
		t.Errorf("the line of the cancelled activity has no trace:\n%s", log)
	}
}

// An instance that a schedule starts receives the headers and the trace of the schedule.
func TestScheduledInstanceHasTheHeadersOfItsSchedule(t *testing.T) {
	h := newHarness(t)
	tracer, err := pawlotel.NewTracer(provider(h.all))
	h.must(err)
	who := pawl.NewOrchestration[int, string]("who")
	got := make(chan history.Headers, 1)
	o, err := orchestrator.New(orchestrator.Config{NATS: h.nats, Redis: h.redis, Partitions: partitions, Tracer: tracer}, who.Do(func(ctx *pawl.Context, _ int) (string, error) {
		select {
		case got <- pawl.Instance(ctx).Headers:
		default: // a replay
		}
		return "", nil
	}))
	h.must(err)
	h.must(o.Start(h.ctx))
	c := h.client()
	action, err := client.NewScheduleStart(who, 1)
	h.must(err)
	h.must(c.CreateSchedule(h.ctx, "daily", client.Schedule{Times: client.Times{Cron: []string{"0 0 1 1 *"}}, Start: action}, client.Header("Tenant", "acme")))
	h.must(c.TriggerSchedule(h.ctx, "daily"))
	select {
	case headers := <-got:
		from, _, ok := headers.Trace()
		if trace := hex.EncodeToString(from.Trace[:]); headers.Get("tenant") != "acme" || !ok || trace != h.all.GetSpans()[0].SpanContext.TraceID().String() {
			t.Errorf("headers %q", headers)
		}
	case <-h.ctx.Done():
		t.Fatal("the schedule starts nothing")
	}
	h.must(o.Stop(h.ctx))
}
