package worker

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl/internal/leases"
	"github.com/pawlrun/pawl/internal/promx"
)

// metrics holds the metrics of a worker. docs/metrics.md lists them.
type metrics struct {
	registerer   prometheus.Registerer
	collectors   []prometheus.Collector
	claims       map[leases.Outcome]prometheus.Counter
	unclaimed    prometheus.Counter
	unregistered prometheus.Counter
	byActivity   map[string]*activityMetrics
	redis, nats  *promx.RoundTrips

	cancelled      prometheus.Observer // time from the commit of a cancellation to the end of the context
	cancelReturned prometheus.Observer // time from the end of the context to the return of the handler
}

// activityMetrics counts the ends of one activity's claims by outcome. Completed and failed are counted after the ack; cancelled and lost
// are not errors. An abandoned activity is counted as abandoned only.
type activityMetrics struct {
	completed, failed, cancelled, lost, returned, abandoned prometheus.Counter
	scheduleToStart, startToEnd                             prometheus.Observer
}

func newMetrics(reg prometheus.Registerer, w *Worker) (*metrics, error) {
	m := &metrics{
		registerer: promx.Namespace(reg, w.cfg.Namespace), claims: make(map[leases.Outcome]prometheus.Counter), byActivity: make(map[string]*activityMetrics),
		redis: promx.NewRoundTrips("redis", "Redis", "worker"), nats: promx.NewRoundTrips("nats", "NATS", "worker"),
	}
	m.collectors = append(m.collectors, m.redis, m.nats, promx.Build("worker"), newSlots(w))
	m.tasks()
	m.activities(w.registry.Activities())
	m.gauges(w)
	return m, m.register()
}

func (m *metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.collectors = append(m.collectors, c)
	return c
}

func (m *metrics) latencies(name, help string, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: promx.Buckets()}, labels)
	m.collectors = append(m.collectors, h)
	return h
}

func (m *metrics) tasks() {
	tasks := m.counters("pawl_worker_tasks_total",
		"Tasks delivered, by outcome: the reply to the claim (acquired, held, exhausted, gone), unclaimed (no reply), or unregistered (no handler, or not the key of the input, in this worker).", "outcome")
	m.unclaimed, m.unregistered = tasks.WithLabelValues("unclaimed"), tasks.WithLabelValues("unregistered")
	for o, name := range map[leases.Outcome]string{
		leases.Acquired: "acquired", leases.Held: "held", leases.Exhausted: "exhausted", leases.Gone: "gone",
	} {
		m.claims[o] = tasks.WithLabelValues(name)
	}
}

func (m *metrics) activities(names []string) {
	ends := m.counters("pawl_worker_activities_total",
		"Activities that ended, by outcome: completed, failed (both acked), cancelled, lost (the lease), returned (the worker stopped), abandoned (after the grace period).", "activity", "outcome")
	waited := m.latencies("pawl_worker_activity_schedule_to_start_seconds", "Time from the turn that schedules an activity to the start of its function; the clocks of orchestrator and worker are compared.", "activity")
	ran := m.latencies("pawl_worker_activity_start_to_end_seconds", "Duration of the activities' functions.", "activity")
	for _, name := range names {
		m.byActivity[name] = &activityMetrics{
			completed: ends.WithLabelValues(name, "completed"), failed: ends.WithLabelValues(name, "failed"),
			cancelled: ends.WithLabelValues(name, "cancelled"), lost: ends.WithLabelValues(name, "lost"),
			returned: ends.WithLabelValues(name, "returned"), abandoned: ends.WithLabelValues(name, "abandoned"),
			scheduleToStart: waited.WithLabelValues(name), startToEnd: ran.WithLabelValues(name),
		}
	}
}

func (m *metrics) gauges(w *Worker) {
	m.cancelled = m.latencies("pawl_worker_cancellation_seconds",
		"Time from the commit of a cancellation to the end of the activity's context; the clocks of Redis and worker are compared.").WithLabelValues()
	m.cancelReturned = m.latencies("pawl_worker_cancellation_return_seconds",
		"Time from the end of an activity's context to the return of its function.").WithLabelValues()
	gauge := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) })
	}
	renewals := func(name, help string, value func(leases.Counts) uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value(w.renewals())) })
	}
	m.collectors = append(m.collectors,
		gauge("pawl_worker_running", "Activities that run now.", func() int { return len(w.tasks.running()) }),
		gauge("pawl_worker_abandoned", "Activities that run after the end of their grace period.", w.tasks.abandonedCount),
		renewals("pawl_worker_renewals_total", "Leases renewed.", func(c leases.Counts) uint64 { return c.Renewed }),
		renewals("pawl_worker_renewal_failures_total", "Leases whose renewal had no reply.", func(c leases.Counts) uint64 { return c.Failed }),
	)
}

// slots collects the slots of a worker by queue.
type slots struct {
	w    *Worker
	desc *prometheus.Desc
}

func newSlots(w *Worker) *slots {
	return &slots{w, prometheus.NewDesc("pawl_worker_slots", "Slots for activities, by queue and state: used, free.", []string{"queue", "state"}, nil)}
}

// Describe implements prometheus.Collector.
func (s *slots) Describe(ch chan<- *prometheus.Desc) { ch <- s.desc }

// Collect implements prometheus.Collector.
func (s *slots) Collect(ch chan<- prometheus.Metric) {
	used := s.w.tasks.slotsByQueue()
	for _, name := range s.w.registry.Queues() {
		n := used[name]
		ch <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, float64(n), name, "used")
		ch <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, float64(max(0, s.w.slots(name)-n)), name, "free")
	}
}

// started observes the time from the schedule of a task to its start.
func (m *activityMetrics) started(scheduledAt int64, with prometheus.Labels) {
	if scheduledAt > 0 {
		promx.Observe(m.scheduleToStart, max(0, time.Since(time.UnixMilli(scheduledAt)).Seconds()), with)
	}
}

func (m *metrics) register() error {
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
	for _, c := range m.collectors {
		m.registerer.Unregister(c)
	}
}

// renewals returns the counters of the keeper, which are zero before Start.
func (w *Worker) renewals() leases.Counts {
	if p := w.phase.Load(); p == created || p == starting || w.keeper == nil {
		return leases.Counts{}
	}
	return w.keeper.Counts()
}
