package core

import (
	"math"
	"time"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
)

// Time and inputs.
//
// A decision by time (a timer, a retry, the timeout of an attempt, a queue timeout, an activity that was claimed too often, the end of
// retention, early inputs that no start followed) is ordered after every input that INPUTS had acknowledged before the time was due. Two
// clocks and one position determine when that holds. Redis TIME has passed the due time, and the wakeups name the instance. The
// clock of the stream's leader has passed it, too, and the partition's inputs up to there are in their inboxes: that time is the
// horizon. It advances in two ways:
//
//	an input of the stream's time t has been ingested  ─────────────────────────────▶ horizon = t
//	a wakeup is due ──▶ the leader returns its time T, then the partition's last input L
//	                     ──▶ L has been ingested, and the inboxes that it concerns are known ──▶ horizon = T
//
// So a busy partition reads nothing from the stream, and an idle one reads once for all wakeups that are due at the same moment. An
// instance whose due time is after the horizon waits (held), unless an older input is unread, and continues when the horizon has passed
// that time. The poll that found it has postponed its wakeup by FirstPause; until then nothing is written for an instance that waits for
// nothing else.
//
// A stream that cannot be read, for whatever reason, stops time for the partition: the owner cannot determine whether an input was
// accepted before the fault. No timeout lets an owner decide without the stream. An orchestrator that alone is cut off
// hands over; while all of them are cut off, no task could be sent either.
//
// Within the inbox, the times of the inputs are compared with due times: a timer is applied before an input if neither that input nor
// a later one is older. A completion may be in the inbox before its doorbell is received, so a commit names
// the time up to which it has decided, and the store refuses it if an older input is unread. It also names the applied position: a
// store that has lost inputs since the owner reached its horizon refuses as well.
//
// Crash points: none. The horizon is only in memory, and a new owner begins without one.

const (
	horizonGap   = 5 * time.Millisecond   // minimum between two reads of the horizon, if the first did not reach the due time
	horizonRetry = 250 * time.Millisecond // after a failed read
	horizonStale = time.Second            // after that, the last input of an answer may have been removed, and is read again
)

// horizon is the time, by the stream's clock, up to which the owner has received all inputs of its partition.
type horizon struct {
	applied    history.Position  // inputs up to here have been ingested, and their results handled
	end        history.Position  // end of the stream at the last answer that was reached: the partition has no input from applied to here
	reached    int64             // Unix ms by the stream's clock: every input acknowledged before has been ingested and is known
	began      int64             // the first horizon reached by a read: all inputs accepted before the tenure are known; 0: not yet
	reading    bool              // a read is outstanding or scheduled
	failed     bool              // the last read failed
	answeredAt time.Time         // when the last answer was handled
	leader     time.Time         // the time of the stream's leader in that answer
	pending    *message.Accepted // an answer whose last input has not been ingested yet
	held       map[string]hold   // instances that wait for the horizon
}

// hold is the wait of an instance for the horizon.
type hold struct{ until, since int64 } // Unix ms

// isDue reports whether the time has passed, and every input accepted before it is known. If only the inputs are missing, the
// instance is held until they are known.
func (s *schedule) isDue(id string, at int64) bool {
	switch {
	case at == 0 || at > s.owner.clock.now():
		return false
	case at <= s.horizon.reached:
		return true
	}
	h, ok := s.horizon.held[id]
	if !ok {
		s.owner.met[CountHeld]++
		h = hold{until: at, since: s.owner.clock.now()}
	}
	h.until = min(h.until, at)
	s.horizon.held[id] = h
	s.readHorizon(0)
	return false
}

// justHeld reports whether the instance waits only for the horizon, and its wakeup is still the one postponed by the poll.
func (s *schedule) justHeld(in *instance) bool {
	h, ok := s.horizon.held[in.id]
	return ok && s.owner.clock.now() < h.since+FirstPause.Milliseconds() && !awaits(in)
}

// awaits reports whether a reconciliation has something to repeat.
func awaits(in *instance) bool {
	return len(in.outbox) > 0 || in.state != nil && in.state.AdmittedLen()+in.state.TicketLen()+in.state.ChildLen() > 0
}

// readHorizon reads the time and the last input of the stream, unless a read is outstanding or an answer is still to be reached. If NATS is
// unreachable, the next poll tries again.
func (s *schedule) readHorizon(after time.Duration) {
	h := &s.horizon
	if h.reading || h.pending != nil && s.owner.clock.wall.Sub(h.answeredAt) < horizonStale {
		return
	}
	if h.reading = true; h.failed { // a read fails at once while NATS is unreachable
		after = max(after, horizonRetry)
	}
	known := h.applied
	if h.end.Time > known.Time { // not the sequences: the stream may have been created again
		known = h.end
	}
	s.owner.emit(Effect{Kind: ReadHorizon, After: after, Body: known})
}

func (s *schedule) answeredHorizon(got message.Accepted, err error) {
	h := &s.horizon
	h.reading, h.failed = false, err != nil
	if err != nil { // the next poll reads again; the reader of the inputs reports that they cannot be read
		s.owner.log.Debug("end of inputs stream not read, retrying", "held", len(h.held), "error", err)
		return
	}
	if h.pending == nil || !follows(got.Last, h.pending.Last) { // its last input was removed, or the stream was created again
		h.pending = &got
	}
	h.answeredAt, h.leader = s.owner.clock.wall, got.At
	s.reachHorizon()
}

// advanceHorizon records that the inputs up to a position have been ingested and are known.
func (s *schedule) advanceHorizon(to history.Position) {
	h := &s.horizon
	h.applied = to
	h.reached = max(h.reached, to.Time/int64(time.Millisecond))
	s.reachHorizon()
}

// reachHorizon moves the horizon to the time of the pending answer once its last input has been ingested, and continues held instances.
func (s *schedule) reachHorizon() {
	h := &s.horizon
	if h.pending == nil || !follows(h.applied, h.pending.Last) {
		return
	}
	h.reached, h.end = max(h.reached, h.pending.At.UnixMilli()), h.pending.End
	h.pending = nil
	if h.began == 0 {
		h.began = h.reached
		s.owner.outbox.caughtUp()
	}
	next := int64(math.MaxInt64)
	for _, id := range sorted(h.held) {
		at := h.held[id].until
		if at > h.reached {
			next = min(next, at)
			continue
		}
		delete(h.held, id)
		s.owner.met[CountHeld] += -1
		s.advanceOrDefer(s.owner.instance(id))
	}
	if len(h.held) > 0 && next != math.MaxInt64 { // due since the read, or the stream's clock is behind that of Redis
		leader := h.leader.Add(s.owner.clock.wall.Sub(h.answeredAt)) // now; the answer may be old
		s.readHorizon(max(time.UnixMilli(next).Sub(leader), horizonGap))
	}
}

// follows reports whether p is not before q. It compares both parts: sequences are meaningless after the stream was created again, and
// two inputs of one moment have the same time.
func follows(p, q history.Position) bool { return p.Seq >= q.Seq && p.Time >= q.Time }

// Bounds returns for each input the time up to which timers fire before it: the time of the oldest input from there on, Unix ms. With
// more, the inbox contains inputs after these. Their times are unknown, but the inputs of the stream are in order: the last known one
// of them is the bound.
func Bounds(inputs []Unread, more bool) []int64 {
	out := make([]int64, len(inputs))
	oldest := int64(math.MaxInt64)
	if more {
		oldest = 0
		for _, u := range inputs {
			if u.Ev != nil && u.seq() != 0 {
				oldest = u.Ev.Meta().At
			}
		}
	}
	for i := len(inputs) - 1; i >= 0; i-- {
		if ev := inputs[i].Ev; ev != nil {
			oldest = min(oldest, ev.Meta().At)
		}
		out[i] = oldest
	}
	return out
}

// turnable reports whether the code has something to do: unread inputs, or a decision by time. If that decision comes first and waits
// for the horizon, the unread inputs wait with it.
func (s *schedule) turnable(in *instance) bool {
	at, ok := NextDue(in.state, in.overdue)
	if !ok || at > s.owner.clock.now() || len(in.unread) > 0 && at > Bounds(in.unread, in.partial())[0] {
		return len(in.unread) > 0
	}
	return s.isDue(in.id, at)
}

// partial reports whether the inbox may contain more than is in memory.
func (in *instance) partial() bool { return in.cut || in.pending.stale }
