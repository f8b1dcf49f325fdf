package core

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/text"
)

// maxReason is the maximum size of a stall's reason in bytes: it quotes names and errors of code and clients.
const maxReason = 1 << 10

// Stall is the reason why an instance cannot take a turn. The store keeps it as JSON, by instance.
type Stall struct {
	Kind   stallKind `json:"kind"`
	Reason string    `json:"reason"`
	Since  int64     `json:"since"` // Unix ms
	Tries  int       `json:"tries"`
	until  int64     // time of the next try, Unix ms
}

type stallKind string

const (
	stallUnregistered stallKind = "unregistered"    // no process that answers has the orchestration
	stallDiverged     stallKind = "non-determinism" // the code does not match the history
	stallUnreadable   stallKind = "unreadable"      // record, history or inbox do not decode
	stallSealed       stallKind = "sealed"          // a payload is encrypted with a key that this process does not have
	stallObject       stallKind = "object-store"    // an object cannot be read or written; all processes share one store
	stallBlocked      stallKind = "blocked"         // the code did not return from a turn
	stallEarly        stallKind = "not-started"     // inputs wait for the start of the instance
	stallNoWorker     stallKind = "no-worker"       // no worker can take an activity; listed only: the instance still takes turns
)

const (
	// FirstPause is the backoff before the first retry of a stalled instance. It doubles up to lastPause.
	FirstPause = 2 * time.Second
	lastPause  = time.Minute
	// blockedTries is the number of times that code may block before the instance fails.
	blockedTries = 3
	// earlyTTL is the time for which inputs wait for the start of their instance.
	earlyTTL = 24 * time.Hour
)

// Lacks reports whether another owner may have what this one lacks: code that matches the history, or a key. (Turns whose orchestration is
// not registered here are decided elsewhere, and need no other owner.)
func (s *Stall) Lacks() bool { return s.Kind == stallDiverged || s.Kind == stallSealed }

// AwaitsStart reports whether the instance has only inputs that arrived before its start. A retry would change nothing.
func (s *Stall) AwaitsStart() bool { return s.Kind == stallEarly }

// Encode returns the stored form.
func (s *Stall) Encode() string {
	cut := *s
	cut.Reason = text.Shorten(s.Reason, maxReason)
	b, err := json.Marshal(cut)
	if err != nil {
		return fmt.Sprintf(`{"kind":%q}`, s.Kind)
	}
	return string(b)
}

// ParseStall decodes the stored form.
func ParseStall(encoded string) *Stall {
	s := &Stall{}
	if json.Unmarshal([]byte(encoded), s) != nil {
		return &Stall{Reason: encoded}
	}
	return s
}

// stall suspends an instance until its next try, and records the reason. A forced purge or an urgent request in its inbox comes first.
func (r *removals) stall(in *instance, kind stallKind, reason string) {
	if kind == stallUnreadable {
		r.wipeOr(in, &Stall{Kind: kind, Reason: reason})
		return
	}
	_, purge := in.forcedPurge()
	_, urgent := in.urgent()
	if purge != nil || urgent != nil || r.forced[in.id] {
		delete(r.forced, in.id)
		r.owner.unloadCode(in)
		r.owner.inbox.search(in, outstanding{goal: toPurge, stall: &Stall{Kind: kind, Reason: reason}}) // memory may hold only its head
		return
	}
	r.deferInstance(in, kind, reason)
}

// deferInstance counts a try of a stalled instance, and suspends it until the next one.
func (r *removals) deferInstance(in *instance, kind stallKind, reason string) {
	s := r.stalls[in.id]
	if s == nil || s.Kind != kind {
		s = &Stall{Kind: kind, Since: r.owner.clock.now()}
		r.stalls[in.id] = s
		r.owner.met[CountStalls]++
		r.owner.log.Warn("instance stalled", "instance", in.id, "kind", kind, "reason", reason)
		r.owner.commits.publishChange(in, message.Change{Status: string(in.status()), Stalled: text.Shorten(reason, maxReason)}, s.Since)
	}
	pause := min(FirstPause<<min(s.Tries, 6), lastPause)
	s.Reason, s.Tries, s.until = reason, s.Tries+1, r.owner.clock.now()+pause.Milliseconds()
	r.suspend(in, s, nil)
}

// suspend records a stall and its next try, and then releases the tickets that the instance does not use. Unread inputs stay in the inbox.
func (r *removals) suspend(in *instance, s *Stall, unused map[string]LimitNotice) {
	r.owner.unloadCode(in)
	if in.phase == Absent { // even the record may be unreadable; the head suffices to suspend it
		r.owner.request(in, fetchingHead, outstanding{stall: s, notices: unused}, Effect{Kind: FetchHead})
		return
	}
	r.suspendAt(in, in.head(), s, unused)
}

func (r *removals) suspendAt(in *instance, head string, s *Stall, unused map[string]LimitNotice) {
	l := &record.Reconciliation{Head: head, Wakeup: s.until, Deferral: record.DeferAll, Stalled: s.Encode()}
	r.owner.leases.reconcileAs(in, suspending, outstanding{recon: l, stall: s, notices: unused})
}

func (r *removals) headRead(in *instance, req outstanding, head string, err error) {
	if err != nil {
		r.owner.dropFailed(in, "reconcile", err)
		return
	}
	r.suspendAt(in, head, req.stall, req.notices)
}

// suspended releases the memory of a stalled instance, except its outbox, until the stream has acknowledged it and the store has
// recorded that. Otherwise each try would send it again.
func (r *removals) suspended(in *instance, s *Stall, published record.Watermark) {
	kept, sent := in.outbox, in.sent
	r.owner.unload(in)
	in.outbox, in.sent = kept, sent
	switch {
	case len(kept) > 0: // the acknowledgement suspends it once more
	case sent != published, s.until == 0: // until 0: a forced purge has arrived, and does not wait for the next try
		r.owner.advance(in)
	default:
		delete(r.owner.instances, in.id)
	}
}

// tryAgain retries a stalled instance now, also one that a previous owner has suspended.
func (r *removals) tryAgain(id string) {
	if s := r.stalls[id]; s != nil {
		if s.AwaitsStart() {
			return
		}
		s.until = 0
	}
	r.owner.schedule.todo = append(r.owner.schedule.todo, id)
}

// codeJoined retries the instances that lack their code, a bounded number at a time.
func (r *removals) codeJoined() {
	for _, id := range sorted(r.stalls) {
		if s := r.stalls[id]; s.Kind == stallUnregistered {
			s.until = 0
			r.owner.schedule.todo = append(r.owner.schedule.todo, id)
		}
	}
}

// early keeps inputs that arrived before the start of their instance, for earlyTTL, and removes older ones.
func (l *leases) early(in *instance) {
	over := func(u Unread) bool {
		return u.obsolete() || !u.start() && l.owner.schedule.isDue(in.id, u.Ev.Meta().At+earlyTTL.Milliseconds())
	}
	if over(in.unread[0]) {
		n := 1
		for n < len(in.unread) && over(in.unread[n]) { // younger inputs still wait
			n++
		}
		if !in.unread[0].obsolete() {
			l.owner.log.Warn("inputs without start dropped", "instance", in.id, "inputs", n)
		}
		l.owner.removals.stalls[in.id] = &Stall{Kind: stallEarly} // so that the next reconciliation removes the listing
		l.owner.commits.takeOut(in, n)
		return
	}
	oldest := in.unread[0].Ev.Meta().At
	drop := oldest + earlyTTL.Milliseconds()
	s := &Stall{Kind: stallEarly, Since: oldest, Reason: fmt.Sprintf("inputs came before a start of this instance; they are kept for %v", earlyTTL), until: drop}
	notices := in.notices // about an earlier incarnation, or about a ticket that will enter again
	in.notices = nil
	recon := &record.Reconciliation{Head: in.head(), Wakeup: l.owner.schedule.notBefore(drop), Deferral: record.DeferEarly, Stalled: s.Encode()}
	l.reconcileAs(in, keepingEarly, outstanding{recon: recon, notices: notices})
}

// keptEarly drops an instance that waits for its start, unless an input or a notice has arrived meanwhile.
func (l *leases) keptEarly(in *instance, notices map[string]LimitNotice) {
	came := in.pending.some() // perhaps the start
	in.pending.inputs = nil
	switch {
	case came:
		l.owner.notices.keepNotices(in, notices)
		in.needsInboxRead = true
	default:
		l.owner.notices.releaseOrphans(notices)
		if len(in.notices) == 0 {
			l.owner.drop(in)
			return
		} // otherwise notices arrived after the reconciliation, which did not cover them
	}
	l.owner.resume(in, sawNothing)
}
