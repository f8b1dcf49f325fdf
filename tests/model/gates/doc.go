// Package gates is the protocol of docs/decisions/0014-gates.md without its servers: a world of instances, their owners, and gates (those
// of package memlimit), which is searched, breadth first and by random walks, for a state that breaks a promise.
//
// The promises, as seen from outside:
//
//	limit     who runs is a holder. After a rollback more may run than the concurrency: by as many grants as the gate has
//	          forgotten, or ends as an instance has. Who runs and asks again is a holder again, whatever has been forgotten
//	order     nobody who came to a gate later is let in before somebody who waits there, and nobody who waits loses its place
//	liveness  once nothing goes wrong any more, every instance ends, and no member is left at a limit
//	no leak   a slot that nobody wants is free, and a grant that got lost is taken up, after two visits of the gate
//	counts    entered = waiting + in + completed + withdrawn + timed out + cleared
//	rate      no window has more grants than the rate
//
// These rules hold them up, and one would not miss them at first sight; each is a Mistake here, with the story of what happens without it:
//
//	WordTimeless   a word is believed only if it is from after the moment at which the entry was told that it waits, as the history
//	               has it; else the gate is asked. It may be of an earlier life of the ticket, whose turn was forgotten
//	DisownBlind    that a ticket is not wanted may be said only after a look: by the owner, of the history as the store has it
//	StampIgnored   and it counts only if the gate has heard nothing of the ticket since the word, for much may happen before it arrives
//	PendingWanted  a record is a sign that a start was let in only if the instance is not pending
//	WaitingKept    and the record names a kept slot only while the instance has it: from the commit that takes it up ...
//	NeverForgone   ... to the commit after which nobody wants it
//
// Time is that of a gate's clock, which does not step back. Scripts may share a millisecond; what follows from one comes later.
package gates
