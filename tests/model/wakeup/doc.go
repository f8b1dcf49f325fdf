// Package wakeup is a model of what a partition's owner remembers of one instance while inputs arrive for it: which of them
// it has in memory, which it knows only by their number, and what is under way. It asks one question that package model leaves
// open on purpose: is there a state with unread inputs in which nothing is in flight any more? Nothing would be lost by it, for
// the agenda names such an instance within two seconds; but it would be two seconds late.
//
// The store is reduced to an inbox, a record and a lease. Requests reach it in the order in which they were sent, and answers
// return in that order, except those of readings, which another goroutine hands to the actor: they may be later than any other.
// Doorbells arrive at any time and none is lost; one that is lost is the agenda's to repair, and so is a request that fails.
//
// The owner's part follows pkg/orchestrator line by line: arrived, onDoorbell, advance, goOn and the answers. Each rule of it
// can be broken by a Mistake, and the tests show that the search then finds the instance that sleeps.
package wakeup
