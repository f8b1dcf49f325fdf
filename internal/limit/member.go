// Package limit defines the requests to limits and their replies, as plain data, and everything that is computed from them alone: names,
// keys, members and policies. Package limiter stores the limits.
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
	Active bool // it was admitted before, according to the history of its instance
}

// AdmitRequest is a request of one caller to a limit. Its leaves are processed before its entries.
type AdmitRequest struct {
	Limit   string
	InForce InForce // the zero value keeps the policy of the limit
	Leave   []Member
	Enter   []Entry
}

// Kind is the outcome of an entry.
type Kind uint8

// The kinds.
const (
	Admitted  Kind = 1 // it is a holder, by this request or an earlier one
	Waiting   Kind = 2 // it is a waiter
	QueueFull Kind = 3 // rejected because there are too many waiters; not recorded
	Limited   Kind = 4 // rejected because there is no room and the policy rejects; not recorded
	TimedOut  Kind = 5 // rejected after the maximum wait; recorded until it leaves
	Cleared   Kind = 6 // rejected because the waiters were cleared; recorded until it leaves
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
	Position int   // Waiting: position from 1
	Until    int64 // Unix ms. Waiting: when it times out, 0: never. Limited: when rate and quota allow the next grant, 0: they do now
}

// AdmitReply is the reply to an AdmitRequest.
type AdmitReply struct {
	Now      int64     // Redis TIME, Unix ms
	Verdicts []Verdict // one for each of Enter
	Granted  []Member  // waiters admitted by this request, whose owners must be notified; only one of the requests in one script receives them

	Waiting, Holding int
	LimitedUntil     int64 // Unix ms; 0: rate and quota allow the next one
	SweepNow         bool  // the owner of the limit's partition must sweep it now, because its wakeup may be too late
}

// Member is a caller at a limit, identified by all four parts. A caller enters and leaves with the same parts.
type Member struct {
	Ticket         string // effect id of the activity, or of the start
	Instance       string
	Place          string // ActivityPlace, StartPlace or RetainedPlace: where to check whether the ticket is still required
	HeldByAncestor string // ticket of an ancestor that holds the same limit; empty: none
}

// RetainedPlace is the place of a slot that is retained between two attempts of an activity. It is required as long as the record of the
// instance names its ticket.
const RetainedPlace = "-"

// ActivityPlace returns the place of the activity that the event schedules.
func ActivityPlace(execution, event uint64) string {
	return strconv.FormatUint(execution, 10) + "." + strconv.FormatUint(event, 10)
}

// StartPlace returns the place of the start of the instance with the origin.
func StartPlace(origin history.Position) string {
	return "o" + strconv.FormatUint(origin.Seq, 10) + "." + strconv.FormatInt(origin.Time, 10)
}

// Activity returns the event that schedules the activity; ok is false if the member is not an activity.
func (m Member) Activity() (execution, event uint64, ok bool) {
	x, e, ok := strings.Cut(m.Place, ".")
	execution, bad := strconv.ParseUint(x, 10, 64)
	event, worse := strconv.ParseUint(e, 10, 64)
	return execution, event, ok && bad == nil && worse == nil
}

// Origin returns the origin of the instance, as seq.time; ok is false if the member is not the start of an instance.
func (m Member) Origin() (origin string, ok bool) { return strings.CutPrefix(m.Place, "o") }

// StartTicket returns the ticket of an instance: like an effect id, 128 bits of SHA-256 in 22 characters of base64url.
func StartTicket(instance string, origin history.Position) string {
	b := append([]byte("limit of a start\n"+instance+"\n"), make([]byte, 0, 16)...)
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

// ErrMember is the error of a text that does not encode a member.
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
	Cleared bool // cleared; otherwise it timed out
}

// SweepReply is the reply to a sweep.
type SweepReply struct {
	Now      int64       // Redis TIME, Unix ms
	Granted  []Member    // admitted by this sweep: their owners must be notified
	Rejected []Rejection // rejected by this or an earlier sweep or clear, and without a notice in the last two seconds: their owners must be notified
	Stale    []Member    // holders that have not been known to be required for two seconds: see FindOrphans

	Waiting, Holding int
	LimitedUntil     int64         // Unix ms; 0: rate and quota allow the next one
	Next             int64         // time of the next sweep, Unix ms; 0: there are no members
	Deadlocked       bool          // there is no room for another holder, and every holder has a waiter among its descendants
	IdleFor          time.Duration // time since the last use; 0 unless the limit is empty
	Declared         history.Declared
	Version          uint64 // version of the limit's policy
	More             bool   // there is more to do than one sweep does: sweep again at once
}

// Orphan is a member that its instance does not require, according to the owner that received a notice about it.
type Orphan struct {
	Member Member
	At     int64 // time of the notice by the limit's clock, Unix ms
}
