// Package memstore is the store of a partition in memory: the scripts as pure transitions of a plain value.
//
// Three things are done with it. The owner (package core) is searched on it (tests/model), runs on it in the tests of authors (pawltest),
// and the scripts are compared with it (tests/conformance): one script is one method of Store, which takes the time of the store and what
// the script takes, changes the value or leaves it alone, and returns what the script returns. The methods of backend.go carry out the
// effects of an owner by them. A Shell is what else an owner has around it: the stream of inputs, and time; Limits are those of its
// partition.
//
// The laws that the scripts keep together:
//
//	ingest     position and inbox move together, and only on from the position that the caller names
//	due        puts off what it names, so that a stuck instance, or limit, neither spins nor starves others
//	commit     fence, head, popped ids: all three, or nothing is written
//	           new leases are created before cancelled ones are deleted
//	           what it puts in front, and the empty history behind it, are in the same write; a repeat pushes nothing
//	           what time has decided comes behind all that is unread and older, and behind all that the owner assumes to have ingested
//	purge      head and popped ids, or nothing is written; what is behind them stays, a start in front; nothing else of the
//	           instance does, but the ids of its messages
//	reconcile  one helper ends every script of the owner; an unread inbox always has a wakeup
//	ack        deletes a lease that is there, held by the caller and not expired, or does nothing
//
// Each law can be broken by a Mistake; the searches must find each. A Store can be cloned, so that a rollback is an assignment; lost
// replies, copies and late requests are of the network around it.
package memstore
