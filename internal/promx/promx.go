// Package promx contains the Prometheus metrics that orchestrators and workers share: the namespace label, buckets, exemplars, the build,
// round trips to the servers, and the counters of a connection. docs/metrics.md lists all metrics. The package is separate from package
// queue, so that clients need not link Prometheus.
package promx

import (
	"context"
	"encoding/hex"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl/internal/build"
	"github.com/pawlrun/pawl/pkg/history"
)

// Other is the label value for names beyond those that Names permits.
const Other = "other"

// Buckets returns the upper bounds of latencies, in seconds: from 1 ms to 10 min.
func Buckets() []float64 {
	return []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600}
}

// Sizes returns the upper bounds of sizes, in bytes: from 256 B to 16 MiB.
func Sizes() []float64 { return prometheus.ExponentialBuckets(256, 4, 9) }

// Namespace returns a registerer that adds the label namespace to every metric. A nil registerer registers nothing.
func Namespace(reg prometheus.Registerer, namespace string) prometheus.Registerer {
	return prometheus.WrapRegistererWith(prometheus.Labels{"namespace": namespace}, reg)
}

// Build returns pawl_build_info, whose value is 1, for a role of the process.
func Build(role string) prometheus.Collector {
	b := build.Read()
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pawl_build_info", Help: "Build of the process; the value is 1.",
		ConstLabels: prometheus.Labels{"role": role, "version": b.Version, "revision": b.Revision, "goversion": b.Go},
	}, func() float64 { return 1 })
}

// Exemplar returns the exemplar of measurements of an instance: the id of its trace. For an instance without spans it returns nil, and
// allocates nothing.
func Exemplar(h history.Headers) prometheus.Labels {
	from, _, ok := h.Trace()
	if !ok {
		return nil
	}
	return prometheus.Labels{"trace_id": hex.EncodeToString(from.Trace[:])}
}

// Observe adds a value to a histogram, with an exemplar unless that is nil.
func Observe(histogram prometheus.Observer, v float64, exemplar prometheus.Labels) {
	if to, ok := histogram.(prometheus.ExemplarObserver); ok && exemplar != nil {
		to.ObserveWithExemplar(v, exemplar)
		return
	}
	histogram.Observe(v)
}

// Names bounds the number of values of a label. Permitted are the given names and the first other names up to a maximum; all further names
// are Other. It is safe for concurrent use.
type Names struct {
	mu    sync.Mutex
	known map[string]bool
	room  int
}

// NewNames returns Names that permits the given names and room others.
func NewNames(room int, names ...string) *Names {
	n := &Names{known: make(map[string]bool, len(names)), room: room}
	for _, name := range names {
		n.known[name] = true
	}
	return n
}

// Of returns the name if it is permitted, and otherwise Other.
func (n *Names) Of(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.known[name] {
		if n.room == 0 {
			return Other
		}
		n.room--
		n.known[name] = true
	}
	return name
}

// RoundTrips measures requests to a server.
type RoundTrips struct {
	seconds prometheus.Histogram
	errors  prometheus.Counter
}

// NewRoundTrips returns pawl_<server>_round_trip_seconds and pawl_<server>_errors_total for a role of the process.
func NewRoundTrips(server, title, role string) *RoundTrips {
	labels := prometheus.Labels{"role": role}
	return &RoundTrips{
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pawl_" + server + "_round_trip_seconds", Help: "Round trips to " + title + ".", Buckets: Buckets(), ConstLabels: labels,
		}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pawl_" + server + "_errors_total", Help: "Round trips to " + title + " that had no reply.", ConstLabels: labels,
		}),
	}
}

// Observe measures one round trip.
func (r *RoundTrips) Observe(took time.Duration, failed bool) {
	r.seconds.Observe(took.Seconds())
	if failed {
		r.errors.Inc()
	}
}

// Describe implements prometheus.Collector.
func (r *RoundTrips) Describe(ch chan<- *prometheus.Desc) {
	r.seconds.Describe(ch)
	r.errors.Describe(ch)
}

// Collect implements prometheus.Collector.
func (r *RoundTrips) Collect(ch chan<- prometheus.Metric) {
	r.seconds.Collect(ch)
	r.errors.Collect(ch)
}

const (
	probeEvery   = 15 * time.Second
	probeTimeout = 2 * time.Second
)

// ProbeNATS measures a round trip every 15 s until ctx ends.
func (r *RoundTrips) ProbeNATS(ctx context.Context, nc *nats.Conn) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		begin := time.Now()
		flush, stop := context.WithTimeout(ctx, probeTimeout)
		err := nc.FlushWithContext(flush)
		stop()
		if ctx.Err() == nil {
			r.Observe(time.Since(begin), err != nil)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
