// Package bench measures Pawl: throughput and latency (load.go), cancellation (cancel.go), limits (limit.go), the turn engine
// alone (turn.go), recovery from faults (recover.go), growing histories, instances, payloads and fleets (growth.go), changing fleets
// (changes.go), jobs (job.go), schedules (schedule.go), batches (batch.go), updates (update.go), also under faults (update_kill.go),
// lists (list.go), and traces (tracing.go).
//
// A scenario runs on a fleet (fleet.go): NATS, Redis, orchestrators and workers, each a process of its own. This process
// is the client (driver.go). Every result is a struct with JSON tags, from which the table and the lines for benchstat
// (report.go) are derived.
package bench
