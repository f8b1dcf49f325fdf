package memlimit

// Mistake is a law that is broken on purpose.
type Mistake string

// The mistakes of the scripts.
const (
	None            Mistake = ""
	Overtakes       Mistake = "a newcomer is admitted while another ticket waits"
	EnterTwice      Mistake = "a waiter that enters again goes to the end"
	CountedTwice    Mistake = "a leave of an unknown ticket is counted"
	AwayForgotten   Mistake = "a rejected ticket is not remembered, and queues anew"
	SweepFrees      Mistake = "the sweep frees a holder without asking"
	RestoredRefused Mistake = "a ticket that reports its admission is held to the limit"
	RestoredTwice   Mistake = "a ticket that reports its admission stays in the queue, too"
	RateUnseen      Mistake = "a grant does not count for the rate"
	StampIgnored    Mistake = "a disowned ticket leaves whatever was received of it since"
	OlderPolicy     Mistake = "an older policy replaces a newer one"
)

// ScriptMistakes lists those that the scripts can make.
func ScriptMistakes() []Mistake {
	return []Mistake{
		Overtakes, EnterTwice, CountedTwice, AwayForgotten, SweepFrees, RestoredRefused, RestoredTwice, RateUnseen, StampIgnored, OlderPolicy,
	}
}
