package history

// Recorded is where imported executions, up to the given one, were originally recorded. Their random values and the ids of their
// children are derived from it.
type Recorded struct {
	Execution uint64 // last execution that was recorded there
	Instance  string
	Origin    Position
}
