package orchestrator

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what an orchestrator counts.
type metrics struct {
	ingested, refused, dropped, overBound, gaps      prometheus.Counter
	turns, commits, conflicts, loads, reads, replays prometheus.Counter
	published, publishErrors, resent, hints          prometheus.Counter
	told, asked, taken, purged, childRefused         prometheus.Counter
	looks, expired, restored, poisoned               prometheus.Counter
	stalls, diverged, leftBehind, storeErrors        prometheus.Counter
	payloadsChanged, paced                           prometheus.Counter
	partitions, held, inputsFill                     prometheus.Gauge
	forgedBells, forgedInputs                        prometheus.Counter

	// Of gates.
	gateAsks, grantsAgain, orphans prometheus.Counter
	waited, refusedAt, deadlocks   *prometheus.CounterVec // by action; why
	gateWaiting, gateHolding       *prometheus.GaugeVec   // by action
}

// newMetrics registers the counts; two orchestrators need a Registerer each, or one with labels.
func newMetrics(r prometheus.Registerer) (*metrics, error) {
	var bad error
	register := func(c prometheus.Collector) {
		if r != nil {
			bad = errors.Join(bad, r.Register(c))
		}
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "pawl", Subsystem: "orchestrator", Name: name, Help: help})
		register(c)
		return c
	}
	byAction := func(name, help string, more ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "pawl", Subsystem: "gate", Name: name, Help: help}, append([]string{"action"}, more...))
		register(c)
		return c
	}
	now := func(name, help string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "pawl", Subsystem: "gate", Name: name, Help: help}, []string{"action"})
		register(g)
		return g
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "pawl", Subsystem: "orchestrator", Name: name, Help: help})
		register(g)
		return g
	}
	m := &metrics{
		gateAsks:      counter("gate_asks_total", "Times that an instance asked a gate again."),
		grantsAgain:   counter("gate_grants_repeated_total", "Grants said again, because nothing showed that they were taken up."),
		orphans:       counter("gate_orphans_total", "Tickets taken out of a gate because no instance wanted them."),
		waited:        byAction("waited_total", "Activities and starts that had to wait."),
		refusedAt:     byAction("refused_total", "Activities and starts that were refused or turned away.", "why"),
		deadlocks:     byAction("deadlocks_total", "Times that a gate was found deadlocked."),
		gateWaiting:   now("waiting", "Who waits, of the gates whose partitions are owned here."),
		gateHolding:   now("holding", "Who holds a slot, of the gates whose partitions are owned here."),
		ingested:      counter("inputs_ingested_total", "Inputs put into inboxes."),
		refused:       counter("inputs_refused_total", "Inputs that can not be used."),
		dropped:       counter("inputs_dropped_total", "Inputs without effect: repeats, late completions, inputs of ended instances."),
		overBound:     counter("inputs_over_bound_total", "Inputs dropped because an inbox, or the inputs before a start, were at their bound."),
		forgedBells:   counter("doorbells_forged_total", "Doorbells dropped because Redis has not made their proof."),
		forgedInputs:  counter("inputs_forged_total", "Elements of inboxes dropped because neither ingest nor the claim of a lease has made them."),
		gaps:          counter("input_gaps_total", "Times that inputs were missing from the stream."),
		turns:         counter("turns_total", "Turns run."),
		commits:       counter("commits_total", "Turns committed."),
		conflicts:     counter("conflicts_total", "Writes refused because the store was not where they expected."),
		loads:         counter("loads_total", "Instances loaded from the store."),
		reads:         counter("inbox_reads_total", "Inboxes read by themselves."),
		replays:       counter("replays_total", "Executions replayed from history."),
		published:     counter("tasks_published_total", "Tasks published, repeats included."),
		publishErrors: counter("publish_errors_total", "Tasks and messages that the stream did not acknowledge."),
		resent:        counter("tasks_resent_total", "Tasks sent again because they were lost."),
		hints:         counter("cancel_hints_total", "Cancel hints sent to workers."),
		told:          counter("messages_published_total", "Inputs published for other instances, repeats included."),
		asked:         counter("children_asked_total", "Starts of children that were repeated, because their end had not been told."),
		taken:         counter("child_ids_taken_total", "Starts of children whose id belonged to somebody else."),
		childRefused:  counter("children_refused_total", "Children that did not begin because an ancestor was cancelled."),
		purged:        counter("instances_purged_total", "Instances removed: by request, or because their retention was over."),
		looks:         counter("looks_total", "Looks at instances."),
		expired:       counter("claims_expired_total", "Claims that were over and were dispatched again."),
		restored:      counter("leases_restored_total", "Leases that the store had lost."),
		poisoned:      counter("activities_poisoned_total", "Activities claimed as often as allowed without an end."),
		stalls:        counter("stalls_total", "Times that an instance became stalled."),
		paced:         counter("executions_paced_total", "Executions that waited because their instance continues as new too often."),
		diverged:      counter("non_determinism_total", "Turns whose code did not do what history says."),
		leftBehind:    counter("goroutines_left_behind_total", "Goroutines left behind in orchestration code that blocks."),
		storeErrors:   counter("store_errors_total", "Calls that Redis did not answer."),
		payloadsChanged: counter("payloads_changed_total",
			"Payloads that encoded differently on replay than when they were recorded; the recorded ones stand."),
		partitions: gauge("partitions", "Partitions owned."),
		held:       gauge("due_held", "Instances for which something is due and waits until all inputs accepted before have been ingested."),
		inputsFill: gauge("inputs_stream_used_ratio", "Part of its size limit that the inputs stream has used; set by the owner of partition 0."),
	}
	if bad != nil {
		return nil, fmt.Errorf("orchestrator: metrics: %w", bad)
	}
	return m, nil
}
