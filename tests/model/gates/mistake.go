package gates

// Mistake is a law that is broken on purpose.
type Mistake string

// The mistakes of the scripts.
const (
	None            Mistake = ""
	Overtakes       Mistake = "a newcomer is let in while somebody waits"
	EnterTwice      Mistake = "who waits and enters again goes to the end"
	CountedTwice    Mistake = "a leave of nobody is counted"
	AwayForgotten   Mistake = "who was turned away is not remembered, and queues anew"
	SweepFrees      Mistake = "the sweep frees a holder without asking"
	RestoredRefused Mistake = "who says it has been let in is held to the limit"
	RestoredTwice   Mistake = "who says it has been let in stays in the queue, too"
	RateUnseen      Mistake = "a grant does not count for the rate"
	StampIgnored    Mistake = "a disowned ticket leaves whatever was heard of it since"
	OlderPolicy     Mistake = "an older policy replaces a newer one"
)

// The mistakes of those who call them.
const (
	LeaveEarly     Mistake = "a cancelled activity leaves before the commit"
	WordOnce       Mistake = "a word that was lost is never said again"
	GrantTwice     Mistake = "a grant is taken up twice"
	UnknownIgnored Mistake = "a word for a ticket that nobody knows is ignored"
	DisownBlind    Mistake = "a ticket is disowned without a look"
	WordTimeless   Mistake = "a word is believed whatever entry it is about"
	PendingWanted  Mistake = "an instance that waits counts as one that was let in"
	WaitingKept    Mistake = "the record keeps the slot of who waits"
	NeverForgone   Mistake = "the record keeps a slot after the call has ended"
	NeverAsks      Mistake = "nobody asks again"
	Unlisted       Mistake = "an entry does not put the gate on its list"
)

// Mistakes lists all of them.
func Mistakes() []Mistake {
	return []Mistake{
		Overtakes, EnterTwice, CountedTwice, AwayForgotten, SweepFrees, RestoredRefused, RestoredTwice, RateUnseen, StampIgnored,
		LeaveEarly, WordOnce, GrantTwice, UnknownIgnored, DisownBlind, WordTimeless, PendingWanted, WaitingKept, NeverForgone, NeverAsks, Unlisted,
	}
}

// ScriptMistakes lists those that the scripts can make.
func ScriptMistakes() []Mistake {
	return []Mistake{
		Overtakes, EnterTwice, CountedTwice, AwayForgotten, SweepFrees, RestoredRefused, RestoredTwice, RateUnseen, StampIgnored, OlderPolicy,
	}
}
