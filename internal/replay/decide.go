package replay

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// past is the history under replay.
type past struct {
	active  bool
	events  []history.Event
	at      int                      // index of the next event to match
	cancels map[uint64]history.Event // cancellations of this step that the code has not made yet, by work id; a set, because their order has no meaning
	// withdrawals is set while there may be withdrawn work whose cancellation is not recorded.
	withdrawals bool
	divergence  *Divergence
}

// Replay replays the whole history of an execution that has not begun, and leaves it in the state after that history, which may be empty.
// The error is a *Divergence if the code does not make the decisions of the history.
func (x *Execution) Replay(events []history.Event) error {
	if err := x.usable(); err != nil {
		return err
	}
	if x.last != 0 {
		return fmt.Errorf("replay: %s has already begun and cannot be replayed", x.id.Instance)
	}
	for i, ev := range events {
		if ev.Meta().ID != uint64(i)+1 {
			x.diverge(uint64(i)+1, "an event with the id of its place", fmt.Sprintf("%s with the id %d", describe(ev), ev.Meta().ID))
			return x.err
		}
	}
	x.past.active, x.past.events = true, events
	x.replaying.Store(true)
	defer func() {
		x.past.active, x.past.events, x.past.cancels = false, nil, nil
		x.replaying.Store(false)
	}()
	for x.past.at < len(events) && x.err == nil {
		in := events[x.past.at]
		_, start := in.(*history.Started)
		if start != (x.past.at == 0) || x.left != nil {
			x.diverge(in.Meta().ID, describe(in), "no place for it: Started is first, only first, and nothing follows the end")
			break
		}
		x.consume()
		if in.Kind() != history.KindPaused { // Paused is not a step
			x.step(in)
		}
	}
	if x.err == nil {
		return nil
	}
	if err := x.unwind(); err != nil {
		return errors.Join(x.err, err)
	}
	return x.err
}

func (x *record) consume() {
	x.past.at++
	x.last++
}

// peek returns the next event of the history, or nil.
func (x *record) peek() history.Event {
	if x.past.at < len(x.past.events) {
		return x.past.events[x.past.at]
	}
	return nil
}

// match returns the recorded event for a decision of the code. If the next event of the history differs in kind or subject, match records
// the divergence and returns nil.
func (x *record) match(made history.Event) history.Event {
	if x.err != nil {
		return nil
	}
	x.collectCancels()
	ev := x.peek()
	if ev != nil && ev.Kind() == made.Kind() && subject(ev) == subject(made) {
		x.consume()
		return ev
	}
	if x.isExcess(ev) {
		x.exceed()
		return nil
	}
	x.diverge(x.last+1, describe(ev), describe(made))
	return nil
}

// collectCancels moves the cancellations that come next in the history into past.cancels, and skips the markers among them: see Patched.
// Without a replay it has no effect.
func (x *record) collectCancels() {
	for {
		ev := x.peek()
		id, cancel := cancels(ev)
		mark, marked := ev.(*history.PatchMarked)
		switch {
		case cancel:
			if x.past.cancels == nil {
				x.past.cancels = make(map[uint64]history.Event)
			}
			x.past.cancels[id] = ev
		case marked:
			x.answer(mark.Name, true)
		default:
			return
		}
		x.consume()
	}
}

func cancels(ev history.Event) (id uint64, ok bool) {
	switch ev := ev.(type) {
	case *history.ActivityCancelRequested:
		return ev.Scheduled, true
	case *history.TimerCancelled:
		return ev.Timer, true
	case *history.ChildCancelRequested:
		return ev.Scheduled, true
	default:
		return 0, false
	}
}

// closeStep verifies that the code has made every decision that the history records for the step.
func (x *Execution) closeStep() {
	if x.err != nil {
		return
	}
	x.collectCancels()
	x.verifyCancels()
	if ev := x.peek(); ev != nil && !ev.Input() && x.err == nil && !x.endedBeforeStart(ev) {
		met := "code that waits"
		if x.Polling() {
			met = "code that polls, where no Observed is recorded"
		}
		x.diverge(ev.Meta().ID, describe(ev), met)
	}
}

// verifyCancels verifies that the code has made the cancellations recorded so far, in this step or in an earlier one.
func (x *Execution) verifyCancels() {
	for _, ev := range x.sortedCancels() {
		id, _ := cancels(ev)
		w := x.open[id]
		if w == nil || w.withdrawn == nil {
			x.diverge(ev.Meta().ID, describe(ev), "code that did not cancel it")
			return
		}
		x.remove(w)
	}
	clear(x.past.cancels)
}

func (x *record) sortedCancels() []history.Event {
	return slices.SortedFunc(maps.Values(x.past.cancels), func(a, b history.Event) int { return cmp.Compare(a.Meta().ID, b.Meta().ID) })
}

// scheduleActivity decides an attempt of the call. It returns nil if the decision was refused, exceeds the maximum length of the history,
// or does not match the history.
func (c *call) scheduleActivity() (w *work, refused *history.Failure) {
	c.number++
	ev, refused, ok := decide(&c.x.record, &history.ActivityScheduled{
		Name: c.spec.Activity, Queue: c.spec.Queue, Payload: c.spec.Payload, Attempt: c.number, First: c.first, Limit: c.declaredLimit(),
	}, c.limited())
	if !ok {
		return nil, refused
	}
	c.first = ev.CallKey()
	return c.x.add(&work{id: ev.ID, sched: ev, owner: c}, c.home), nil
}

// samePayload compares the payload that the code made with the recorded one. A difference, such as an added field, is allowed unless the
// options are strict.
func (x *record) samePayload(met history.Event, recorded, made history.Payload) bool {
	if sealing.Name(recorded) != "" && x.opts.Codec.SamePayload(x.place(eventPlace, met.Meta().ID), met, owners(x, met), recorded, made) {
		return true
	}
	if recorded = x.unseal(recorded); recorded.Type == made.Type && bytes.Equal(recorded.Data, made.Data) {
		return true
	}
	if x.err != nil { // the recorded payload cannot be opened, so it cannot be compared
		return false
	}
	id := met.Meta().ID
	if x.opts.PayloadChanged != nil {
		x.opts.PayloadChanged(id, nameOf(met))
	}
	if x.opts.Strict {
		x.diverge(id, describe(met)+" with its recorded payload", "the same with another payload")
		return false
	}
	x.opts.Logger.Warn("payload encodes differently, recorded one kept",
		"instance", x.id.Instance, "execution", x.id.Execution, "event", id, "what", describe(met))
	return true
}

// scheduleTimer decides the timer ev, which fires d after now. If in is nil, no end of a scope cancels it.
func (x *Code) scheduleTimer(ev *history.TimerScheduled, d time.Duration, in *Scope, by owner) *work {
	ev.FireAt = due(x.now, d)
	if x.past.active {
		met, ok := x.match(ev).(*history.TimerScheduled)
		if !ok {
			return nil
		}
		x.seeds.advance()
		return x.add(&work{id: met.ID, kind: timerWork, fireAt: met.FireAt, owner: by}, in)
	}
	if x.unwinding {
		return nil
	}
	if x.overdrawn() {
		x.exceed()
		return nil
	}
	x.append(ev)
	x.seeds.advance()
	return x.add(&work{id: ev.ID, kind: timerWork, fireAt: ev.FireAt, owner: by}, in)
}

// cancel decides that the work is no longer required. On replay, work whose cancellation is not in the history stays open, marked as
// withdrawn, until the history answers it or ends.
func (w *work) cancel(x *Code, cause cancel.Cancelled) {
	if x.past.active {
		x.collectCancels()
		if _, ok := x.past.cancels[w.id]; ok {
			delete(x.past.cancels, w.id)
			x.remove(w)
			return
		}
		if w.kind != timerWork {
			x.wanted--
		}
		w.withdrawn = &cause
		w.member.unlink()
		x.past.withdrawals = true
		return
	}
	x.remove(w)
	x.append(cancellation(w, cause))
}

func cancellation(w *work, cause cancel.Cancelled) history.Event {
	// The cancellation request keeps the whole text. A turn may contain thousands of these events and must fit into a commit.
	cause.Text = text.Shorten(cause.Text, MaxReason)
	switch w.kind {
	case timerWork:
		return &history.TimerCancelled{Timer: w.id}
	case childWork:
		return &history.ChildCancelRequested{Scheduled: w.id, Reason: cause.Reason, By: cause.By, Text: cause.Text}
	default:
		return &history.ActivityCancelRequested{Scheduled: w.id, Reason: cause.Reason, By: cause.By, Text: cause.Text}
	}
}

// recordWithdrawn records, after the first input that follows a replay, the cancellations that the code made and the history does not
// contain. Work that this input answers needs none.
func (x *Execution) recordWithdrawn(in history.Event) {
	if !x.past.withdrawals || x.past.active {
		return
	}
	x.past.withdrawals = false
	answered, _ := answers(in)
	for _, w := range x.ascending() {
		if w.withdrawn != nil && w.id != answered.id {
			x.remove(w)
			x.append(cancellation(w, *w.withdrawn))
		}
	}
}

// MaxReason is the maximum length of the canceller's text in each recorded cancellation, in bytes.
const MaxReason = 512

const excessText = "the history has reached its limit"

// overdrawn reports whether the execution must end because its history is too long. On replay, the history decides.
func (x *record) overdrawn() bool {
	if !x.past.active {
		return x.last >= x.opts.Limits.Events
	}
	for i := x.past.at; i < len(x.past.events); i++ {
		if _, ok := cancels(x.past.events[i]); !ok {
			return x.isExcess(x.past.events[i])
		}
	}
	return false
}

func (x *record) isExcess(ev history.Event) bool {
	f, ok := ev.(*history.Failed)
	return ok && f.Failure.Code == history.CodeTooLarge && strings.HasPrefix(x.unsealFailure(&f.Failure).Message, excessText)
}

// exceed ends the execution as soon as the running strand has parked or ended.
func (x *record) exceed() {
	x.excess = &history.Failure{
		Code: history.CodeTooLarge, Permanent: true,
		Message: fmt.Sprintf("%s of %d events; split the work over several instances", excessText, x.opts.Limits.Events),
	}
	x.unwinding = true
}
