// Package model is Pawl's protocol without its servers: the scripts as pure
// transitions of a plain value, and a small world of owners, workers, a stream
// and a network in which they are called.
//
// Two things are done with it. The world is searched, breadth first and by
// random walks, for a state that breaks a promise; and the scripts are the oracle
// against which the Lua is run (package tests/conformance).
//
// One script is one method of Store: it takes the time of the store and the
// arguments that the Lua takes, changes the value or leaves it alone, and gives
// the answer that the Lua gives. The laws that the scripts keep together:
//
//	ingest  offset and inbox move together, and only on from the position that the caller names
//	due     re-scores before anybody acts, so that a stuck instance, or gate, neither spins nor starves others
//	commit  fence, head, popped ids: all three, or nothing is written
//	        new leases are created before cancelled ones are deleted
//	        what it puts in front, and the empty history behind it, are in the same write; a repeat pushes nothing
//	        what time has decided comes behind all that is unread and older, and behind all that the owner believes to have ingested
//	purge   head and popped ids, or nothing is written; what is behind them stays, a start in front; nothing else of the
//	        instance does, but the ids of its messages
//	look    one helper ends every script of the owner; an unread inbox always has a look
//	ack     deletes a lease that is there, held by the caller and not expired, or does nothing
//
// Each law can be broken by a Mistake, and the tests show that the search then
// finds a counterexample: a test that can not fail is none.
//
// Time is in the unit of whoever makes the Rules: milliseconds in the conformance
// suite and in the walks, ticks in the exhaustive search, where a state is the
// same as another if only the names of its tokens and the origin of its clock differ.
//
// The gates have a model of their own, package gates, and so has the owner's memory of what is unread, package wakeup; all are
// searched by package explore.
package model
