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

// activityMetrics counts the outcomes of one activity's claims. Completed and failed are counted after the ack; cancelled and lost are not
// errors. An abandoned activity is counted only as abandoned.
type activityMetrics struct {
	completed, failed, cancelled, lost, returned, abandoned prometheus.Counter
	seconds                                                 prometheus.Observer
}

func newMetrics(reg prometheus.Registerer, w *Worker) (*metrics, error) {
	tasks := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pawl_worker_tasks_total",
		Help: "Tasks delivered, by outcome: the reply to the claim, unclaimed (no reply), or unregistered (no handler in this worker).",
	}, []string{"outcome"})
	ends := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pawl_worker_activities_total",
		Help: "Activities that ended, by outcome: completed, failed (both acked), cancelled, lost (the lease), returned (the worker stopped), abandoned (after the grace period).",
	}, []string{"activity", "outcome"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "pawl_worker_activity_seconds",
		Help:    "Duration of the activities' functions.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 10), // 1 ms to 4 min
	}, []string{"activity"})
	m := &metrics{
		registerer: reg, claims: make(map[lease.Outcome]prometheus.Counter), byActivity: make(map[string]*activityMetrics),
		unclaimed: tasks.WithLabelValues("unclaimed"), unregistered: tasks.WithLabelValues("unregistered"),
	}
	for o, name := range map[lease.Outcome]string{
		lease.Acquired: "yours", lease.Held: "held", lease.Exhausted: "exhausted", lease.Gone: "gone",
	} {
		m.claims[o] = tasks.WithLabelValues(name)
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
		Name: "pawl_worker_running", Help: "Activities that run now.",
	}, func() float64 { return float64(len(w.tasks.running())) })
	abandoned := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pawl_worker_abandoned", Help: "Activities that run after the end of their grace period.",
	}, func() float64 { return float64(w.tasks.abandonedCount()) })
	renewals := func(name, help string, value func(lease.Counts) uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value(w.renewals())) })
	}
	m.collectors = []prometheus.Collector{
		tasks, ends, seconds, running, abandoned,
		renewals("pawl_worker_renewals_total", "Leases renewed.", func(c lease.Counts) uint64 { return c.Renewed }),
		renewals("pawl_worker_renewal_failures_total", "Leases whose renewal had no reply.", func(c lease.Counts) uint64 { return c.Failed }),
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
			return fmt.Errorf("worker: metrics: %w (give each worker of a process a registerer with its own label)", err)
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

// of returns the metrics of an activity of this worker.
func (m *metrics) of(activity string) *activityMetrics { return m.byActivity[activity] }

// renewals returns the keeper's counts; zero before Start.
func (w *Worker) renewals() lease.Counts {
	if p := w.phase.Load(); p == created || p == starting || w.keeper == nil {
		return lease.Counts{}
	}
	return w.keeper.Counts()
}
