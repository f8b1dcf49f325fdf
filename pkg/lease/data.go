package lease

// Ending is the way in which a cancelled activity ended.
type Ending string

// The endings. A worker reports all of them except FinishedFirst.
const (
	Stopped      Ending = "stopped"       // it returned after its context had ended
	FinishedLate Ending = "finished-late" // it returned by itself, and its worker was notified of the cancellation only then
	Abandoned    Ending = "abandoned"     // it did not return within its grace period
	NeverStarted Ending = "never-started" // the claim found no lease

	// FinishedFirst: its completion was in the inbox when the turn cancelled it. The owner of the partition reports it.
	FinishedFirst Ending = "finished-first"
)

// Report records how a cancelled activity ended, for audits. It is stored next to the history, as JSON, and has no effect: it is written
// afterwards, without a turn, and may be missing.
type Report struct {
	Ending  Ending `json:"how"`
	AfterMS int64  `json:"after_ms"` // milliseconds from the end of its context to its return, or to the end of its grace period
	Worker  string `json:"worker"`   // name of the worker; empty: the owner reports it
	At      int64  `json:"at"`       // Unix milliseconds, by the worker's clock
}

// Reported is a Report about one activity of an execution.
type Reported struct {
	Activity uint64 // id of the history event that scheduled it
	Report   Report
}
