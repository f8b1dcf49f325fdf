package record

import (
	"encoding/json"
	"math"
	"time"

	"github.com/pawlrun/pawl/pkg/lease"
)

// storedReport is the form of a lease.Report in Redis.
type storedReport struct {
	Ending  lease.Ending `json:"how"`
	AfterMS int64        `json:"after_ms"`
	Worker  string       `json:"worker"`
	At      int64        `json:"at"` // Unix ms; 0: not recorded
}

// EncodeReport returns the stored form of a report.
func EncodeReport(r lease.Report) []byte {
	s := storedReport{Ending: r.Ending, AfterMS: r.After.Milliseconds(), Worker: r.Worker}
	if !r.At.IsZero() {
		s.At = r.At.UnixMilli()
	}
	b, err := json.Marshal(s)
	if err != nil { // numbers and texts can be encoded
		panic("record: report: " + err.Error())
	}
	return b
}

// DecodeReport reads the stored form of a report. ok is false for an invalid text, because any worker may write reports.
func DecodeReport(text string) (r lease.Report, ok bool) {
	const longest = int64(math.MaxInt64 / time.Millisecond)
	var s storedReport
	if err := json.Unmarshal([]byte(text), &s); err != nil || s.Ending == "" || s.AfterMS < 0 || s.AfterMS > longest {
		return r, false
	}
	r = lease.Report{Ending: s.Ending, After: time.Duration(s.AfterMS) * time.Millisecond, Worker: s.Worker}
	if s.At != 0 {
		r.At = time.UnixMilli(s.At).UTC()
	}
	return r, true
}
