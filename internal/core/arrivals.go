package core

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// inboxes takes arriving inputs and loaded instances into memory.
type inboxes struct {
	owner   *Owner
	batches uint64 // number of batches ingested in this tenure
}

// ingested passes a batch of inputs to their instances. If the results of the ingest were lost, their inboxes are read.
func (i *inboxes) ingested(batch *Ingested) {
	i.owner.clock.set(batch.Now)
	defer i.owner.schedule.advanceHorizon(batch.To) // after the inputs, so that the instances that wait for them see them
	i.batches++
	touched := make([]string, 0, len(batch.Arrivals))
	var over []record.Refusal
	for n, arr := range batch.Arrivals {
		var got *record.Ingested // nil: the results were lost
		if batch.Results != nil {
			got = &batch.Results[n]
		}
		if got != nil && (got.Full || got.Early) {
			over = append(over, i.overBound(arr, got.Early))
		}
		if got != nil && arr.droppedAs(got) {
			i.dropped(arr, got)
			continue
		}
		if arr.awaitsEnd(got) {
			i.owner.commits.waiters.add(arr.Instance, arr.Reply, i.owner.clock.now())
		}
		if i.owner.operators.keepsWaiting(&arr, got) {
			continue
		}
		in := i.owner.instance(arr.Instance)
		switch {
		case got == nil:
			in.noteUnread(arr.Pos.Seq)
		case got.Repeat: // the first copy has another sequence
			in.noteUnread(0)
		case got.Full:
			in.inboxOverflowed = true
			in.noteUnread(0)
		default:
			i.arrived(in, arr.Ev, got)
		}
		if arr.endsWait() {
			in.searched = false
		}
		if s := i.owner.removals.stalls[in.id]; arr.Force && (s != nil || in.phase.busy()) { // a search of the inbox may be outstanding, and may miss it
			i.owner.removals.forced[in.id] = true
			if s != nil {
				s.until = 0 // retry at once
			}
		}
		if in.batch != i.batches {
			in.batch = i.batches
			touched = append(touched, in.id)
		}
	}
	for _, id := range touched { // after the whole batch, so that its turn sees all of it
		i.owner.advance(i.owner.instance(id))
	}
	if len(over) > 0 {
		i.owner.emit(Effect{Kind: ListRefusals, Body: over})
	}
}

// overBound reports an input that was dropped because its inbox, or the space for inputs before their start, is at its bound in inputs or
// bytes. The input had been accepted, so the drop is logged, counted, listed with the refused inputs, and answered if its sender waits.
func (i *inboxes) overBound(arr Arrival, early bool) record.Refusal {
	i.owner.met[CountOverBound]++
	why := OverBound(early)
	i.owner.log.Warn("input over bound dropped", "instance", arr.Instance, "kind", arr.Kind, "seq", arr.Pos.Seq, "reason", why)
	if u, ok := arr.Ev.Ev.(*history.UpdateReceived); ok {
		i.owner.commits.replyUpdate(arr.Instance, u, eventcodec.UpdateAnswer{Failure: &history.Failure{Code: history.CodeInboxFull, Message: why, Permanent: true}})
	} else if arr.Kind != message.KindStart { // the sender of a start receives the end of the instance
		i.owner.commits.answer(arr.Reply, message.Answer{Instance: arr.Instance, Problem: &message.Problem{Code: message.ProblemRefused, Message: why}})
	}
	return record.Refusal{Instance: arr.Instance, Seq: arr.Pos.Seq, At: arr.Pos.Time / int64(time.Millisecond), Reason: why}
}

// OverBound returns the reason for dropping an input over a bound.
func OverBound(early bool) string {
	if early {
		return fmt.Sprintf("came before the start of the instance, and such inputs may have %d MiB, those of a partition %d MiB together", record.EarlyBytes>>20, record.EarlyTotalBytes>>20)
	}
	return fmt.Sprintf("inbox full: more than %d unread inputs or %d MiB; the instance fails", record.InboxBound, record.InboxBytes>>20)
}

// dropped counts and answers an input that the ingest has dropped.
func (i *inboxes) dropped(arr Arrival, result *record.Ingested) {
	i.owner.met[CountDropped]++
	i.owner.commits.repeatedUpdate(arr, result)
	if !result.Unknown {
		return // a repeat, whose first copy has been answered; or an input over its bound
	}
	i.owner.log.Debug("input for unknown instance dropped", "instance", arr.Instance, "kind", arr.Kind)
	if arr.Kind == message.KindPurge {
		i.owner.emit(Effect{Kind: RemoveRefusals, ID: arr.Instance, Body: arr.Reply})
		return
	}
	i.owner.commits.answer(arr.Reply, message.Answer{Instance: arr.Instance, Problem: NotFound(arr.Instance)})
}

// arrived takes an ingested input into memory, if all inputs before it are in memory. Otherwise the inbox is read, unless the answer to
// the outstanding request includes it.
func (i *inboxes) arrived(in *instance, u Unread, result *record.Ingested) {
	fresh := in.phase == Absent && !result.Exists && result.Unread == 1
	switch {
	case fresh: // no record and no other input: nothing needs to be loaded
		i.owner.to(in, idle)
		in.unread, in.cut = []Unread{u}, false
	case in.phase.busy() && result.Unread == 1:
		in.pending.inputs = append(in.pending.inputs, u)
	case in.phase == idle && !in.needsInboxRead && len(in.unread) == result.Unread-1 && (result.Exists || !u.start()) && in.lacks(u.seq()):
		in.unread = append(in.unread, u)
	default:
		in.noteUnread(u.seq())
	}
}

// lacks reports that the input with this sequence is neither in memory nor turned. The answer of a commit that ran after the ingest, but
// was handled first, already included the input; the length of the inbox may then match by chance.
func (in *instance) lacks(seq uint64) bool {
	return seq > in.turned && !slices.ContainsFunc(in.unread, func(has Unread) bool { return has.seq() >= seq })
}

// onDoorbells handles doorbells: a worker has pushed a completion to an empty inbox.
func (i *inboxes) onDoorbells(doorbells []message.Doorbell) {
	for _, b := range doorbells {
		in := i.owner.instance(b.Instance)
		u, err := i.parseElement(b.Element)
		switch {
		case len(b.Element) == 0 || err != nil || u.Ev == nil:
			in.noteUnread(0) // the outstanding request may have read the inbox before the push
		case in.phase.busy():
			in.pending.inputs = append(in.pending.inputs, u)
		case in.phase == idle && len(in.unread) == 0 && in.completesOutstanding(u):
			in.unread = append(in.unread, u)
		case in.phase == idle && in.completesOutstanding(u):
			in.needsInboxRead = true
		}
		i.owner.advance(in)
	}
}

// completesOutstanding reports whether a completion can be unread: its activity is no longer outstanding if it was turned before its
// doorbell was received.
func (in *instance) completesOutstanding(u Unread) bool {
	id, ok := u.Completes()
	return ok && in.state != nil && u.Fits(in.state.Activity(id))
}

// droppedAs reports whether the ingest has dropped an input in a way that leaves nothing to do for its instance.
func (arr *Arrival) droppedAs(result *record.Ingested) bool {
	return result.Unknown || result.Early || result.Repeat && (arr.Reply == "" || arr.Kind == message.KindUpdate)
}

// awaitsEnd reports whether the sender of an input waits for the end of the instance that has the id now. The sender of a start that may
// replace it waits for the end of the new instance, so it waits now only if the id is free.
func (arr *Arrival) awaitsEnd(result *record.Ingested) bool {
	if s, ok := arr.Ev.Ev.(*history.Started); ok && s.Reuse != history.ReuseIgnore && (result == nil || result.Exists || result.Repeat) {
		return false
	}
	return arr.Reply != "" && arr.Kind != message.KindPurge && arr.Kind != message.KindUpdate && arr.Kind != message.KindOperate
}
