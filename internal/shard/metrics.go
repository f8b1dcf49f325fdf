package shard

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/promx"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

// Metrics are the metrics of an orchestrator. docs/metrics.md lists them.
type Metrics struct {
	owners [core.Counters]interface{ Add(n float64) } // counted by owners, see ownerCounters
	ownCounters
	limitMetrics
	scheduleMetrics
	streamMetrics
	durations

	partitions                      prometheus.Gauge
	turnSize                        prometheus.Histogram
	byOrchestration                 map[string]*orchestrationMetrics // of registered orchestrations, and promx.Other
	instances, queueTasks, queueAge *prometheus.GaugeVec
	redis, nats                     *promx.RoundTrips
	lags                            *lags
}

// ownCounters are counted outside of the owners.
type ownCounters struct {
	ingested, refused, gaps, replays, abandoned, payloadsChanged, objectsRemoved, objectsMissing, tenuresLost, forgedDoorbells, spansDropped prometheus.Counter
}

type limitMetrics struct {
	waited, refusedAt, deadlocks *prometheus.CounterVec // by action; refusedAt also by reason
	limitWaiting, limitHolding   *prometheus.GaugeVec   // by action
	actions                      *promx.Names
	limitWait                    prometheus.Histogram
}

type streamMetrics struct{ inputsFill, objectsBytes, objectsFill prometheus.Gauge }

type scheduleMetrics struct {
	scheduleLag    prometheus.Histogram
	scheduleMissed [replay.MissCauses]prometheus.Counter
}

type durations struct{ turnSeconds, commitSeconds, ingestSeconds, timerLateness prometheus.Histogram }

// ownerCounters are the names and help texts of what owners count.
var ownerCounters = [core.Counters][2]string{ //nolint:gochecknoglobals // read only
	core.CountDropped:         {"inputs_dropped_total", "Inputs without effect: repeats, late completions, inputs of ended instances."},
	core.CountOverBound:       {"inputs_over_bound_total", "Inputs dropped because an inbox, or the inputs before a start, were at their bound."},
	core.CountForgedInputs:    {"inputs_forged_total", "Elements of inboxes dropped because neither ingest nor the claim of a lease has made them."},
	core.CountTurns:           {"turns_total", "Turns run."},
	core.CountCommits:         {"commits_total", "Turns committed."},
	core.CountConflicts:       {"conflicts_total", "Writes rejected because the store was not in the expected state."},
	core.CountLoads:           {"loads_total", "Instances loaded from the store."},
	core.CountReads:           {"inbox_reads_total", "Inboxes read separately."},
	core.CountPublished:       {"tasks_published_total", "Tasks published, repeats included."},
	core.CountPublishErrors:   {"publish_errors_total", "Tasks and messages that the stream did not acknowledge."},
	core.CountResent:          {"tasks_resent_total", "Tasks published again because they were lost."},
	core.CountHints:           {"cancel_hints_total", "Cancel hints sent to workers."},
	core.CountMessages:        {"messages_published_total", "Inputs published for other instances, repeats included."},
	core.CountStartsRepeated:  {"child_starts_repeated_total", "Starts of children that were repeated because their end had not arrived."},
	core.CountIDConflicts:     {"child_ids_taken_total", "Starts of children whose id belonged to another instance."},
	core.CountPurged:          {"instances_purged_total", "Instances removed: by request, or because their retention was over."},
	core.CountChildRefused:    {"children_refused_total", "Children that did not begin because an ancestor was cancelled."},
	core.CountReconciliations: {"reconciliations_total", "Reconciliations of instances."},
	core.CountExpired:         {"claims_expired_total", "Claims that expired and were dispatched again."},
	core.CountRestored:        {"leases_restored_total", "Leases created again because the store had lost them."},
	core.CountPoisoned:        {"activities_poisoned_total", "Activities claimed as often as allowed without an end."},
	core.CountStalls:          {"stalls_total", "Times that an instance became stalled."},
	core.CountDiverged:        {"non_determinism_total", "Turns whose code did not match the history."},
	core.CountStoreErrors:     {"store_errors_total", "Calls that Redis did not answer."},
	core.CountPaced:           {"executions_paced_total", "Executions delayed because their instance continues as new too often."},
	core.CountHeld:            {"due_held", "Instances for which something is due and waits until all inputs accepted before are ingested."},
	core.CountLimitRepeats:    {"limit_requests_repeated_total", "Requests to limits that were repeated."},
	core.CountGrantsAgain:     {"grants_repeated_total", "Grants of limits that were repeated because their holders showed no use of them."},
	core.CountOrphans:         {"limit_orphans_total", "Tickets removed from limits because no instance required them."},
}

// orchestrationMetrics count the instances of one orchestration.
type orchestrationMetrics struct {
	started prometheus.Counter
	ended   map[record.Status]prometheus.Counter
}

// maxActions bounds the values of the label action: orchestration code chooses the names of activities, and no orchestrator has a list of them.
const maxActions = 100

// registration creates and registers metrics, and joins the errors.
type registration struct {
	reg prometheus.Registerer
	err error
}

func add[C prometheus.Collector](r *registration, c C) C {
	r.err = errors.Join(r.err, r.reg.Register(c))
	return c
}

func (r *registration) counter(name, help string) prometheus.Counter {
	return add(r, prometheus.NewCounter(prometheus.CounterOpts{Namespace: "pawl", Subsystem: "orchestrator", Name: name, Help: help}))
}

func (r *registration) gauge(name, help string) prometheus.Gauge {
	return add(r, prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "pawl", Subsystem: "orchestrator", Name: name, Help: help}))
}

func (r *registration) counters(subsystem, name, help string, labels ...string) *prometheus.CounterVec {
	return add(r, prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "pawl", Subsystem: subsystem, Name: name, Help: help}, labels))
}

func (r *registration) gauges(subsystem, name, help string, labels ...string) *prometheus.GaugeVec {
	return add(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "pawl", Subsystem: subsystem, Name: name, Help: help}, labels))
}

func (r *registration) histogram(subsystem, name, help string, buckets []float64) prometheus.Histogram {
	return add(r, prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "pawl", Subsystem: subsystem, Name: name, Help: help, Buckets: buckets}))
}

// NewMetrics registers the metrics of a namespace; reg may be nil. Two orchestrators of one namespace need registerers that differ, or that add
// different labels.
func NewMetrics(reg prometheus.Registerer, namespace string, partitions int, orchestrations []string) (*Metrics, error) {
	r := &registration{reg: promx.Namespace(reg, namespace)}
	counter, gauge := r.counter, r.gauge
	byAction := func(name, help string, more ...string) *prometheus.CounterVec {
		return r.counters("limit", name, help, append([]string{"action"}, more...)...)
	}
	m := &Metrics{
		ownCounters: ownCounters{
			ingested:        counter("inputs_ingested_total", "Inputs pushed to inboxes."),
			refused:         counter("inputs_refused_total", "Inputs that cannot be used."),
			gaps:            counter("input_gaps_total", "Times that inputs were missing from the stream."),
			replays:         counter("replays_total", "Executions replayed from history."),
			abandoned:       counter("goroutines_abandoned_total", "Goroutines abandoned in orchestration code that blocks."),
			objectsMissing:  counter("objects_missing_total", "Reads of large payloads that the object store did not have."),
			objectsRemoved:  counter("objects_removed_total", "Large payloads that were removed from the object store, because no instance had them any more."),
			payloadsChanged: counter("payloads_changed_total", "Payloads that encoded differently on replay than when they were recorded; the recorded ones stand."),
			tenuresLost:     counter("partitions_lost_total", "Ownerships of partitions that ended without a hand-over."),
			forgedDoorbells: counter("doorbells_forged_total", "Doorbells dropped because their proof is invalid."),
			spansDropped:    counter("spans_dropped_total", "Turns whose spans were dropped because the tracer was too slow."),
		},
		limitMetrics: limitMetrics{
			waited:       byAction("waited_total", "Activities and starts that had to wait at a limit."),
			refusedAt:    byAction("rejected_total", "Activities and starts that a limit rejected.", "reason"),
			deadlocks:    byAction("deadlocks_total", "Times that a limit was found deadlocked."),
			limitWaiting: r.gauges("limit", "waiting", "Waiters of the limits that this process owns.", "action"),
			limitHolding: r.gauges("limit", "active", "Slots in use of the limits that this process owns.", "action"),
			actions:      promx.NewNames(maxActions, orchestrations...),
		},
		streamMetrics: streamMetrics{
			inputsFill:   gauge("inputs_stream_used_ratio", "Part of its size limit that the inputs stream has used; set by the owner of partition 0."),
			objectsBytes: gauge("objects_stream_bytes", "Size of the object store of large payloads; set by the owner of partition 0."),
			objectsFill:  gauge("objects_stream_used_ratio", "Part of its size limit that the object store has used, 0 without a limit; set by the owner of partition 0."),
		},
		partitions: gauge("partitions", "Partitions owned."),
	}
	for n, c := range ownerCounters {
		if n == int(core.CountHeld) {
			m.owners[n] = gauge(c[0], c[1])
		} else {
			m.owners[n] = counter(c[0], c[1])
		}
	}
	gauge("namespace_partitions", "Partitions of the namespace.").Set(float64(partitions))
	m.measure(r, orchestrations)
	if r.err != nil {
		return nil, fmt.Errorf("orchestrator: metrics: %w", r.err)
	}
	return m, nil
}

// measure adds the histograms and the metrics with labels.
func (m *Metrics) measure(r *registration, orchestrations []string) {
	m.turnSeconds = r.histogram("orchestrator", "turn_seconds", "Duration of turns: replay and the author's code.", promx.Buckets())
	m.commitSeconds = r.histogram("orchestrator", "commit_seconds", "Duration of commits, from the request to the reply of Redis.", promx.Buckets())
	m.turnSize = r.histogram("orchestrator", "turn_bytes", "Size of the events of a commit.", promx.Sizes())
	m.ingestSeconds = r.histogram("orchestrator", "ingest_seconds", "Time from the acceptance of an input by the stream to its inbox, of the oldest input of each batch.", promx.Buckets())
	m.timerLateness = r.histogram("orchestrator", "timer_lateness_seconds", "Time from the due time of a timer to the commit that fires it.", promx.Buckets())
	m.limitWait = r.histogram("limit", "wait_seconds", "Time that activities waited at limits until they were admitted.", promx.Buckets())
	m.instances = r.gauges("orchestrator", "instances", "Instances of the partitions that this process owns, by status: pending, running, and stalled, which the others include.", "status")
	m.queueTasks = r.gauges("queue", "tasks", "Tasks in the stream that no worker has claimed; set by the owner of partition 0.", "queue")
	m.queueAge = r.gauges("queue", "oldest_task_seconds", "Age of the oldest task in the stream; set by the owner of partition 0.", "queue")
	m.scheduleLag = r.histogram("schedule", "lag_seconds", "Time from a time of a schedule, with its jitter, to the commit that does its action.", promx.Buckets())
	missed := r.counters("schedule", "missed_total", "Times of schedules without an action, by reason: overlap (an instance runs), catch_up_window (too old), catch_up_max (too many to catch up), done (the instance exists).", "reason")
	for cause, name := range [replay.MissCauses]string{replay.MissedByOverlap: "overlap", replay.MissedByAge: "catch_up_window", replay.MissedByNumber: "catch_up_max", replay.MissedAsDone: "done"} {
		m.scheduleMissed[cause] = missed.WithLabelValues(name)
	}
	m.redis, m.nats = promx.NewRoundTrips("redis", "Redis", "orchestrator"), promx.NewRoundTrips("nats", "NATS", "orchestrator")
	add(r, m.redis)
	add(r, m.nats)
	add(r, promx.Build("orchestrator"))
	m.lags = add(r, &lags{desc: prometheus.NewDesc("pawl_orchestrator_input_lag_seconds",
		"Age of the oldest input that a partition has read and not ingested; 0: none.", []string{"partition"}, nil)})
	started := r.counters("orchestrator", "instances_started_total", "Instances whose first turn was committed.", "orchestration")
	ended := r.counters("orchestrator", "instances_ended_total", "Instances that ended, by outcome: completed, failed, cancelled.", "orchestration", "outcome")
	m.byOrchestration = make(map[string]*orchestrationMetrics, len(orchestrations)+1)
	for _, name := range append([]string{promx.Other}, orchestrations...) {
		o := &orchestrationMetrics{started: started.WithLabelValues(name), ended: make(map[record.Status]prometheus.Counter)}
		for _, s := range record.Statuses() {
			if s.Ended() {
				o.ended[s] = ended.WithLabelValues(name, string(s))
			}
		}
		m.byOrchestration[name] = o
	}
}

// ObserveRedis records the duration of a round trip to Redis.
func (m *Metrics) ObserveRedis(took time.Duration, failed bool) { m.redis.Observe(took, failed) }

// orchestration returns the metrics of an orchestration; those of promx.Other if it is not registered.
func (m *Metrics) orchestration(name string) *orchestrationMetrics {
	if o := m.byOrchestration[name]; o != nil {
		return o
	}
	return m.byOrchestration[promx.Other]
}

// exemplar returns the trace of the instance of a turn as an exemplar, or nil.
func exemplar(t *core.Decided) prometheus.Labels {
	if t == nil || t.Fold == nil || t.Fold.Started == nil {
		return nil
	}
	return promx.Exemplar(t.Fold.Started.Headers)
}

// committed measures a turn that was committed at now, in Unix ms. with is its exemplar.
func (m *Metrics) committed(t *core.Decided, c *record.Commit, now int64, with prometheus.Labels) {
	if c.NewHead == "" {
		return
	}
	promx.Observe(m.turnSize, float64(t.Size), with)
	m.fired(t.Firings, now, with)
	for _, e := range t.Events {
		switch e := e.(type) {
		case *history.Started:
			if e.Execution == 1 {
				m.orchestration(e.Name).started.Inc()
			}
		case *history.TimerFired:
			promx.Observe(m.timerLateness, seconds(e.At, now), with)
		case *history.Granted:
			if s := t.Fold.Activity(e.Scheduled); s != nil && s.Limit != nil && s.Limit.WaitingSince != 0 {
				promx.Observe(m.limitWait, seconds(s.Limit.WaitingSince, now), with)
			}
		case *history.Completed, *history.Failed, *history.Cancelled:
			if n := m.orchestration(t.Fold.Started.Name).ended[c.Record.Status]; n != nil {
				n.Inc()
			}
		}
	}
}

// fired measures the times of a schedule that a turn has handled.
func (m *Metrics) fired(f *replay.Firings, now int64, with prometheus.Labels) {
	if f == nil {
		return
	}
	for _, due := range f.Due {
		promx.Observe(m.scheduleLag, seconds(due, now), with)
	}
	for cause, n := range f.Missed {
		m.scheduleMissed[cause].Add(float64(n))
	}
}

// seconds returns the time between two times in Unix ms. Clocks of servers differ, so the result is clamped to zero.
func seconds(from, to int64) float64 { return max(0, float64(to-from)/1000) }

// lag records how far a partition is behind its inputs.
type lag struct {
	oldest atomic.Int64  // time in the stream, Unix ns, of the oldest input that was read and is not ingested; 0: none
	known  atomic.Uint64 // sequence up to which inputs are applied, plus one; 0: inputs from before the tenure are not all applied yet
}

// begin records the oldest input of a batch.
func (l *lag) begin(batch []message.Input) {
	if len(batch) > 0 {
		l.oldest.Store(batch[0].Pos.Time)
	}
}

// end measures the age of the oldest input of a batch that was ingested at now, in Unix ms.
func (l *lag) end(m *Metrics, now int64) {
	if at := l.oldest.Swap(0); at != 0 {
		m.ingestSeconds.Observe(seconds(at/int64(time.Millisecond), now))
	}
}

// lags collects the lag of every partition that the process owns.
type lags struct {
	desc   *prometheus.Desc
	shards atomic.Pointer[shards] // nil: not started
}

// Describe implements prometheus.Collector.
func (l *lags) Describe(ch chan<- *prometheus.Desc) { ch <- l.desc }

// Collect implements prometheus.Collector.
func (l *lags) Collect(ch chan<- prometheus.Metric) {
	all := l.shards.Load()
	if all == nil {
		return
	}
	now := time.Now()
	all.each(func(s *shard) {
		age := 0.0
		if at := s.shell.lag.oldest.Load(); at != 0 {
			age = max(0, now.Sub(time.Unix(0, at)).Seconds())
		}
		ch <- prometheus.MustNewConstMetric(l.desc, prometheus.GaugeValue, age, strconv.Itoa(s.shell.st.Part))
	})
}

// drain adds the counts of an owner, and resets them.
func (m *Metrics) drain(c *core.Counts) {
	for i, n := range c {
		if n != 0 {
			m.owners[i].Add(n)
		}
	}
	clear(c[:])
}

// countLimit adds a count for the action of a limit.
func (m *Metrics) countLimit(action string, c core.LimitCount) {
	action = m.actions.Of(action)
	switch c.What {
	case core.LimitWaited:
		m.waited.WithLabelValues(action).Add(c.N)
	case core.LimitRefused:
		m.refusedAt.WithLabelValues(action, c.Reason).Add(c.N)
	case core.LimitDeadlocked:
		m.deadlocks.WithLabelValues(action).Add(c.N)
	case core.LimitWaiting:
		m.limitWaiting.WithLabelValues(action).Add(c.N)
	case core.LimitHolding:
		m.limitHolding.WithLabelValues(action).Add(c.N)
	}
}
