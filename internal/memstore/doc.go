// Package memstore is an in-memory store of a partition: the scripts as pure transitions of a plain value.
//
// It has three uses. The model search of the owner (package core) runs on it (tests/model), the tests of authors run on it (pawltest),
// and the scripts are compared with it (tests/conformance). Each script is one method of Store, which takes the time of the store and the
// arguments of the script, changes the value or leaves it unchanged, and returns the script's reply. The methods of backend.go carry out
// the effects of an owner with them. A Shell is the environment of an owner: the stream of inputs, time, and the Limits of its
// partition.
//
// The laws that the scripts keep together:
//
//	ingest     position and inboxes change together, and only from the position that the caller names
//	due        postpones the wakeups that it returns, so that a stalled instance or limit neither spins nor starves others
//	commit     checks fence, head and popped ids: all three match, or nothing is written
//	           new leases are created before cancelled ones are deleted
//	           the elements put in front, and the empty history of their execution, are in the same write; a repeat pushes nothing
//	           a decision by time is ordered after all older unread inputs, and after all inputs that the owner assumes to have ingested
//	purge      checks head and popped ids, or nothing is written; the inputs after the popped ones stay, a start in front of them; of the
//	           instance itself only the ids of its messages stay
//	reconcile  one helper ends every script of the owner: an unread inbox always has a wakeup
//	ack        deletes a lease that exists, is claimed by the caller and has not expired, or does nothing
//
// Each law can be broken by a Mistake, and the searches must find each. A Store can be cloned, so that a rollback is an assignment. The
// network around it loses replies, and duplicates and delays requests.
package memstore
