package main

import (
	"bytes"
	"fmt"
)

// alert is a Prometheus rule. docs/operations/monitoring.md has a section with its name.
type alert struct {
	name, expr, after, severity, summary string
}

// alerts returns the rules, most urgent first.
func alerts() []alert {
	p99 := func(metric string) string {
		return "histogram_quantile(0.99, sum by (namespace, le) (rate(" + metric + "_bucket[5m])))"
	}
	return []alert{
		{"PawlOrchestratorsDown", `absent(pawl_build_info{role="orchestrator"})`, "2m", "critical", "No orchestrator is scraped."},
		{"PawlWorkersDown", `absent(pawl_build_info{role="worker"})`, "2m", "critical", "No worker is scraped."},
		{"PawlPartitionsUnowned", `sum by (namespace) (pawl_orchestrator_partitions) < max by (namespace) (pawl_orchestrator_namespace_partitions)`, "1m", "critical", "Partitions of {{ $labels.namespace }} have no owner; their instances do not proceed."},
		{"PawlRedisErrors", `sum by (namespace, role) (rate(pawl_redis_errors_total[2m])) > 0`, "2m", "critical", "Redis does not reply to {{ $labels.role }}s of {{ $labels.namespace }}."},
		{"PawlNATSErrors", `sum by (namespace, role) (rate(pawl_nats_errors_total[2m])) > 0`, "2m", "critical", "NATS does not reply to {{ $labels.role }}s of {{ $labels.namespace }}."},
		{"PawlInputsNearlyFull", `max by (namespace) (pawl_orchestrator_inputs_stream_used_ratio) > 0.8`, "5m", "critical", "The inputs stream of {{ $labels.namespace }} is nearly full; a full stream rejects starts and events."},
		{"PawlObjectErrors", `sum by (namespace, role) (rate(pawl_queue_object_errors_total[2m])) > 0`, "2m", "critical", "Large payloads of {{ $labels.namespace }} cannot be read or written by {{ $labels.role }}s."},
		{"PawlObjectsNearlyFull", `max by (namespace) (pawl_orchestrator_objects_stream_used_ratio) > 0.8`, "5m", "critical", "The object store of {{ $labels.namespace }} is nearly full; a full one rejects large payloads, and stalls instances with large payloads."},
		{"PawlInputsLost", `sum by (namespace) (increase(pawl_orchestrator_input_gaps_total[10m])) > 0`, "0s", "critical", "Inputs of {{ $labels.namespace }} were removed from the stream before they were ingested."},
		{"PawlInputLag", `max by (namespace, partition) (pawl_orchestrator_input_lag_seconds) > 10`, "1m", "critical", "Partition {{ $labels.partition }} of {{ $labels.namespace }} does not ingest its inputs."},
		{"PawlInstancesStalled", `sum by (namespace) (pawl_orchestrator_instances{status="stalled"}) > 0`, "10m", "warning", "Instances of {{ $labels.namespace }} are stalled."},
		{"PawlNonDeterminism", `sum by (namespace) (increase(pawl_orchestrator_non_determinism_total[10m])) > 0`, "0s", "warning", "Code of {{ $labels.namespace }} does not match the history of its instances."},
		{"PawlQueueUnserved", `sum by (namespace) (pawl_queue_tasks{queue="other"}) > 0`, "5m", "warning", "Tasks of {{ $labels.namespace }} wait in queues without workers."},
		{"PawlQueueOld", `max by (namespace, queue) (pawl_queue_oldest_task_seconds) > 300`, "5m", "warning", "Tasks wait for more than 5 min in queue {{ $labels.queue }} of {{ $labels.namespace }}."},
		{"PawlPartitionsLost", `sum by (namespace) (increase(pawl_orchestrator_partitions_lost_total[10m])) > 0`, "0s", "warning", "Orchestrators of {{ $labels.namespace }} lost partitions without a hand-over."},
		{"PawlLeasesLost", `sum by (namespace, activity) (increase(pawl_worker_activities_total{outcome="lost"}[10m])) > 0`, "0s", "warning", "Workers lost leases of {{ $labels.activity }}; the activities run again."},
		{"PawlActivitiesFailing", `sum by (namespace, activity) (rate(pawl_worker_activities_total{outcome="failed"}[10m])) / sum by (namespace, activity) (rate(pawl_worker_activities_total[10m])) > 0.5`, "10m", "warning", "More than half of the activities {{ $labels.activity }} fail."},
		{"PawlActivitiesPoisoned", `sum by (namespace) (increase(pawl_orchestrator_activities_poisoned_total[10m])) > 0`, "0s", "warning", "Activities of {{ $labels.namespace }} exhausted their claims, because every worker that claimed them died."},
		{"PawlActivitiesAbandoned", `sum by (namespace) (pawl_worker_abandoned) > 0`, "10m", "warning", "Activities of {{ $labels.namespace }} ignore their cancellation."},
		{"PawlCommitsSlow", p99("pawl_orchestrator_commit_seconds") + " > 0.25", "10m", "warning", "The 99th percentile of commits of {{ $labels.namespace }} takes more than 250 ms."},
		{"PawlTimersLate", p99("pawl_orchestrator_timer_lateness_seconds") + " > 5", "10m", "warning", "The 99th percentile of timers of {{ $labels.namespace }} fires more than 5 s late."},
		{"PawlSchedulesLate", p99("pawl_schedule_lag_seconds") + " > 10", "10m", "warning", "The 99th percentile of actions of schedules of {{ $labels.namespace }} is more than 10 s late."},
		{"PawlSchedulesMissed", `sum by (namespace) (increase(pawl_schedule_missed_total{reason=~"catch_up_window|catch_up_max"}[10m])) > 0`, "0s", "warning", "Times of schedules of {{ $labels.namespace }} were missed during an outage and will not be caught up."},
		{"PawlCancellationSlow", p99("pawl_worker_cancellation_seconds") + " > 2.5", "10m", "warning", "The 99th percentile of cancellations of {{ $labels.namespace }} takes more than 2.5 s."},
		{"PawlLimitDeadlocked", `sum by (namespace, action) (increase(pawl_limit_deadlocks_total[10m])) > 0`, "0s", "warning", "The limit of {{ $labels.action }} is deadlocked."},
		{"PawlForgedMessages", `sum by (namespace) (increase(pawl_orchestrator_inputs_forged_total[10m])) + sum by (namespace) (increase(pawl_orchestrator_doorbells_forged_total[10m])) > 0`, "0s", "warning", "Messages with an invalid proof arrived in {{ $labels.namespace }}."},
	}
}

// rules returns the file of alert rules.
func rules() []byte {
	var b bytes.Buffer
	b.WriteString("# Generated by: go run ./deployments/monitoring\ngroups:\n  - name: pawl\n    rules:\n")
	for _, a := range alerts() {
		fmt.Fprintf(&b, "      - alert: %s\n        expr: %s\n        for: %s\n        labels: {severity: %s}\n        annotations:\n          summary: %q\n          runbook: docs/operations/monitoring.md#%s\n",
			a.name, quoted(a.expr), a.after, a.severity, a.summary, anchor(a.name))
	}
	return b.Bytes()
}
