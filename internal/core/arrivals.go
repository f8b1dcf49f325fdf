package core

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/pkg/queue"
)

// inboxes has what arrives for instances, and what is loaded of them.
type inboxes struct {
	*Owner
	batches uint64 // ingested in this tenure
}

// ingested gives the instances what has come for them. Without results their inboxes are read.
func (a *inboxes) ingested(batch *Ingested) {
	said := batch.Results
	a.sawClock(batch.Now)
	defer a.schedule.advanceHorizon(batch.To) // behind the inputs: what waits for them sees them
	a.inbox.batches++
	touched := make([]string, 0, len(batch.Arrivals))
	var over []store.Refusal
	for i, arr := range batch.Arrivals {
		if said != nil && (said[i].Full || said[i].Early) {
			over = append(over, a.inbox.overBound(arr, said[i].Early))
		}
		if said != nil && (said[i].Unknown || said[i].Early || said[i].Repeat && arr.Reply == "") {
			a.inbox.dropped(arr, said[i])
			continue
		}
		in := a.instance(arr.Instance)
		if arr.Reply != "" && arr.Kind != queue.KindPurge {
			a.commits.waiters.add(in.id, arr.Reply, a.clock.now())
		}
		switch {
		case said == nil, said[i].Repeat:
			in.noteUnread()
		case said[i].Full:
			in.inboxOverflowed = true
			in.noteUnread()
		default:
			a.inbox.arrived(in, arr.Ev, said[i])
		}
		if arr.Kind == queue.KindCancel || arr.Kind == queue.KindPurge {
			in.searched = false
		}
		if s := a.removals.stalls[in.id]; arr.Force && (s != nil || in.phase.busy()) { // a search of the inbox may be under way, and not show it
			a.removals.forced[in.id] = true
			if s != nil {
				s.until = 0 // it need not wait for its next try
			}
		}
		if in.batch != a.inbox.batches {
			in.batch = a.inbox.batches
			touched = append(touched, in.id)
		}
	}
	for _, id := range touched { // with all that the batch has for it, so that its turn sees that
		a.advance(a.instance(id))
	}
	if len(over) > 0 {
		a.emit(Effect{Kind: ListRefusals, Body: over})
	}
}

// overBound reports an input that was dropped because its inbox, or what may come before a start, is at its bound in inputs or bytes.
// It had been accepted, so it is logged, counted, listed with the refused inputs, and answered if its sender waits for an answer.
func (a *inboxes) overBound(arr Arrival, early bool) store.Refusal {
	a.met.OverBound.Inc()
	why := fmt.Sprintf("inbox full: more than %d unread inputs or %d MiB; the instance fails", store.InboxBound, store.InboxBytes>>20)
	if early {
		why = fmt.Sprintf("came before the start of the instance, and such inputs may have %d MiB, those of a partition %d MiB together", store.EarlyBytes>>20, store.EarlyTotalBytes>>20)
	}
	a.log.Warn("input over bound dropped", "instance", arr.Instance, "kind", arr.Kind, "seq", arr.Pos.Seq, "reason", why)
	if arr.Kind != queue.KindStart { // who waits for the end of the instance gets that
		a.commits.answer(arr.Reply, request.Answer{Instance: arr.Instance, Problem: &request.Problem{Code: request.ProblemRefused, Message: why}})
	}
	return store.Refusal{Instance: arr.Instance, Seq: arr.Pos.Seq, At: arr.Pos.Time / int64(time.Millisecond), Reason: why}
}

func (a *inboxes) dropped(arr Arrival, said store.Ingested) {
	a.met.Dropped.Inc()
	if !said.Unknown {
		return // a repeat: its first copy has been answered for; or it is over its bound
	}
	a.log.Debug("input for unknown instance dropped", "instance", arr.Instance, "kind", arr.Kind)
	if arr.Kind == queue.KindPurge {
		a.emit(Effect{Kind: ForgetRefusals, ID: arr.Instance, Body: arr.Reply})
		return
	}
	a.commits.answer(arr.Reply, request.Answer{Instance: arr.Instance, Problem: NotFound(arr.Instance)})
}

// arrived puts an input that is now in the store's inbox into memory, if memory knows the
// inbox to the place before it; otherwise the inbox is read, or shown by the commit under way.
func (a *inboxes) arrived(in *instance, u Unread, said store.Ingested) {
	fresh := in.phase == Absent && !said.Exists && said.Unread == 1
	switch {
	case fresh: // neither record nor inbox: everything there is to know is known
		a.to(in, idle)
		in.unread, in.cut = []Unread{u}, false
	case in.phase.busy() && said.Unread == 1:
		in.pending.inputs = append(in.pending.inputs, u)
	case in.phase == idle && !in.needsInboxRead && len(in.unread) == said.Unread-1 && (said.Exists || !u.start()) && in.lacks(u):
		in.unread = append(in.unread, u)
	default:
		in.noteUnread()
	}
}

// lacks reports whether memory cannot have the input yet. The answer of a commit that ran after the ingest, and came before
// its answer, has shown it; then the lengths may agree by chance.
func (in *instance) lacks(u Unread) bool {
	seq := u.seq()
	return seq > in.turned && !slices.ContainsFunc(in.unread, func(has Unread) bool { return has.seq() >= seq })
}

// onDoorbells is told by a worker that it has pushed a completion into an empty inbox.
func (a *inboxes) onDoorbells(bells []queue.Doorbell) {
	for _, b := range bells {
		in := a.instance(b.Instance)
		u, err := a.inbox.parseElement(b.Element)
		switch {
		case len(b.Element) == 0 || err != nil || u.Ev == nil:
			in.noteUnread() // what is under way may have read the inbox before the push
		case in.phase.busy():
			in.pending.inputs = append(in.pending.inputs, u)
		case in.phase == idle && len(in.unread) == 0 && a.inbox.wanted(in, u):
			in.unread = append(in.unread, u)
		case in.phase == idle && a.inbox.wanted(in, u):
			in.needsInboxRead = true
		}
		a.advance(in)
	}
}

// wanted reports whether a completion can be unread: one that was turned before its
// doorbell came is not outstanding any more.
func (a *inboxes) wanted(in *instance, u Unread) bool {
	id, ok := u.Completes()
	return ok && in.state != nil && u.Fits(in.state.Activity(id))
}

// seq is the sequence of a stream input, 0 of anything else.
func (u Unread) seq() uint64 {
	s, _, ok := strings.Cut(strings.TrimLeft(u.ID, "!s"), ".")
	if !ok {
		return 0
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
