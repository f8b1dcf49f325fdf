package core

import (
	"cmp"
	"slices"

	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// GateNotice is the report of a gate about a ticket: admitted, or why not.
type GateNotice struct {
	Gate       string
	Member     limit.Member
	Kind       limit.Kind
	At         int64 // by the gate's clock, Unix ms
	Requested  bool  // it is the answer to this owner, who has asked about the ticket
	Unverified bool  // it came as a message, which any client may send: the gate is asked before anything is done
	Since      int64 // that waits since then
}

// concerns reports whether the notice concerns the entry of the ticket that the history has. A notice from before that entry is about
// another: of a turn that was lost, whose ticket has left and has entered again since.
func (w GateNotice) concerns(k history.Ticket) bool {
	since := k.Limit.WaitingSince
	if w.Requested { // whatever has become of the gate's clock
		return w.Since == since
	}
	return w.At > since && since != 0
}

// notices has what limits report about tickets, and the limits of the partition.
type notices struct {
	owner  *Owner
	visits map[string]*visit
}

// onNotices takes the notices of other processes: of gates, for instances of this partition, and for the gates of it.
func (n *notices) onNotices(ws []message.LimitNotice) {
	for _, w := range ws {
		if w.Kind == message.LimitSweep {
			if n.visits[w.Gate] != nil || len(n.visits) < maxUnverified { // otherwise its place on the list of gates brings it
				n.visitGate(w.Gate)
			}
			continue
		}
		m, err := limit.ParseMember(w.Member)
		if err != nil {
			n.owner.log.Debug("notice of limit without ticket", "gate", w.Gate, "error", err)
			continue
		}
		if n.owner.instances[m.Instance] == nil && len(n.owner.schedule.todo) >= maxUnverified {
			continue // the gate's sweep sends it again
		}
		n.deliver(GateNotice{Gate: w.Gate, Member: m, Kind: noticeKind(w.Kind), At: w.At, Unverified: true})
	}
}

// onPassed takes the notices of other owners of this process.
func (n *notices) onPassed(ws []GateNotice) {
	for _, w := range ws {
		n.deliver(w)
	}
}

func noticeKind(k message.LimitNoticeKind) limit.Kind {
	switch k {
	case message.LimitTimedOut:
		return limit.TimedOut
	case message.LimitCleared:
		return limit.Cleared
	default:
		return limit.Admitted
	}
}

// Encode is the word in the form in which it goes to another process.
func (w GateNotice) Encode() message.LimitNotice {
	out := message.LimitNotice{Gate: w.Gate, Member: w.Member.String(), At: w.At}
	switch w.Kind {
	case limit.TimedOut:
		out.Kind = message.LimitTimedOut
	case limit.Cleared:
		out.Kind = message.LimitCleared
	default:
		out.Kind = message.LimitGranted
	}
	return out
}

func (n *notices) deliver(w GateNotice) {
	in := n.owner.instance(w.Member.Instance)
	n.keepNotice(in, w)
	n.owner.schedule.bring(in)
}

// maxUnverified bounds what is kept because of messages that any client may send: instances that wait to be loaded, gates. Beyond it a
// message is dropped, and what it was about is found by the sweep.
const maxUnverified = 10_000

func (n *notices) keepNotice(in *instance, w GateNotice) {
	if in.notices == nil {
		in.notices = make(map[string]GateNotice)
	}
	in.notices[w.Member.Ticket] = w
}

// keepNotices takes notices up again, except where a newer one has come meanwhile.
func (n *notices) keepNotices(in *instance, notices map[string]GateNotice) {
	for id, w := range notices {
		if _, newer := in.notices[id]; !newer {
			n.keepNotice(in, w)
		}
	}
}

// applyNotices makes inputs of the notices about tickets that are wanted. The others are kept: what is unread may want them still,
// as the turn did that was decided before a crash, and entered the gate.
func (n *notices) applyNotices(in *instance) {
	if len(in.notices) == 0 || in.state == nil || in.status().Ended() {
		return
	}
	type heard struct {
		ticket history.Ticket
		notice GateNotice
	}
	var all []heard
	for id, w := range in.notices {
		k, ok := in.matches(w)
		if !ok {
			continue
		}
		delete(in.notices, id)
		if k.Waiting {
			all = append(all, heard{k, w})
		}
	}
	slices.SortFunc(all, func(x, y heard) int { return cmp.Compare(x.ticket.Event, y.ticket.Event) }) // as they came to the gate
	var calls gateCalls
	for _, h := range all {
		n.applyNotice(in, h.ticket, h.notice, &calls)
	}
	for _, c := range calls.all {
		n.owner.admission.askCall(in, c)
	}
}

// matches finds the ticket that a notice is about. A lost turn may have entered another gate, for its key path was another, or as another
// member: it was not to keep its slot.
func (in *instance) matches(w GateNotice) (history.Ticket, bool) {
	k, ok := in.state.Find(w.Member.Ticket)
	return k, ok && w.Gate == k.Limit.Name && w.Member == Member(in.id, k.Event, in.state, k.Limit)
}

// applyNotice acts on a notice about a ticket that waits. What only the gate can answer is added to calls.
func (n *notices) applyNotice(in *instance, k history.Ticket, w GateNotice, calls *gateCalls) {
	switch {
	case w.Requested && !w.concerns(k): // the ticket has entered anew since, and that was answered
	case w.Unverified, !w.concerns(k):
		calls.at(k.Limit.Name).ask(in, k)
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
		in.overdue = append(in.overdue, n.owner.admission.rejectedActivity(k.Event, w.Gate, w.Kind, 0))
	default:
		in.localInputs = append(in.localInputs, n.owner.admission.rejectedActivity(k.Event, w.Gate, w.Kind, 0))
	}
}

// confirmOrphans takes out of their gates the tickets that nothing in the instance wants. Memory may be that of an owner who was paused
// and has been replaced, so the store is asked first: nothing is unread, and the history is as it is known.
func (n *notices) confirmOrphans(in *instance) {
	notices := in.notices
	in.notices = nil
	l := &record.Reconciliation{Head: in.head(), Wakeup: n.owner.commits.nextWakeup(in, in.state)}
	n.owner.leases.reconcileAs(in, releasing, outstanding{recon: l, notices: notices})
}

func (n *notices) releaseOrphans(notices map[string]GateNotice) {
	of := make(map[string][]limit.Orphan)
	for _, id := range sorted(notices) {
		w := notices[id]
		of[w.Gate] = append(of[w.Gate], limit.Orphan{Member: w.Member, At: w.At})
		n.owner.met[CountOrphans]++
	}
	for _, name := range sorted(of) {
		n.owner.emit(Effect{Kind: ReleaseTickets, ID: name, Body: of[name]})
	}
}

// releaseUnused takes out of their gates what a stalled instance does not use there: it may be stalled for days, and others wait. What
// memory has may be half a turn, and has the head of the inbox only, so all of it is read again.
func (n *notices) releaseUnused(in *instance, s *Stall) {
	if s.Kind == stallUnreadable || len(in.outbox) > 0 { // pending messages are sent again by every load
		n.owner.removals.suspend(in, s, nil)
		return
	}
	notices := in.notices
	n.owner.unload(in)
	n.owner.inbox.load(in, outstanding{goal: toRelease, stall: s, notices: notices})
}

func (n *notices) unusedFound(in *instance, req outstanding, inbox []Unread) {
	if req.stall.until <= n.owner.clock.now() { // a forced purge has come meanwhile, or it is time to try again
		n.owner.unload(in)
		n.owner.advance(in)
		return
	}
	n.keepNotices(in, req.notices) // to those that came behind the first: they come together
	n.owner.outbox.flushOutbox(in)
	n.owner.removals.suspend(in, req.stall, in.unused(inbox))
}

// unused gives the notices about tickets that the instance does not use, whatever its next turn decides: its history does not name them, and a
// turn that is decided again enters anew; or the activity has been ended by its worker, and its end is unread.
func (in *instance) unused(inbox []Unread) map[string]GateNotice {
	out := make(map[string]GateNotice)
	for id, w := range in.notices {
		k, ok := in.matches(w)
		if ok && (k.Waiting || k.Limit.Retain || !slices.ContainsFunc(inbox, in.ends(k.Event))) {
			continue
		}
		out[id] = w
	}
	return out
}

// ends returns a function that reports whether an input is the end of the activity.
func (in *instance) ends(activity uint64) func(Unread) bool {
	return func(u Unread) bool { return u.ends(in.state.Activity(activity)) }
}

// notify sends the notices of a gate to instances.
func (n *notices) notify(name string, ms []limit.Member, kind limit.Kind, at int64) {
	if len(ms) == 0 {
		return
	}
	all := make([]GateNotice, len(ms))
	for i, m := range ms {
		all[i] = GateNotice{Gate: name, Member: m, Kind: kind, At: at}
	}
	n.owner.emit(Effect{Kind: PassNotices, Body: all})
}
