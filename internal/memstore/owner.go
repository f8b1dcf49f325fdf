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
	Done       Answer = "DONE"       // this batch has been taken before: a reply was lost
	Fenced     Answer = "FENCED"     // another process owns the partition, or the token has expired
	Conflict   Answer = "CONFLICT"   // the state is not the one that the caller decided upon
	RolledBack Answer = "ROLLEDBACK" // the store has forgotten what it had acknowledged
)

func (s *Store) fenced(now int64, token string) bool {
	if s.Rules.Wrong == NoFence {
		return false
	}
	return s.Owner.Token != token || over(s.Owner.Until, s.Owner.Span, now)
}

// Acquire takes a partition that has no owner, or whose owner's time is over. It
// answers where the partition stands; clean: that the last owner handed it over.
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

// Renew prolongs the ownership. acked is the highest position whose ingest, and commits the highest number of a commit that
// was acknowledged to the caller. Positions compare by time: a stream that was deleted
// and made again counts from one, but not from the beginning of time.
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

// Release gives the partition back, also when the owner's time is over but no other has
// taken it; `applied` stays. clean: nothing has to be repaired.
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
	ID       string // of the sender, or empty: repeats carry the same
	Kind     string // start, event, cancel, purge
	At       Position
	Sent     int64  // when, for the execution's Now
	Element  string // the id of its element in the inbox; empty: ID
	Body     []byte // the input itself
	Update   bool   // its id is recognized for as long as the instance is there: the ledger has it
	Plain    bool   // a start that has no effect if there is an instance
}

// inLedger is when the id of an update was taken, so that it does not expire.
const inLedger = 1 << 62

// What became of a message of a batch. Taken is followed by e if the instance has a
// record or n if it has none, and the length of the inbox.
const (
	Repeat  = "d"
	Full    = "f"
	Unknown = "u" // a cancel of an instance that was never started
)

// Ingest pushes a batch to the inboxes and moves `applied` from one position to
// another. It returns what became of each message.
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
	marks := map[string]int{} // of this batch, which its answers do not count
	for i, m := range batch {
		if fates[i] = s.take(now, m, marks[m.Instance]); fates[i] != Repeat && fates[i] != Unknown {
			s.bring(m.Instance, now)
		}
		if in := s.Get(m.Instance); fates[i] == Full && s.Rules.Wrong != FullUnsaid && !strings.HasPrefix(in.Inbox[len(in.Inbox)-1].ID, full) {
			in.Inbox = append(in.Inbox, Element{ID: full + strconv.FormatUint(to.Seq, 10) + s.Rules.Seal, Kind: "full", Time: now})
			marks[m.Instance]++
		}
	}
	s.Owner.Applied = to
	return OK, fates
}

// full begins the id of the mark that something was dropped where it stands.
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
		in.Inbox = slices.Insert(in.Inbox, 0, e) // before what came early
	} else {
		in.Inbox = append(in.Inbox, e)
	}
	return fate + strconv.Itoa(len(in.Inbox)-marks)
}

// Due lists the instances that must be looked at, most overdue first, and puts
// each back to the next moment before the caller acts upon it. It returns when the next is due; zero: never.
// The gates of the partition likewise; one that is farther away than a visit is ever put off is due, too.
func (s *Store) Due(now int64, token string, most int) (a Answer, instances, visits DueNow) {
	if s.fenced(now, token) {
		return Fenced, DueNow{}, DueNow{}
	}
	return OK, s.putOff(now, s.Agenda, most, math.MaxInt64), s.putOff(now, s.Gates, most, now+s.Rules.Soon)
}

// DueNow is who is due, and when the next one is; zero: never.
type DueNow struct {
	Who  []string
	Next int64
}

func (s *Store) putOff(now int64, agenda map[string]int64, most int, last int64) (d DueNow) {
	for id, at := range agenda {
		if at <= now || at > last {
			d.Who = append(d.Who, id)
		}
	}
	slices.SortFunc(d.Who, func(a, b string) int { return cmp.Or(cmp.Compare(agenda[a], agenda[b]), cmp.Compare(a, b)) })
	d.Who = d.Who[:min(len(d.Who), most)]
	for _, id := range d.Who {
		agenda[id] = now + s.Rules.Soon
	}
	for _, at := range agenda {
		if d.Next == 0 || at < d.Next {
			d.Next = at
		}
	}
	return d
}

// List puts a gate on the list of its partition, to be looked at now. It puts nothing off.
func (s *Store) List(now int64, gate string) {
	if at, ok := s.Gates[gate]; !ok || now < at {
		s.Gates[gate] = now
	}
}

// Relist sets in how long a gate is looked at next, after a visit; zero takes it off the list. If it is due, a caller has come since, and that stands.
func (s *Store) Relist(now int64, gate string, in int64) {
	switch due, ok := s.Gates[gate]; {
	case ok && due <= now:
	case in == 0:
		delete(s.Gates, gate)
	default:
		s.Gates[gate] = now + in
	}
}
