package message

// Late is a completion that was in the inbox when the turn cancelled its activity. The owner drops it, and package lease stores a report.
type Late struct {
	Activity uint64 // id of the history event that scheduled it
	Worker   string
	At       int64 // Unix milliseconds, by the worker's clock
}
