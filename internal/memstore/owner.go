package memstore

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Answer is the first word of a script's reply.
type Answer string

// The answers of the owner's scripts.
const (
	OK         Answer = "OK"
	Done       Answer = "DONE"       // the batch was ingested before: a reply was lost
	Fenced     Answer = "FENCED"     // another process owns the partition, or the token has expired
	Conflict   Answer = "CONFLICT"   // the state is not the one on which the caller decided
	RolledBack Answer = "ROLLEDBACK" // the store has lost acknowledged writes
)

func (s *Store) fenced(now int64, token string) bool {
	if s.Rules.Wrong == NoFence {
		return false
	}
	return s.Owner.Token != token || over(s.Owner.Until, s.Owner.Span, now)
}

// Acquire acquires a partition without an owner, or whose ownership has expired. It returns the position up to which inputs are ingested.
// clean: the previous owner released the partition.
func (s *Store) Acquire(now int64, token string) (a Answer, applied Position, clean bool) {
	o := &s.Owner
	if o.Token != "" && o.Token != token && !over(o.Until, o.Span, now) {
		return Held, Position{}, false
	}
	clean = o.Clean
	o.Token, o.Until, o.Span, o.Clean = token, now+s.Rules.OwnerTTL, s.Rules.OwnerTTL, false
	o.Epoch++
	return OK, o.Applied, clean
}

// Renew extends the ownership. acked is the highest position whose ingest was acknowledged to the caller, and commits the highest number of
// an acknowledged commit. Positions are compared by time: the sequences of a stream that was deleted and created again start from one.
func (s *Store) Renew(now int64, token string, acked Position, commits int64) Answer {
	if s.fenced(now, token) {
		return Fenced
	}
	if (s.Owner.Applied.Time < acked.Time || s.Owner.Commits < commits) && s.Rules.Wrong != NoApplied {
		return RolledBack
	}
	s.Owner.Until, s.Owner.Span = now+s.Rules.OwnerTTL, s.Rules.OwnerTTL
	return OK
}

// Release releases the partition, even if the ownership has expired and no other process has acquired it. The position stays.
// clean: nothing has to be repaired.
func (s *Store) Release(token string, clean bool) Answer {
	if s.Owner.Token != token {
		return Fenced
	}
	s.Owner.Token, s.Owner.Until, s.Owner.Clean = "", 0, clean
	return OK
}

// Message is one message of the inputs stream.
type Message struct {
	Instance string
	ID       string // message id of the sender, which repeats carry, too; or empty
	Kind     string // start, event, cancel, purge
	At       Position
	Sent     int64  // when it was sent, for the execution's Now
	Element  string // id of its element in the inbox; empty: ID
	Body     []byte // the input itself
	Update   bool   // the ledger records its id for as long as the instance exists
	Plain    bool   // a start that has no effect on an existing instance
}

// inLedger replaces the time at which the id of an update was seen, so that it does not expire.
const inLedger = 1 << 62

// The outcome of a message of a batch. The outcome of any other message is e if the instance has a
// record, or n if it has none, followed by the length of the inbox.
const (
	Repeat  = "d"
	Full    = "f"
	Unknown = "u" // a cancel of an instance that was never started
)

// Ingest pushes a batch to the inboxes and moves the applied position. It returns the outcome of each message.
func (s *Store) Ingest(now int64, token string, from, to Position, batch []Message) (Answer, []string) {
	if s.fenced(now, token) {
		return Fenced, nil
	}
	if s.Owner.Applied == to && from != to {
		return Done, nil
	}
	if s.Owner.Applied != from && s.Rules.Wrong != NoPreviousPosition {
		return Conflict, nil
	}
	fates := make([]string, len(batch))
	marks := map[string]int{} // marks of this batch by instance, which the returned lengths do not include
	for i, m := range batch {
		if fates[i] = s.take(now, m, marks[m.Instance]); fates[i] != Repeat && fates[i] != Unknown {
			s.wakeBy(m.Instance, now)
		}
		if in := s.Get(m.Instance); fates[i] == Full && s.Rules.Wrong != FullUnsaid && !strings.HasPrefix(in.Inbox[len(in.Inbox)-1].ID, full) {
			in.Inbox = append(in.Inbox, Element{ID: full + strconv.FormatUint(to.Seq, 10) + s.Rules.Seal, Kind: "full", Time: now})
			marks[m.Instance]++
		}
	}
	s.Owner.Applied = to
	return OK, fates
}

// full is the prefix of the id of a mark: an input was dropped at its place.
const full = "full."

func (s *Store) take(now int64, m Message, marks int) string {
	in := s.make(m.Instance)
	at, seen := in.Seen[m.ID]
	if seen && m.ID != "" && at > now-s.Rules.Seen && s.Rules.Wrong != NoRepeats {
		return Repeat
	}
	first := len(in.Inbox) > 0 && in.Inbox[0].Kind == "start"
	if (m.Kind == "cancel" || m.Kind == "purge") && in.Head == "" && !first {
		return Unknown
	}
	start := m.Kind == "start" && in.Head == "" && !first
	if n := len(in.Inbox); m.Plain && !start && n > 0 && in.Inbox[n-1].Kind == "start" {
		return Repeat
	}
	if len(in.Inbox)-marks >= s.Rules.Inbox && (!start || s.Rules.Wrong == FullStart) {
		return Full
	}
	if m.ID != "" {
		in.Seen[m.ID] = now
		if m.Update {
			in.Seen[m.ID] = inLedger
		}
		maps.DeleteFunc(in.Seen, func(_ string, at int64) bool { return at <= now-s.Rules.Seen })
	}
	e := Element{ID: m.Element, Kind: m.Kind, Time: m.Sent, Tag: m.ID, Body: m.Body}
	if e.ID == "" {
		e.ID = m.ID
	}
	fate := "n"
	if in.Head != "" {
		fate = "e"
	}
	if start {
		in.Inbox = slices.Insert(in.Inbox, 0, e) // before the early inputs
	} else {
		in.Inbox = append(in.Inbox, e)
	}
	return fate + strconv.Itoa(len(in.Inbox)-marks)
}

// Due lists at most limit due instances, most overdue first, and postpones each before the caller acts on it. It does the same for the
// limits of the partition; a limit whose wakeup is later than a visit is ever postponed is due, too.
func (s *Store) Due(now int64, token string, limit int) (a Answer, instances, visits DueNow) {
	if s.fenced(now, token) {
		return Fenced, DueNow{}, DueNow{}
	}
	return OK, s.takeDue(now, s.Wakeups, limit, math.MaxInt64), s.takeDue(now, s.Limits, limit, now+s.Rules.Soon)
}

// DueNow lists due ids, and the next wakeup; zero: none.
type DueNow struct {
	IDs  []string
	Next int64
}

// takeDue returns the ids that are due, or whose wakeup is after last, and postpones them.
func (s *Store) takeDue(now int64, wakeups map[string]int64, limit int, last int64) (d DueNow) {
	for id, at := range wakeups {
		if at <= now || at > last {
			d.IDs = append(d.IDs, id)
		}
	}
	slices.SortFunc(d.IDs, func(a, b string) int { return cmp.Or(cmp.Compare(wakeups[a], wakeups[b]), cmp.Compare(a, b)) })
	d.IDs = d.IDs[:min(len(d.IDs), limit)]
	for _, id := range d.IDs {
		wakeups[id] = now + s.Rules.Soon
	}
	for _, at := range wakeups {
		if d.Next == 0 || at < d.Next {
			d.Next = at
		}
	}
	return d
}

// List schedules a visit of a limit now, and postpones none.
func (s *Store) List(now int64, name string) {
	if at, ok := s.Limits[name]; !ok || now < at {
		s.Limits[name] = now
	}
}

// Reschedule sets the time until the next visit of a limit, after a visit; zero removes the wakeup. If the limit is due, a caller has entered it since, and the wakeup stays.
func (s *Store) Reschedule(now int64, name string, in int64) {
	switch due, ok := s.Limits[name]; {
	case ok && due <= now:
	case in == 0:
		delete(s.Limits, name)
	default:
		s.Limits[name] = now + in
	}
}
