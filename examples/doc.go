// Package examples is a registry of small orchestrations and one large one, which
// the fleets have with --examples, and which Pawl's own tests and benchmarks run. Each
// file is one example: first the contract that both fleets share, then the
// orchestration, then its activities.
//
//	hello.go    one activity
//	order.go    the order of the README: a hold, an approval or a deadline, a charge
//	chain.go    five activities, one after the other
//	fanout.go   n activities side by side
//	event.go    waits for an event
//	race.go     two activities of which one is no longer wanted
//	retries.go  an activity that fails is tried again, unless that would not help
//	reminder.go reminders at growing intervals until an invoice is paid
//	approval.go people decide, one after the other, each with a deadline
//	quotes.go   suppliers are asked at once; the first good offer stops the others
//	parcels.go  an order is shipped in parcels, a child each; one is recalled
//	counter.go  runs forever: continues as new, and shows its sum as custom status
//	ratelimit.go so many at a time and so many a second, for each tenant
//	tenant.go   one instance for each tenant, fed by events, that feeds another
//	versions.go two versions of one orchestration side by side
//	patch.go    an orchestration that was changed in place
//	audit/      real work: what is in a tree of Go packages
//	first/      a program of its own, that of docs/guide/first-orchestration.md
//	plain/      a program without fx, that of docs/guide/processes.md
package examples
