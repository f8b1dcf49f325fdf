package message

// Ending is the way in which a cancelled activity ended, as reported by its worker.
type Ending string

// The endings. FinishedFirst is reported by the owner, not by the worker.
const (
	Stopped      Ending = "stopped"       // it returned after its context had ended
	FinishedLate Ending = "finished-late" // it returned by itself, and its worker was notified of the cancellation only then
	Abandoned    Ending = "abandoned"     // it did not return within its grace period
	NeverStarted Ending = "never-started" // the claim found no lease
	// FinishedFirst: its completion was in the inbox when the turn cancelled it. The owner reports it.
	FinishedFirst Ending = "finished-first"
)

// Report records how a cancelled activity ended, for audits. It is stored next to the history and has no effect: it is written
// afterwards, without a turn, and may be missing. It is stored as JSON.
type Report struct {
	Ending  Ending `json:"how"`
	AfterMS int64  `json:"after_ms"` // time since the end of the context
	Worker  string `json:"worker"`
	At      int64  `json:"at"` // Unix milliseconds, by the worker's clock
}

// Reported is a Report of one activity.
type Reported struct {
	Activity uint64
	Report   Report
}
