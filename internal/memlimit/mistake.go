package memlimit

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

// ScriptMistakes lists those that the scripts can make.
func ScriptMistakes() []Mistake {
	return []Mistake{
		Overtakes, EnterTwice, CountedTwice, AwayForgotten, SweepFrees, RestoredRefused, RestoredTwice, RateUnseen, StampIgnored, OlderPolicy,
	}
}
