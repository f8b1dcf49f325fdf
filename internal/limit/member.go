// Package limit has the requests that callers make of limits, and the replies, as plain data, with what is computed from them alone:
// names, keys, members and policies. Package limiter has the limits themselves.
package limit

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl/pkg/history"
)

// Entry requests admission.
type Entry struct {
	Member Member
	Active bool // it was admitted before, according to its history
}

// AdmitRequest is a request of one caller to a limit. Leaves come before entries.
type AdmitRequest struct {
	Limit   string
	InForce InForce // the zero value: the policy of the limit stands
	Leave   []Member
	Enter   []Entry
}

// Kind is the outcome of an entry.
type Kind uint8

// The kinds.
const (
	Admitted  Kind = 1 // it is a holder: now, or since before
	Waiting   Kind = 2 // it is a waiter
	QueueFull Kind = 3 // rejected: there are as many waiters as are allowed; not recorded
	Limited   Kind = 4 // rejected: there is no room, and the policy rejects; not recorded
	TimedOut  Kind = 5 // rejected after the maximum wait; recorded until it leaves
	Cleared   Kind = 6 // rejected: the waiters were cleared; recorded until it leaves
)

var kindNames = [...]string{Admitted: "admitted", Waiting: "waiting", QueueFull: "queue full", Limited: "limited", TimedOut: "timed out", Cleared: "cleared"}

// String returns the name of the kind.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return "kind-" + strconv.Itoa(int(k))
}

// Verdict is the outcome of an entry.
type Verdict struct {
	Kind     Kind
	Position int   // Waiting: from 1
	Until    int64 // Waiting: when it times out; Limited: when rate and quota allow the next one. Unix ms; 0: never, or not because of them
}

// AdmitReply is the reply to an AdmitRequest.
type AdmitReply struct {
	Now      int64     // Redis TIME, Unix ms
	Verdicts []Verdict // one for each of Enter
	Granted  []Member  // waiters that this request admitted: their owners must be notified. Of requests in one script only one has them

	Waiting, Holding int
	LimitedUntil     int64 // Unix ms; 0: rate and quota allow the next one
	SweepNow         bool  // the owner of the limit's partition must sweep it now, because its wakeup may be too late
}

// Member is a caller at a limit: all four parts together. A caller enters and leaves with the same parts.
type Member struct {
	Ticket         string // effect id of the activity, or of the start
	Instance       string
	Place          string // ActivityPlace, StartPlace or RetainedPlace: where to find whether the ticket is still required
	HeldByAncestor string // ticket of an ancestor that holds the same limit; empty: none
}

// RetainedPlace is the place of a slot that is retained from one attempt to the next: it is required as long as the record of its
// instance names it.
const RetainedPlace = "-"

// ActivityPlace returns the place of an activity, by the event that schedules it.
func ActivityPlace(execution, event uint64) string {
	return strconv.FormatUint(execution, 10) + "." + strconv.FormatUint(event, 10)
}

// StartPlace returns the place of an instance of that origin.
func StartPlace(origin history.Position) string {
	return "o" + strconv.FormatUint(origin.Seq, 10) + "." + strconv.FormatInt(origin.Time, 10)
}

// Activity returns the event that schedules a member that is an activity.
func (m Member) Activity() (execution, event uint64, ok bool) {
	x, e, ok := strings.Cut(m.Place, ".")
	execution, bad := strconv.ParseUint(x, 10, 64)
	event, worse := strconv.ParseUint(e, 10, 64)
	return execution, event, ok && bad == nil && worse == nil
}

// Origin returns the origin, seq.time, of a member that is an instance.
func (m Member) Origin() (origin string, ok bool) { return strings.CutPrefix(m.Place, "o") }

// StartTicket returns the ticket of an instance: like an effect id, 128 bits of SHA-256 in 22 characters of base64url.
func StartTicket(instance string, origin history.Position) string {
	b := append([]byte("gate of a start\n"+instance+"\n"), make([]byte, 0, 16)...)
	b = binary.BigEndian.AppendUint64(b, origin.Seq)
	b = binary.BigEndian.AppendUint64(b, uint64(origin.Time)) //nolint:gosec // the bits, not the number
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// String returns the member as the limit stores it: its parts, separated by spaces.
func (m Member) String() string {
	s := m.Ticket + " " + m.Instance + " " + m.Place
	if m.HeldByAncestor != "" {
		s += " " + m.HeldByAncestor
	}
	return s
}

// ErrMember is a text that is no member.
var ErrMember = errors.New("not a member of a limit")

// ParseMember parses the text of String. The error matches ErrMember.
func ParseMember(text string) (Member, error) {
	f := strings.Split(text, " ")
	if len(f) < 3 || len(f) > 4 || f[0] == "" || f[1] == "" || f[2] == "" || len(f) == 4 && f[3] == "" {
		return Member{}, fmt.Errorf("%w: %.200q", ErrMember, text)
	}
	m := Member{Ticket: f[0], Instance: f[1], Place: f[2]}
	if len(f) == 4 {
		m.HeldByAncestor = f[3]
	}
	return m, nil
}

// Rejection is a waiter that was rejected.
type Rejection struct {
	Member
	Cleared bool // the waiters were cleared; otherwise it has timed out
}

// SweepReply is the reply to a sweep.
type SweepReply struct {
	Now      int64       // Redis TIME, Unix ms
	Granted  []Member    // admitted by this sweep: their owners must be notified
	Rejected []Rejection // rejected, by this sweep or before, without a notice in the last two seconds: their owners must be notified
	Stale    []Member    // holders not known to be required for two seconds: see FindOrphans

	Waiting, Holding int
	LimitedUntil     int64         // Unix ms; 0: rate and quota allow the next one
	Next             int64         // the next sweep, Unix ms; 0: there are no members
	Deadlocked       bool          // the concurrency is exhausted, and every holder has a waiter among its descendants
	IdleFor          time.Duration // since the last use; 0 unless it is empty
	Declared         history.Declared
	Version          uint64 // of the policy in force
	More             bool   // it has done as much as one sweep does: sweep again now
}

// Orphan is a member that its instance does not require, according to the owner that got a notice about it.
type Orphan struct {
	Member Member
	At     int64 // of the notice, by the limit's clock, Unix ms
}
