// Package examples is a registry of small orchestrations and a large one. Fleets load them with --examples, and Pawl's own tests and
// benchmarks run them. Each file is one example: first the handles that both fleets share, then the orchestration, then its activities.
//
//	hello.go    one activity
//	order.go    the order of the README: a hold, an approval or a deadline, a charge
//	chain.go    five activities, one after the other
//	fanout.go   n concurrent activities
//	event.go    waits for an event
//	race.go     two activities; the slower one is cancelled
//	retries.go  an activity that is retried when it fails, unless that would not help
//	reminder.go reminders at growing intervals until an invoice is paid
//	approval.go people decide, one after the other, each with a deadline
//	quotes.go   suppliers are asked concurrently; the first good offer cancels the others
//	parcels.go  an order is shipped in parcels, one child each; one is recalled
//	counter.go  runs forever: continues as new, and publishes its sum as custom status
//	ratelimit.go concurrency and rate limits for each tenant
//	tenant.go   one instance per tenant that receives events and feeds another instance
//	versions.go two versions of one orchestration side by side
//	patch.go    an orchestration that was changed in place
//	audit/      real work: reports on a tree of Go packages
//	first/      the program of docs/guide/first-orchestration.md
//	plain/      the program of docs/guide/processes.md, without fx
package examples
