package memlimit

// Mistake is an invariant that a limit violates on purpose, to test the checks.
type Mistake string

// The mistakes that the scripts could make.
const (
	None            Mistake = ""
	Overtakes       Mistake = "a new ticket is admitted while another one waits"
	EnterTwice      Mistake = "a waiter that enters again becomes the last one"
	CountedTwice    Mistake = "a leave of an unknown ticket is counted"
	RejectionLost   Mistake = "a rejected ticket is not recorded, and waits again"
	SweepFrees      Mistake = "the sweep releases a holder without checking it"
	RestoredRefused Mistake = "a ticket that reports its admission is subject to the limit"
	RestoredTwice   Mistake = "a ticket that reports its admission remains a waiter, too"
	RateUnseen      Mistake = "a grant does not count toward the rate"
	StampIgnored    Mistake = "an orphaned ticket leaves although it was active since"
	OlderPolicy     Mistake = "an older policy replaces a newer one"
)

// ScriptMistakes returns all mistakes that the scripts could make.
func ScriptMistakes() []Mistake {
	return []Mistake{
		Overtakes, EnterTwice, CountedTwice, RejectionLost, SweepFrees, RestoredRefused, RestoredTwice, RateUnseen, StampIgnored, OlderPolicy,
	}
}
