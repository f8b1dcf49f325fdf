package worker

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl/pkg/lease"
)

// metrics are the counters of one worker.
type metrics struct {
	registerer   prometheus.Registerer // nil: none
	collectors   []prometheus.Collector
	claims       map[lease.Outcome]prometheus.Counter
	unclaimed    prometheus.Counter
	unregistered prometheus.Counter
	byActivity   map[string]*activityMetrics
}

// activityMetrics count the ends of one activity's claims. Completed and failed are
// counted after the ack; cancelled and lost are no failures of anything. An abandoned one
// is counted as that alone, whatever its context was done for.
type activityMetrics struct {
	completed, failed, cancelled, lost, returned, abandoned prometheus.Counter
	seconds                                                 prometheus.Observer
}

func newMetrics(reg prometheus.Registerer, w *Worker) (*metrics, error) {
	tasks := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pawl_worker_tasks_total",
		Help: "Tasks delivered, by what became of them: the answer of the claim, unclaimed (no answer), or unregistered (no such activity here).",
	}, []string{"outcome"})
	ends := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pawl_worker_activities_total",
		Help: "Activities that ended: completed, failed (both acked), cancelled, lost (the lease), returned (the worker stopped), abandoned (its grace was over).",
	}, []string{"activity", "outcome"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "pawl_worker_activity_seconds",
		Help:    "How long the functions of activities ran.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 10), // 1 ms to 4 min
	}, []string{"activity"})
	m := &metrics{
		registerer: reg, claims: make(map[lease.Outcome]prometheus.Counter), byActivity: make(map[string]*activityMetrics),
		unclaimed: tasks.WithLabelValues("unclaimed"), unregistered: tasks.WithLabelValues("unregistered"),
	}
	for o, word := range map[lease.Outcome]string{
		lease.Acquired: "yours", lease.Held: "held", lease.Exhausted: "exhausted", lease.Gone: "gone",
	} {
		m.claims[o] = tasks.WithLabelValues(word)
	}
	for _, name := range w.registry.Activities() {
		m.byActivity[name] = &activityMetrics{
			completed: ends.WithLabelValues(name, "completed"), failed: ends.WithLabelValues(name, "failed"),
			cancelled: ends.WithLabelValues(name, "cancelled"), lost: ends.WithLabelValues(name, "lost"),
			returned: ends.WithLabelValues(name, "returned"), abandoned: ends.WithLabelValues(name, "abandoned"),
			seconds: seconds.WithLabelValues(name),
		}
	}
	running := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pawl_worker_running", Help: "Activities that run at this moment.",
	}, func() float64 { return float64(len(w.running())) })
	abandoned := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pawl_worker_abandoned", Help: "Activities that still run although their grace is over.",
	}, func() float64 { return float64(w.forsaken()) })
	renewals := func(name, help string, value func(lease.Counts) uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value(w.renewals())) })
	}
	m.collectors = []prometheus.Collector{
		tasks, ends, seconds, running, abandoned,
		renewals("pawl_worker_renewals_total", "Leases renewed, each time.", func(c lease.Counts) uint64 { return c.Renewed }),
		renewals("pawl_worker_renewal_failures_total", "Leases whose renewal had no answer, each time.", func(c lease.Counts) uint64 { return c.Failed }),
	}
	return m, m.register()
}

func (m *metrics) register() error {
	if m.registerer == nil {
		return nil
	}
	for i, c := range m.collectors {
		if err := m.registerer.Register(c); err != nil {
			m.collectors = m.collectors[:i]
			m.unregister()
			return fmt.Errorf("worker: metrics: %w (give each worker of a process a registerer with a label of its own)", err)
		}
	}
	return nil
}

func (m *metrics) unregister() {
	if m.registerer == nil {
		return
	}
	for _, c := range m.collectors {
		m.registerer.Unregister(c)
	}
}

// of gives the counters of an activity that the worker has.
func (m *metrics) of(activity string) *activityMetrics { return m.byActivity[activity] }

// renewals reads the keeper's counts; before Start there are none.
func (w *Worker) renewals() lease.Counts {
	if p := w.phase.Load(); p == fresh || p == starting || w.keeper == nil {
		return lease.Counts{}
	}
	return w.keeper.Counts()
}
