// Package gates is the protocol of docs/decisions/0014-gates.md without its servers: the scripts about one gate as pure
// transitions of a value, and a world of instances, their owners, and gates, in which they are called.
//
// As in package model, two things are done with it. The world is searched, breadth first and by random walks, for a state that
// breaks a promise; and the scripts are the oracle against which the Lua of pkg/gate is run (package tests/conformance).
//
// The promises, as seen from outside:
//
//	limit     who runs is a holder. After a rollback more may run than the concurrency: by as many grants as the gate has
//	          forgotten, or ends as an instance has. Who runs and asks again is a holder again, whatever has been forgotten
//	order     nobody who came to a gate later is let in before somebody who waits there, and nobody who waits loses its place
//	liveness  once nothing goes wrong any more, every instance ends, and nobody is left in a gate
//	no leak   a slot that nobody wants is free, and a grant that got lost is taken up, after two visits of the gate
//	counts    entered = waiting + in + completed + withdrawn + timed out + cleared
//	rate      no window has more grants than the rate
//
// Three rules hold them up that one would not miss at first sight; each is a Mistake here, with the story of what happens without it:
//
//	WordTrusted, AgainTrusted  a word is no grant: whoever hears it asks the gate. A word may be of an earlier life of the ticket,
//	                           whose turn was forgotten, and which left and entered again
//	LeaveUnfenced              that a ticket is not wanted may be said only by the owner, of the history as the store has it
//	PendingWanted              a record is a sign that a start was let in only if the instance is not pending
//
// One fault is not healed by a rule: a leave that a client repeats over another connection, or that is on its way while another
// owner acquires, can reach the gate after the ticket has entered again. Until the instance asks again one more may be let in. The walks
// allow just that (see World.late).
package gates
