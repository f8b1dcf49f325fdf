package crash

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/tests/crash/work"
	"github.com/pawlrun/pawl/tests/stack"
)

// collector receives the spans that processes export.
type collector struct {
	t   *testing.T
	url string

	mu      sync.Mutex
	spans   map[string]*trace.Span // keyed by id
	repeats int                    // spans that were received again with the same content
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{t: t, spans: make(map[string]*trace.Span)}
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	c.url = srv.URL
	return c
}

// ServeHTTP receives an export, unless it was cut short by a kill.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var export collect.ExportTraceServiceRequest
	if err != nil || proto.Unmarshal(body, &export) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range export.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.add(s)
			}
		}
	}
}

func (c *collector) add(s *trace.Span) {
	id := hex.EncodeToString(s.GetSpanId())
	was, again := c.spans[id]
	switch {
	case !again:
		c.spans[id] = s
	case proto.Equal(was, s):
		c.repeats++
	default:
		c.t.Errorf("two spans have the id %s: %v and %v", id, was, s)
	}
}

// check returns the number of spans by name, and the orphans.
func (c *collector) check() (named map[string]int, orphans []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	named = make(map[string]int)
	for id, s := range c.spans {
		named[s.GetName()]++
		if len(s.GetParentSpanId()) == 0 {
			continue
		}
		parent, ok := c.spans[hex.EncodeToString(s.GetParentSpanId())]
		if !ok || string(parent.GetTraceId()) != string(s.GetTraceId()) {
			orphans = append(orphans, fmt.Sprintf("span %s has no parent in its trace: %v", id, s))
		}
	}
	return named, orphans
}

// TestSpansHaveParentsAndOneContentAcrossKills kills orchestrators and workers that export spans. In the end each span in
// the collector has its parent, no id has two contents, and every instance has its start and its end. PAWL_TRACE_KILLS is
// the number of kills.
func TestSpansHaveParentsAndOneContentAcrossKills(t *testing.T) {
	t.Parallel()
	kills := 5
	if text := os.Getenv("PAWL_TRACE_KILLS"); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	c := newCollector(t)
	a := newHarness(t, startServers(t), "OTEL_EXPORTER_OTLP_ENDPOINT="+c.url, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_BSP_SCHEDULE_DELAY=3000")
	all := []*stack.Process{
		a.orchestrator("orchestrator-1"), a.worker("worker-1"), a.orchestrator("orchestrator-2"), a.worker("worker-2"),
	}
	a.join()
	for i := range kills {
		a.begin(2)
		select { // while some are running, and their spans are not exported yet
		case <-a.mixed[max(0, len(a.mixed)-4)].received:
		case <-time.After(400 * time.Millisecond):
		}
		p := all[(i+i/len(all))%len(all)]
		p.Kill()
		p.Start()
	}
	a.end()
	a.started()
	poll.Until(t, within, "the successors of killed owners have emitted their spans again", func() bool { // this is not part of the end of an instance
		named, orphans := c.check()
		return len(orphans) == 0 && named["start "+work.Mixed.Name()] == len(a.mixed) && named["orchestration "+work.Mixed.Name()] == len(a.mixed)
	})
	for _, p := range all {
		p.Stop() // exports the remaining spans
	}
	named, orphans := c.check()
	t.Logf("%d kills, %d instances, %d spans, %d of them exported again: %v", kills, len(a.mixed), len(c.spans), c.repeats, named)
	for _, text := range orphans {
		t.Error(text)
	}
}
