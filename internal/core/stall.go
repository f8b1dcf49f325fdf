package core

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/text"
)

// maxWhy is how many bytes the reason of a stall has at most: it quotes names and errors that code and publishers have made.
const maxWhy = 1 << 10

// Stall is why an instance does not move. It is kept in the store as JSON, by instance.
type Stall struct {
	Kind  stallKind `json:"kind"`
	Why   string    `json:"why"`
	Since int64     `json:"since"` // Unix ms
	Tries int       `json:"tries"`
	until int64     // not tried again before, Unix ms
}

type stallKind string

const (
	stallUnregistered stallKind = "unregistered"    // no process that answers has the orchestration
	stallDiverged     stallKind = "non-determinism" // the code does not do what the history has
	stallUnreadable   stallKind = "unreadable"      // record, history or inbox do not decode
	stallSealed       stallKind = "sealed"          // a payload is encrypted with a key that this process does not have
	stallObject       stallKind = "object-store"    // an object cannot be read or written; all processes have the same store
	stallBlocked      stallKind = "blocked"         // the code did not come back
	stallEarly        stallKind = "not-started"     // inputs wait for a start
	stallNoWorker     stallKind = "no-worker"       // no worker can take an activity; it is not stored, and its instance is turned as always
)

// The pause before a stalled instance is tried again doubles from the first to the last.
const (
	FirstPause = 2 * time.Second
	lastPause  = time.Minute
	// blockedTries is how often code may block before the instance fails.
	blockedTries = 3
	// earlyKept is how long inputs wait for the start of their instance.
	earlyKept = 24 * time.Hour
)

func (s *Stall) pause() time.Duration {
	return min(FirstPause<<min(s.Tries, 6), lastPause)
}

// Lacks reports whether another owner may have what the instance waits for: code that fits its history, or a key. Of code that this process
// does not have at all the turns are decided elsewhere.
func (s *Stall) Lacks() bool { return s.Kind == stallDiverged || s.Kind == stallSealed }

// Encode returns the form in which the store keeps it.
func (s *Stall) Encode() string {
	cut := *s
	cut.Why = text.Shorten(s.Why, maxWhy)
	b, err := json.Marshal(cut)
	if err != nil {
		return fmt.Sprintf(`{"kind":%q}`, s.Kind)
	}
	return string(b)
}

// ParseStall reads what the store has kept.
func ParseStall(encoded string) *Stall {
	s := &Stall{}
	if json.Unmarshal([]byte(encoded), s) != nil {
		return &Stall{Why: encoded}
	}
	return s
}

// stall keeps an instance from being turned for a while, and records why.
func (r *removals) stall(in *instance, kind stallKind, why string) {
	if kind == stallUnreadable {
		r.wipeOr(in, &Stall{Kind: kind, Why: why})
		return
	}
	_, purge := in.forcedPurge()
	_, urgent := in.urgent()
	if purge != nil || urgent != nil || r.forced[in.id] {
		delete(r.forced, in.id)
		r.owner.unloadCode(in)
		r.owner.inbox.search(in, outstanding{goal: toPurge, stall: &Stall{Kind: kind, Why: why}}) // memory has the head of it only
		return
	}
	r.deferInstance(in, kind, why)
}

func (r *removals) deferInstance(in *instance, kind stallKind, why string) {
	s := r.stalls[in.id]
	if s == nil || s.Kind != kind {
		s = &Stall{Kind: kind, Since: r.owner.clock.now()}
		r.stalls[in.id] = s
		r.owner.met[CountStalls]++
		r.owner.log.Warn("instance stalled", "instance", in.id, "kind", kind, "why", why)
		r.owner.commits.publishChange(in, message.Change{Status: string(in.status()), Stalled: text.Shorten(why, maxWhy)}, s.Since)
	}
	pause := s.pause()
	s.Why, s.Tries, s.until = why, s.Tries+1, r.owner.clock.now()+pause.Milliseconds()
	r.suspend(in, s, nil)
}

// suspend puts a stalled instance off, and takes out of their gates what it does not use there. What it has unread stays where it is.
func (r *removals) suspend(in *instance, s *Stall, unused map[string]GateNotice) {
	r.owner.unloadCode(in)
	if in.phase == Absent { // not even the record may be readable: the head alone is enough to hold it
		r.owner.request(in, fetchingHead, outstanding{stall: s, notices: unused}, Effect{Kind: FetchHead})
		return
	}
	r.suspendAt(in, in.head(), s, unused)
}

func (r *removals) suspendAt(in *instance, head string, s *Stall, unused map[string]GateNotice) {
	l := &record.Reconciliation{Head: head, Wakeup: s.until, InboxHold: record.HoldAll, Stalled: s.Encode()}
	r.owner.leases.reconcileAs(in, suspending, outstanding{recon: l, stall: s, notices: unused})
}

func (r *removals) headRead(in *instance, req outstanding, head string, err error) {
	if err != nil {
		r.owner.forgetFailed(in, "reconcile", err)
		return
	}
	r.suspendAt(in, head, req.stall, req.notices)
}

// suspended puts a stalled instance away. Only its outbox stays, until the stream has it and the store has recorded that: each try
// would send it again otherwise.
func (r *removals) suspended(in *instance, s *Stall, published record.Watermark) {
	kept, sent := in.outbox, in.sent
	r.owner.unload(in)
	in.outbox, in.sent = kept, sent
	switch {
	case len(kept) > 0: // the stream's answer has it held once more
	case sent != published, s.until == 0: // a forced purge has come meanwhile, and does not wait for the next try
		r.owner.advance(in)
	default:
		delete(r.owner.instances, in.id)
	}
}

// tryAgain ends the pause of a stalled instance, which an owner before may have recorded. Early inputs wait for a start: trying them
// again would change nothing.
func (r *removals) tryAgain(id string) {
	if s := r.stalls[id]; s != nil {
		if s.Kind == stallEarly {
			return
		}
		s.until = 0
	}
	r.owner.schedule.todo = append(r.owner.schedule.todo, id)
}

// codeJoined tries the instances again that lack their code, a bounded number at a time.
func (r *removals) codeJoined() {
	for _, id := range sorted(r.stalls) {
		if s := r.stalls[id]; s.Kind == stallUnregistered {
			s.until = 0
			r.owner.schedule.todo = append(r.owner.schedule.todo, id)
		}
	}
}

// early keeps inputs that came before their instance was started, for a day.
func (l *leases) early(in *instance) {
	over := func(u Unread) bool {
		return u.forgotten() || !u.start() && l.owner.schedule.isDue(in.id, u.Ev.Meta().At+earlyKept.Milliseconds())
	}
	if over(in.unread[0]) {
		n := 1
		for n < len(in.unread) && over(in.unread[n]) { // the younger ones have their day still
			n++
		}
		if !in.unread[0].forgotten() {
			l.owner.log.Warn("inputs without start dropped", "instance", in.id, "inputs", n)
		}
		l.owner.removals.stalls[in.id] = &Stall{Kind: stallEarly} // so that the listing is taken back
		l.owner.commits.takeOut(in, n)
		return
	}
	oldest := in.unread[0].Ev.Meta().At
	drop := oldest + earlyKept.Milliseconds()
	s := &Stall{Kind: stallEarly, Since: oldest, Why: fmt.Sprintf("inputs came before a start of this instance; they are kept for %v", earlyKept), until: drop}
	notices := in.notices // about an earlier incarnation, or of a ticket that will enter anew
	in.notices = nil
	recon := &record.Reconciliation{Head: in.head(), Wakeup: l.owner.schedule.notBefore(drop), InboxHold: record.HoldEarly, Stalled: s.Encode()}
	l.reconcileAs(in, keepingEarly, outstanding{recon: recon, notices: notices})
}

// keptEarly forgets an instance that waits for its start, unless something has come meanwhile.
func (l *leases) keptEarly(in *instance, notices map[string]GateNotice) {
	came := in.pending.some() // perhaps the start
	in.pending.inputs = nil
	switch {
	case came:
		l.owner.notices.keepNotices(in, notices)
		in.needsInboxRead = true
	default:
		l.owner.notices.releaseOrphans(notices)
		if len(in.notices) == 0 {
			l.owner.forget(in)
			return
		} // else they came behind the reconciliation, which does not speak for them
	}
	l.owner.resume(in, sawNothing)
}
