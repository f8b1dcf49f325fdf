package gates

import "github.com/pawlrun/pawl/internal/memlimit"

// The mistakes of their callers.
const (
	LeaveEarly     memlimit.Mistake = "a cancelled activity leaves before the commit"
	WordOnce       memlimit.Mistake = "a word that was lost is never said again"
	GrantTwice     memlimit.Mistake = "a grant is taken up twice"
	UnknownIgnored memlimit.Mistake = "a word for a ticket that nobody knows is ignored"
	DisownBlind    memlimit.Mistake = "a ticket is disowned without a look"
	WordTimeless   memlimit.Mistake = "a word is believed whatever entry it is about"
	PendingWanted  memlimit.Mistake = "an instance that waits counts as one that was let in"
	WaitingKept    memlimit.Mistake = "the record keeps the slot of who waits"
	NeverForgone   memlimit.Mistake = "the record keeps a slot after the call has ended"
	NeverAsks      memlimit.Mistake = "nobody asks again"
	Unlisted       memlimit.Mistake = "an entry does not put the gate on its list"
)

// Mistakes lists all of them.
func Mistakes() []memlimit.Mistake {
	return []memlimit.Mistake{
		memlimit.Overtakes, memlimit.EnterTwice, memlimit.CountedTwice, memlimit.AwayForgotten, memlimit.SweepFrees, memlimit.RestoredRefused, memlimit.RestoredTwice, memlimit.RateUnseen, memlimit.StampIgnored,
		LeaveEarly, WordOnce, GrantTwice, UnknownIgnored, DisownBlind, WordTimeless, PendingWanted, WaitingKept, NeverForgone, NeverAsks, Unlisted,
	}
}
