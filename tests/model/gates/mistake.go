package gates

import "github.com/pawlrun/pawl/internal/memlimit"

// The mistakes of their callers.
const (
	LeaveEarly     memlimit.Mistake = "a cancelled activity leaves before the commit"
	WordOnce       memlimit.Mistake = "a notice that was lost is never repeated"
	GrantTwice     memlimit.Mistake = "a grant is taken up twice"
	UnknownIgnored memlimit.Mistake = "a notice for an unknown ticket is ignored"
	DisownBlind    memlimit.Mistake = "a ticket is disowned unseen"
	WordTimeless   memlimit.Mistake = "a notice is applied whatever entry it is about"
	PendingWanted  memlimit.Mistake = "an instance that waits counts as an admitted one"
	WaitingKept    memlimit.Mistake = "the record keeps the slot of a waiter"
	NeverForgone   memlimit.Mistake = "the record keeps a slot after the call has ended"
	NeverAsks      memlimit.Mistake = "no owner asks again"
	Unlisted       memlimit.Mistake = "an entry does not put the gate on its list"
)

// Mistakes lists all of them.
func Mistakes() []memlimit.Mistake {
	return []memlimit.Mistake{
		memlimit.Overtakes, memlimit.EnterTwice, memlimit.CountedTwice, memlimit.AwayForgotten, memlimit.SweepFrees, memlimit.RestoredRefused, memlimit.RestoredTwice, memlimit.RateUnseen, memlimit.StampIgnored,
		LeaveEarly, WordOnce, GrantTwice, UnknownIgnored, DisownBlind, WordTimeless, PendingWanted, WaitingKept, NeverForgone, NeverAsks, Unlisted,
	}
}
