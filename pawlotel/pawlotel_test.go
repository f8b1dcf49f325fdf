package pawlotel_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/pawlotel"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const partitions = 4

var (
	tree   = pawl.NewOrchestration[int, string]("tree")
	leaf   = pawl.NewOrchestration[int, string]("leaf")
	grow   = pawl.NewActivity[string, string]("grow", pawl.Concurrency(1))
	block  = pawl.NewActivity[string, string]("block")
	rustle = pawl.NewEvent[string]("rustle")
)

// runTree runs a child, two activities that pass a limit one after the other, and an activity that it cancels.
func runTree(ctx *pawl.Context, n int) (string, error) {
	child := leaf.Start(ctx, n)
	first, second := grow.Start(ctx, "a"), grow.Start(ctx, "b")
	if _, err := child.Get(ctx); err != nil {
		return "", err
	}
	waiting := block.Start(ctx, "")
	if _, err := rustle.Receive(ctx); err != nil {
		return "", err
	}
	waiting.Cancel("not needed")
	for _, f := range []*pawl.Future[string]{first, second} {
		if _, err := f.Get(ctx); err != nil {
			return "", err
		}
	}
	return pawl.Instance(ctx).Headers.Get("tenant"), nil
}

func runLeaf(ctx *pawl.Context, _ int) (string, error) {
	return "", rustle.Send(ctx, pawl.Instance(ctx).Parent, "now")
}

// harness runs servers, and collects exported spans.
type harness struct {
	t     *testing.T
	ctx   context.Context
	nats  *nats.Conn
	redis redis.UniversalClient
	all   *tracetest.InMemoryExporter
}

// slowProcessor holds the first span that ends until it is released.
type slowProcessor struct {
	sdktrace.SpanProcessor
	first   sync.Once
	ended   chan struct{} // closed when the first span has ended
	release chan struct{} // closed by the test
	flushed chan struct{} // receives a value when the spans are to be exported
}

func (p *slowProcessor) OnEnd(s sdktrace.ReadOnlySpan) {
	p.first.Do(func() { close(p.ended); <-p.release })
	p.SpanProcessor.OnEnd(s)
}

func (p *slowProcessor) ForceFlush(ctx context.Context) error {
	select {
	case p.flushed <- struct{}{}:
	default:
	}
	return p.SpanProcessor.ForceFlush(ctx)
}

func newHarness(t *testing.T) *harness {
	srv := natstest.Start(t)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(stop)
	return &harness{t: t, ctx: ctx, nats: natstest.Dial(t, srv.ClientURL()), redis: redistest.Start(t).Client(t), all: tracetest.NewInMemoryExporter()}
}

func provider(to sdktrace.SpanExporter) *sdktrace.TracerProvider {
	return processed(sdktrace.NewSimpleSpanProcessor(to))
}

func processed(by sdktrace.SpanProcessor) *sdktrace.TracerProvider {
	return sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(by), sdktrace.WithIDGenerator(pawlotel.IDGenerator{}))
}

func (h *harness) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) orchestrate(to sdktrace.SpanExporter) *orchestrator.Orchestrator {
	h.t.Helper()
	return h.orchestrateBy(provider(to), partitions)
}

func (h *harness) orchestrateBy(p *sdktrace.TracerProvider, partitions int) *orchestrator.Orchestrator {
	h.t.Helper()
	tracer, err := pawlotel.NewTracer(p)
	h.must(err)
	o, err := orchestrator.New(orchestrator.Config{NATS: h.nats, Redis: h.redis, Partitions: partitions, ReconcileInterval: time.Second, Tracer: tracer}, tree.Do(runTree), leaf.Do(runLeaf))
	h.must(err)
	h.must(o.Start(h.ctx))
	return o
}

func (h *harness) work(to sdktrace.SpanExporter) *worker.Worker {
	h.t.Helper()
	w, err := worker.New(
		worker.Config{NATS: h.nats, Redis: h.redis, Interceptors: []worker.Interceptor{pawlotel.WorkerInterceptor(provider(to))}},
		grow.Do(func(ctx context.Context, in string) (string, error) {
			return in, errorUnless(baggage.FromContext(ctx).Member("user").Value() == "u-1" && pawl.Info(ctx).Headers.Get("tenant") == "acme", "no baggage")
		}),
		block.Do(func(ctx context.Context, _ string) (string, error) { <-ctx.Done(); return "", ctx.Err() }),
	)
	h.must(err)
	h.must(w.Start(h.ctx))
	return w
}

func errorUnless(ok bool, text string) error {
	if ok {
		return nil
	}
	return errors.New(text)
}

func (h *harness) client() *client.Client {
	h.t.Helper()
	c, err := client.New(h.ctx, h.nats, client.Options{Interceptors: []client.Interceptor{pawlotel.ClientInterceptor(provider(h.all))}})
	h.must(err)
	h.t.Cleanup(c.Close)
	return c
}

func (h *harness) start(c *client.Client, id string) *client.Instance[string] {
	h.t.Helper()
	b, err := baggage.Parse("user=u-1")
	h.must(err)
	run, err := client.Start(baggage.ContextWithBaggage(h.ctx, b), c, tree, id, 1, client.Header("Tenant", "acme"))
	h.must(err)
	return run
}

func (h *harness) ends(run *client.Instance[string]) {
	h.t.Helper()
	if got, err := run.Result(h.ctx); err != nil || got != "acme" {
		h.t.Fatalf("%s: %q, %v", run.ID(), got, err)
	}
}

// check reports spans whose parent is missing, and different spans with the same id.
func check(t *testing.T, all tracetest.SpanStubs) (byName map[string][]tracetest.SpanStub) {
	t.Helper()
	byID, byName := make(map[string]tracetest.SpanStub), make(map[string][]tracetest.SpanStub)
	same := cmp.Comparer(func(a, b tracetest.SpanStub) bool {
		return a.Name == b.Name && a.Parent.SpanID() == b.Parent.SpanID() && a.StartTime.Equal(b.StartTime) && a.EndTime.Equal(b.EndTime) &&
			fmt.Sprint(a.Attributes, a.Events, a.Links, a.Status) == fmt.Sprint(b.Attributes, b.Events, b.Links, b.Status)
	})
	for _, s := range all {
		id := s.SpanContext.SpanID().String()
		if was, ok := byID[id]; ok {
			if !cmp.Equal(was, s, same) {
				t.Errorf("two spans %s: %+v and %+v", id, was, s)
			}
			continue
		}
		byID[id] = s
		byName[s.Name] = append(byName[s.Name], s)
	}
	for _, s := range byID {
		if p, ok := byID[s.Parent.SpanID().String()]; s.Parent.IsValid() && !ok {
			t.Errorf("orphan: %s of %v", s.Name, s.Attributes)
		} else if ok && p.SpanContext.TraceID() != s.SpanContext.TraceID() {
			t.Errorf("%s is in another trace than its parent", s.Name)
		}
	}
	return byName
}

func TestOneStartLeadsToOneTraceWithoutOrphans(t *testing.T) {
	h := newHarness(t)
	o, w := h.orchestrate(h.all), h.work(h.all)
	c := h.client()
	h.ends(h.start(c, "t-1"))
	h.must(w.Stop(h.ctx)) // its live spans have ended
	h.must(o.Stop(h.ctx))
	spans := check(t, h.all.GetSpans())
	for name, n := range map[string]int{
		"start tree": 2, "start leaf": 1, "orchestration tree": 1, "orchestration leaf": 1, "child leaf": 1, "activity grow": 2, "activity block": 1, "limit grow": 1,
		"send rustle": 1, "receive rustle": 1, "queue grow": 2, "run grow": 2,
	} {
		if len(spans[name]) != n { // the client, too, has a span with the name of the start
			t.Errorf("%d spans %q, want %d", len(spans[name]), name, n)
		}
	}
	traces := make(map[string]bool)
	for _, all := range spans {
		for _, s := range all {
			traces[s.SpanContext.TraceID().String()] = true
		}
	}
	if len(traces) != 1 {
		t.Errorf("%d traces", len(traces))
	}
	if t.Failed() {
		for name, all := range spans {
			t.Log(name, len(all))
		}
		return
	}
	if links := spans["receive rustle"][0].Links; len(links) != 1 || links[0].SpanContext.SpanID() != spans["send rustle"][0].SpanContext.SpanID() {
		t.Errorf("links of the received event: %v", links)
	}
	if e := spans["activity block"][0].Events; len(e) != 1 || e[0].Name != "cancelled" || !e[0].Attributes[0].Valid() || e[0].Attributes[0].Key != attribute.Key("pawl.reason") {
		t.Errorf("events of the cancelled activity: %+v", e)
	}
}

// unclean leaves the partitions as a kill does.
func (h *harness) unclean(partitions int) {
	h.t.Helper()
	for p := range partitions {
		h.must(h.redis.HSet(h.ctx, "pawl:{default."+strconv.Itoa(p)+"}:p", "clean", "0").Err())
	}
}

// Trap: an owner that was killed has lost its spans, and the next one hands over before it has emitted them again.
func TestHandoverWaitsForTheSpansOfAKilledOwner(t *testing.T) {
	h := newHarness(t)
	lost := tracetest.NewInMemoryExporter()
	o := h.orchestrateBy(provider(lost), 1)
	w := h.work(lost)
	h.ends(h.start(h.client(), "t-1"))
	h.must(w.Stop(h.ctx))
	h.must(o.Stop(h.ctx))
	h.unclean(1)

	p := &slowProcessor{SpanProcessor: sdktrace.NewSimpleSpanProcessor(h.all), ended: make(chan struct{}), release: make(chan struct{}), flushed: make(chan struct{}, 1)}
	o = h.orchestrateBy(processed(p), 1)
	select {
	case <-p.ended:
	case <-h.ctx.Done():
		t.Fatal("no span is emitted again")
	}
	stopped := make(chan error, 1)
	go func() { stopped <- o.Stop(h.ctx) }()
	select {
	case <-p.flushed:
		t.Error("exported before all spans were emitted")
	case <-time.After(500 * time.Millisecond):
	}
	close(p.release)
	h.must(<-stopped)
	for name, n := range map[string]int{"start leaf": 1, "orchestration tree": 1, "orchestration leaf": 1, "activity grow": 2} {
		if got := len(check(t, h.all.GetSpans())[name]); got != n {
			t.Errorf("%d spans %q, want %d", got, name, n)
		}
	}
}

// TestSpansOfKilledOwnersAreEmittedAgainTheSame kills orchestrators whose exporters have unsent spans. In the end, the collector has received no
// span without its parent, and no two different spans with the same id.
func TestSpansOfKilledOwnersAreEmittedAgainTheSame(t *testing.T) {
	h := newHarness(t)
	h.must(h.orchestrate(h.all).Stop(h.ctx)) // creates the namespace
	w := h.work(h.all)
	c := h.client()
	for round := range 6 {
		lost := tracetest.NewInMemoryExporter()
		to := sdktrace.SpanExporter(h.all)
		if round%2 == 0 {
			to = lost
		}
		o := h.orchestrate(to)
		h.ends(h.start(c, "t-"+strconv.Itoa(round)))
		h.must(o.Stop(h.ctx))
		h.unclean(partitions)
		if to == lost && len(lost.GetSpans()) == 0 {
			t.Error("nothing was lost")
		}
	}
	h.must(w.Stop(h.ctx))
	spans := check(t, h.all.GetSpans())
	for name, n := range map[string]int{"start leaf": 6, "orchestration tree": 6, "activity grow": 12} {
		if len(spans[name]) != n {
			t.Errorf("%d spans %q, want %d", len(spans[name]), name, n)
		}
	}
}

func TestTracerNeedsItsIDGenerator(t *testing.T) {
	if _, err := pawlotel.NewTracer(sdktrace.NewTracerProvider()); !errors.Is(err, pawlotel.ErrIDGenerator) {
		t.Errorf("error %v", err)
	}
	if tracer, err := pawlotel.NewTracer(noop.NewTracerProvider()); tracer != nil || err != nil {
		t.Errorf("%v, %v", tracer, err)
	}
}
