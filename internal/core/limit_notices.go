package core

import (
	"cmp"
	"slices"

	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// LimitNotice is the notice of a limit about a ticket: admitted, timed out or cleared.
type LimitNotice struct {
	Limit      string
	Member     limit.Member
	Kind       limit.Kind // not set if Unverified
	At         int64      // by the clock of the limit, Unix ms
	Requested  bool       // it answers a RepeatLimitRequest call of this owner
	Unverified bool       // it arrived as a message, which any client may send: the limit is queried before the notice is applied
	Since      int64      // for Requested: the WaitingSince of the ticket when it was requested
}

// concerns reports whether the notice concerns the ticket's current entry into the limit, which the history records. An older notice
// concerns an earlier entry, by a turn that was lost: the ticket has left and has entered again since.
func (w LimitNotice) concerns(k fold.Ticket) bool {
	since := k.Limit.WaitingSince
	if w.Requested { // does not depend on the clock of the limit
		return w.Since == since
	}
	return w.At > since && since != 0
}

// notices handles notices of limits about tickets of the partition's instances, and visits the partition's own limits.
type notices struct {
	owner  *Owner
	visits map[string]*visit
}

// onNotices handles the notices of other processes: from limits for instances of this partition, and requests to sweep its own limits.
func (n *notices) onNotices(ws []message.LimitNotice) {
	for _, w := range ws {
		if w.Member == "" {
			if n.visits[w.Limit] != nil || len(n.visits) < maxUnverified { // otherwise its wakeup causes the visit
				n.visitLimit(w.Limit)
			}
			continue
		}
		m, err := limit.ParseMember(w.Member)
		if err != nil {
			n.owner.log.Debug("notice of limit without ticket", "limit", w.Limit, "error", err)
			continue
		}
		if n.owner.instances[m.Instance] == nil && len(n.owner.schedule.todo) >= maxUnverified {
			continue // the sweep of the limit repeats it
		}
		n.deliver(LimitNotice{Limit: w.Limit, Member: m, At: w.At, Unverified: true})
	}
}

// onPassed handles the notices of other owners of this process.
func (n *notices) onPassed(ws []LimitNotice) {
	for _, w := range ws {
		n.deliver(w)
	}
}

// Encode returns the notice as a message to another process.
func (w LimitNotice) Encode() message.LimitNotice {
	return message.LimitNotice{Limit: w.Limit, Member: w.Member.String(), At: w.At}
}

// deliver keeps a notice for its instance, and makes the next step of the instance.
func (n *notices) deliver(w LimitNotice) {
	in := n.owner.instance(w.Member.Instance)
	n.keepNotice(in, w)
	n.owner.schedule.advanceOrDefer(in)
}

// maxUnverified bounds the memory used by messages that any client may send: deferred instances, and visited limits. A message over the
// bound is dropped; the sweep of the limit repairs it.
const maxUnverified = 10_000

func (n *notices) keepNotice(in *instance, w LimitNotice) {
	if in.notices == nil {
		in.notices = make(map[string]LimitNotice)
	}
	in.notices[w.Member.Ticket] = w
}

// keepNotices keeps notices again, unless a newer one about the same ticket has arrived meanwhile.
func (n *notices) keepNotices(in *instance, notices map[string]LimitNotice) {
	for id, w := range notices {
		if _, newer := in.notices[id]; !newer {
			n.keepNotice(in, w)
		}
	}
}

// applyNotices turns the notices about tickets of the history into inputs. The other notices are kept: unread inputs may still require the
// ticket, if a turn entered the limit and was lost in a crash before its commit.
func (n *notices) applyNotices(in *instance) {
	if len(in.notices) == 0 || in.state == nil || in.status().Ended() {
		return
	}
	type match struct {
		ticket fold.Ticket
		notice LimitNotice
	}
	var all []match
	for id, w := range in.notices {
		k, ok := in.matches(w)
		if !ok {
			continue
		}
		delete(in.notices, id)
		if k.Waiting {
			all = append(all, match{k, w})
		}
	}
	slices.SortFunc(all, func(x, y match) int { return cmp.Compare(x.ticket.Event, y.ticket.Event) }) // in the order in which they entered
	var calls limitCalls
	for _, h := range all {
		n.applyNotice(in, h.ticket, h.notice, &calls)
	}
	for _, c := range calls.all {
		n.owner.admission.repeatCall(in, c)
	}
}

// matches finds the ticket of the history that a notice is about. A turn that was lost may have entered the ticket into another limit,
// because the key path was different, or as another member, because it did not retain its slot.
func (in *instance) matches(w LimitNotice) (fold.Ticket, bool) {
	k, ok := in.state.Find(w.Member.Ticket)
	return k, ok && w.Limit == k.Limit.Name && w.Member == Member(in.id, k.Event, in.state, k.Limit)
}

// applyNotice applies a notice about a waiting ticket. If the limit must be queried first, the ticket is added to calls.
func (n *notices) applyNotice(in *instance, k fold.Ticket, w LimitNotice, calls *limitCalls) {
	switch {
	case w.Requested && !w.concerns(k): // the ticket has entered again since, and that entry was answered
	case w.Unverified, !w.concerns(k):
		calls.at(k.Limit.Name).repeat(in, k)
	case w.Kind == limit.Admitted:
		ev := &history.Granted{Scheduled: k.Event}
		ev.At = n.owner.clock.now()
		in.localInputs = append(in.localInputs, ev)
	case k.Event == 1:
		in.rejection, in.rejectedAt = limit.Verdict{Kind: w.Kind}, 0
		if w.Kind == limit.TimedOut {
			in.rejectedAt = n.owner.clock.now()
		}
	case w.Kind == limit.TimedOut:
		in.overdue = append(in.overdue, n.owner.admission.rejectedActivity(k.Event, w.Limit, w.Kind, 0))
	default:
		in.localInputs = append(in.localInputs, n.owner.admission.rejectedActivity(k.Event, w.Limit, w.Kind, 0))
	}
}

// confirmOrphans releases tickets that nothing in the instance requires. This owner may have been suspended and replaced, so a
// reconciliation first confirms that no input is unread, and that the in-memory history is the stored one.
func (n *notices) confirmOrphans(in *instance) {
	notices := in.notices
	in.notices = nil
	l := &record.Reconciliation{Head: in.head(), Wakeup: n.owner.commits.nextWakeup(in, in.state)}
	n.owner.leases.reconcileAs(in, releasing, outstanding{recon: l, notices: notices})
}

// releaseOrphans releases the tickets of these notices.
func (n *notices) releaseOrphans(notices map[string]LimitNotice) {
	of := make(map[string][]limit.Orphan)
	for _, id := range sorted(notices) {
		w := notices[id]
		of[w.Limit] = append(of[w.Limit], limit.Orphan{Member: w.Member, At: w.At})
		n.owner.met[CountOrphans]++
	}
	for _, name := range sorted(of) {
		n.owner.emit(Effect{Kind: ReleaseTickets, ID: name, Body: of[name]})
	}
}

// releaseUnused releases the tickets that a stalled instance does not use: it may be stalled for days, while others wait. The in-memory
// state may include a part of a turn, and only the head of the inbox, so the whole instance is read again.
func (n *notices) releaseUnused(in *instance, s *Stall) {
	if s.Kind == stallUnreadable || len(in.outbox) > 0 { // every load would send the pending messages again
		n.owner.removals.suspend(in, s, nil)
		return
	}
	notices := in.notices
	n.owner.unload(in)
	n.owner.inbox.load(in, outstanding{goal: toRelease, stall: s, notices: notices})
}

// unusedFound suspends a stalled instance again, and has its unused tickets released; inbox is its whole inbox.
func (n *notices) unusedFound(in *instance, req outstanding, inbox []Unread) {
	if req.stall.until <= n.owner.clock.now() { // a forced purge has arrived meanwhile, or it is time for the next try
		n.owner.unload(in)
		n.owner.advance(in)
		return
	}
	n.keepNotices(in, req.notices) // together with the notices that arrived during the load
	n.owner.outbox.flushOutbox(in)
	n.owner.removals.suspend(in, req.stall, in.unused(inbox))
}

// unused returns the notices about tickets that the instance does not use, whatever its next turn decides. Either the history does not
// contain the ticket, and a turn that is decided again enters again; or a worker has ended the activity, and its completion is unread.
func (in *instance) unused(inbox []Unread) map[string]LimitNotice {
	out := make(map[string]LimitNotice)
	for id, w := range in.notices {
		k, ok := in.matches(w)
		if ok && (k.Waiting || k.Limit.Retain || !slices.ContainsFunc(inbox, in.ends(k.Event))) {
			continue
		}
		out[id] = w
	}
	return out
}

// ends returns a predicate for inputs that complete the activity.
func (in *instance) ends(activity uint64) func(Unread) bool {
	return func(u Unread) bool { return u.ends(in.state.Activity(activity)) }
}

// notify passes notices of a limit to the owners of its members.
func (n *notices) notify(name string, ms []limit.Member, kind limit.Kind, at int64) {
	if len(ms) == 0 {
		return
	}
	all := make([]LimitNotice, len(ms))
	for i, m := range ms {
		all[i] = LimitNotice{Limit: name, Member: m, Kind: kind, At: at}
	}
	n.owner.emit(Effect{Kind: PassNotices, Body: all})
}
