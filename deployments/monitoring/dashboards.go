package main

import (
	"encoding/json"
	"slices"
	"strings"
)

func quoted(expr string) string { return "'" + strings.ReplaceAll(expr, "'", "''") + "'" }

// anchor returns the anchor that GitHub generates for a heading.
func anchor(heading string) string { return strings.ReplaceAll(strings.ToLower(heading), " ", "-") }

// dashboard is a Grafana dashboard with two panels per row.
type dashboard struct {
	uid, title string
	panels     []panel
}

// panel is a graph. Its queries are pairs of a legend and an expression.
type panel struct {
	title, unit string
	queries     [][2]string
}

const selector = `{namespace="$namespace"}`

func rate(by, metric string) string {
	return "sum by (" + by + ") (rate(" + metric + selector + "[$__rate_interval]))"
}

func sum(by, metric string) string { return "sum by (" + by + ") (" + metric + selector + ")" }

// quantiles returns a panel with the median and the 99th percentile of a histogram.
func quantiles(title, metric string, by ...string) panel {
	p := panel{title: title, unit: "s"}
	legend := ""
	if len(by) > 0 {
		legend = " {{" + strings.Join(by, "}} {{") + "}}"
	}
	for _, q := range [][2]string{{"p50", "0.5"}, {"p99", "0.99"}} {
		p.queries = append(p.queries, [2]string{q[0] + legend, "histogram_quantile(" + q[1] + ", " + rate(strings.Join(append([]string{"le"}, by...), ", "), metric+"_bucket") + ")"})
	}
	return p
}

// drawsExemplars reports whether Grafana draws exemplars for a query: once for each histogram, with its p99.
func drawsExemplars(expr string) bool {
	return strings.HasPrefix(expr, "histogram_quantile(0.99,") && slices.ContainsFunc(traced, func(metric string) bool { return strings.Contains(expr, metric+"_bucket") })
}

// dashboards returns the dashboards of the fleet, the workers and the servers.
func dashboards() []dashboard {
	return []dashboard{
		{"pawl-orchestrators", "Pawl: orchestrators", []panel{
			{"Instances started", "ops", [][2]string{{"{{orchestration}}", rate("orchestration", "pawl_orchestrator_instances_started_total")}}},
			{"Instances ended", "ops", [][2]string{{"{{orchestration}} {{outcome}}", rate("orchestration, outcome", "pawl_orchestrator_instances_ended_total")}}},
			{"Instances", "short", [][2]string{{"{{status}}", sum("status", "pawl_orchestrator_instances")}}},
			{"Turns and commits", "ops", [][2]string{
				{"turns", rate("namespace", "pawl_orchestrator_turns_total")}, {"commits", rate("namespace", "pawl_orchestrator_commits_total")},
				{"replays", rate("namespace", "pawl_orchestrator_replays_total")}, {"conflicts", rate("namespace", "pawl_orchestrator_conflicts_total")},
			}},
			quantiles("Turn duration", "pawl_orchestrator_turn_seconds"),
			quantiles("Commit duration", "pawl_orchestrator_commit_seconds"),
			{"Turn size, p99", "bytes", [][2]string{{"p99", "histogram_quantile(0.99, " + rate("le", "pawl_orchestrator_turn_bytes_bucket") + ")"}}},
			quantiles("Input to inbox", "pawl_orchestrator_ingest_seconds"),
			{"Input lag by partition", "s", [][2]string{{"{{partition}}", "max by (partition) (" + "pawl_orchestrator_input_lag_seconds" + selector + ") > 0"}}},
			quantiles("Timer lateness", "pawl_orchestrator_timer_lateness_seconds"),
			{"Partitions owned", "short", [][2]string{{"{{instance}}", sum("instance", "pawl_orchestrator_partitions")}}},
			{"Inputs stream", "percentunit", [][2]string{{"used", "max(" + "pawl_orchestrator_inputs_stream_used_ratio" + selector + ")"}}},
			{"Repairs", "ops", [][2]string{
				{"claims expired", rate("namespace", "pawl_orchestrator_claims_expired_total")}, {"tasks resent", rate("namespace", "pawl_orchestrator_tasks_resent_total")},
				{"leases restored", rate("namespace", "pawl_orchestrator_leases_restored_total")}, {"partitions lost", rate("namespace", "pawl_orchestrator_partitions_lost_total")},
			}},
			{"Limits: waiters and slots in use", "short", [][2]string{{"{{action}} waiting", sum("action", "pawl_limit_waiting")}, {"{{action}} active", sum("action", "pawl_limit_active")}}},
			quantiles("Wait at limits", "pawl_limit_wait_seconds"),
			quantiles("Lag of schedules", "pawl_schedule_lag_seconds"),
			{"Missed times of schedules", "ops", [][2]string{{"{{reason}}", rate("reason", "pawl_schedule_missed_total")}}},
			{"Rejected by limits", "ops", [][2]string{{"{{action}} {{reason}}", rate("action, reason", "pawl_limit_rejected_total")}}},
		}},
		{"pawl-workers", "Pawl: workers", []panel{
			{"Activities ended", "ops", [][2]string{{"{{activity}} {{outcome}}", rate("activity, outcome", "pawl_worker_activities_total")}}},
			{"Slots", "short", [][2]string{{"{{queue}} {{state}}", sum("queue, state", "pawl_worker_slots")}}},
			{"Tasks that wait", "short", [][2]string{{"{{queue}}", "max by (queue) (" + "pawl_queue_tasks" + selector + ")"}}},
			{"Oldest task", "s", [][2]string{{"{{queue}}", "max by (queue) (" + "pawl_queue_oldest_task_seconds" + selector + ")"}}},
			quantiles("Schedule to start", "pawl_worker_activity_schedule_to_start_seconds", "activity"),
			quantiles("Start to end", "pawl_worker_activity_start_to_end_seconds", "activity"),
			quantiles("Cancellation: commit to context", "pawl_worker_cancellation_seconds"),
			quantiles("Cancellation: context to return", "pawl_worker_cancellation_return_seconds"),
			{"Abandoned activities", "short", [][2]string{{"{{instance}}", sum("instance", "pawl_worker_abandoned")}}},
			{"Deliveries", "ops", [][2]string{{"{{outcome}}", rate("outcome", "pawl_worker_tasks_total")}}},
			{"Lease renewals", "ops", [][2]string{{"renewed", rate("namespace", "pawl_worker_renewals_total")}, {"no reply", rate("namespace", "pawl_worker_renewal_failures_total")}}},
		}},
		{"pawl-servers", "Pawl: Redis and NATS", []panel{
			quantiles("Redis round trip", "pawl_redis_round_trip_seconds", "role"),
			quantiles("NATS round trip", "pawl_nats_round_trip_seconds", "role"),
			{"Redis errors", "ops", [][2]string{{"{{role}}", rate("role", "pawl_redis_errors_total")}}},
			{"NATS errors", "ops", [][2]string{{"{{role}}", rate("role", "pawl_nats_errors_total")}, {"{{role}} publishes", rate("role", "pawl_queue_publishes_failed_total")}}},
			{"Messages", "ops", [][2]string{
				{"inputs published", rate("namespace", "pawl_queue_inputs_published_total")}, {"inputs received", rate("namespace", "pawl_queue_inputs_received_total")},
				{"tasks published", rate("namespace", "pawl_queue_tasks_published_total")}, {"tasks delivered", rate("namespace", "pawl_queue_tasks_delivered_total")},
			}},
			{"Object store of large payloads", "bytes", [][2]string{{"stored", "max(" + "pawl_orchestrator_objects_stream_bytes" + selector + ")"}}},
			{"Large payloads", "ops", [][2]string{
				{"read", rate("namespace", "pawl_queue_objects_read_total")}, {"stored", rate("namespace", "pawl_queue_objects_stored_total")},
				{"{{role}} errors", rate("role", "pawl_queue_object_errors_total")}, {"removed", rate("namespace", "pawl_orchestrator_objects_removed_total")},
			}},
			{"Builds", "short", [][2]string{{"{{role}} {{version}} {{revision}}", "count by (role, version, revision) (" + "pawl_build_info" + selector + ")"}}},
		}},
	}
}

// json returns the dashboard in the import format of Grafana.
func (d dashboard) json() ([]byte, error) {
	type object = map[string]any
	source := object{"type": "prometheus", "uid": "${datasource}"}
	panels := make([]object, 0, len(d.panels))
	for i, p := range d.panels {
		targets := make([]object, 0, len(p.queries))
		for n, q := range p.queries {
			target := object{"refId": string(rune('A' + n)), "expr": q[1], "legendFormat": q[0], "datasource": source}
			if drawsExemplars(q[1]) {
				target["exemplar"] = true
			}
			targets = append(targets, target)
		}
		panels = append(panels, object{
			"id": i + 1, "type": "timeseries", "title": p.title, "datasource": source, "targets": targets,
			"gridPos":     object{"x": 12 * (i % 2), "y": 8 * (i / 2), "w": 12, "h": 8},
			"fieldConfig": object{"defaults": object{"unit": p.unit, "min": 0}, "overrides": []object{}},
		})
	}
	b, err := json.MarshalIndent(object{
		"uid": d.uid, "title": d.title, "tags": []string{"pawl"}, "schemaVersion": 39, "editable": true, "refresh": "30s",
		"time": object{"from": "now-1h", "to": "now"}, "panels": panels,
		"templating": object{"list": []object{
			{"name": "datasource", "type": "datasource", "query": "prometheus"},
			{"name": "namespace", "type": "query", "datasource": source, "query": "label_values(pawl_build_info, namespace)", "refresh": 2},
		}},
	}, "", "  ")
	return append(b, '\n'), err
}
