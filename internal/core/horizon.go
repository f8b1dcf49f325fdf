package core

import (
	"math"
	"time"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
)

// Time and inputs.
//
// What time decides (a timer, a retry, the limit of an attempt, a queue timeout, an activity that was claimed too often, the end of
// retention, events that no start came for) is decided behind every input that INPUTS had acknowledged before it was due. Two
// clocks and one position say when that is so. Redis' clock has passed the due time, and the schedule names the instance. The
// clock of the stream's leader has passed it, too, and the partition's inputs up to there are in their inboxes: that is the
// horizon. It moves in two ways:
//
//	an input of the stream's time t has been ingested  ─────────────────────────────▶ horizon = t
//	something is due ──▶ the leader gives its time T, then the partition's last input L
//	                     ──▶ L has been ingested, and the inboxes that it concerns are known ──▶ horizon = T
//
// So a busy partition asks nothing, and an idle one asks once for all that is due at the same moment. What is due and
// behind the horizon waits (held), its instance with it if nothing older is unread, and goes on when the horizon has passed it. The
// poll that has found it has put its wakeup off by FirstPause, so until then nothing is written for it if it waits for nothing else.
//
// A stream that cannot be read, for whatever reason, stops time for the partition: whether anything was accepted before the fault
// cannot be determined. There is no time after which an owner goes on without it. A member that is cut off by itself
// hands over; while all of them are cut off no task could be sent either.
//
// Within the inbox the order is that of the inputs' own times against due times: a timer is applied before an input if no
// input from there on is older. A completion may be in the inbox before its doorbell has been received, so a commit names
// the time up to which it has decided, and the store refuses it if something older is unread. It names the position, too: a
// store that has forgotten inputs since the owner reached its horizon refuses as well.
//
// Crash points: there are none. The horizon is memory, and a new owner begins without one.

const (
	horizonGap   = 5 * time.Millisecond   // between two of them, if the first was not enough
	askAgain     = 250 * time.Millisecond // after a question that failed
	horizonStale = time.Second            // after that the last input of an answer may have been removed, and is asked for again
)

// horizon is the time, by the stream's clock, up to which the owner has received all inputs of its partition.
type horizon struct {
	applied history.Position  // up to which inputs have been ingested, as the owner has seen
	end     history.Position  // of the stream, at the last answer that was reached: the partition has nothing from applied to there
	reached int64             // Unix ms by the stream's clock: every input acknowledged before has been ingested and is known
	began   int64             // the first that was reached by asking: what was accepted before the tenure is known; 0: not yet
	asking  bool              // a question is under way, or is asked after a pause
	failed  bool              // the last question
	asked   time.Time         // when the last answer came
	leader  time.Time         // the time of the stream's leader then
	pending *message.Accepted // an answer whose last input has not been ingested yet
	held    map[string]hold   // instances that wait
}

// hold is the wait of an instance for the horizon.
type hold struct{ until, since int64 } // Unix ms

// isDue reports whether the time has come, and everything that was accepted before is known. If only the latter is missing, the
// instance goes on when it is.
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
	s.askHorizon(0)
	return false
}

// justHeld reports whether the instance waits for nothing but the horizon, and the poll that has found it has put its wakeup off.
func (s *schedule) justHeld(in *instance) bool {
	h, ok := s.horizon.held[in.id]
	return ok && s.owner.clock.now() < h.since+FirstPause.Milliseconds() && !awaits(in)
}

// awaits reports whether a reconciliation has something to repeat.
func awaits(in *instance) bool {
	return len(in.outbox) > 0 || in.state != nil && in.state.AdmittedLen()+in.state.TicketLen()+in.state.ChildLen() > 0
}

// askHorizon asks the stream how far it is, unless that is under way, or its answer is still to be reached. If NATS is away
// the next poll tries again.
func (s *schedule) askHorizon(after time.Duration) {
	h := &s.horizon
	if h.asking || h.pending != nil && s.owner.clock.wall.Sub(h.asked) < horizonStale {
		return
	}
	if h.asking = true; h.failed { // at once, while NATS is away
		after = max(after, askAgain)
	}
	known := h.applied
	if h.end.Time > known.Time { // of a stream that was made again the sequences say nothing
		known = h.end
	}
	s.owner.emit(Effect{Kind: ReadHorizon, After: after, Body: known})
}

func (s *schedule) answeredHorizon(got message.Accepted, err error) {
	h := &s.horizon
	h.asking, h.failed = false, err != nil
	if err != nil { // the next poll asks again; that inputs cannot be read is reported by their reader
		s.owner.log.Debug("end of inputs stream not read, retrying", "held", len(h.held), "error", err)
		return
	}
	if h.pending == nil || !follows(got.Last, h.pending.Last) { // the last one was removed, or the stream is another
		h.pending = &got
	}
	h.asked, h.leader = s.owner.clock.wall, got.At
	s.reachHorizon()
}

// advanceHorizon notes that the inputs up to a position have been ingested, and are known.
func (s *schedule) advanceHorizon(to history.Position) {
	h := &s.horizon
	h.applied = to
	h.reached = max(h.reached, to.Time/int64(time.Millisecond))
	s.reachHorizon()
}

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
		s.bring(s.owner.instance(id))
	}
	if len(h.held) > 0 && next != math.MaxInt64 { // due since the question, or the stream's clock is behind that of Redis
		leader := h.leader.Add(s.owner.clock.wall.Sub(h.asked)) // by now; the answer that was reached may be old
		s.askHorizon(max(time.UnixMilli(next).Sub(leader), horizonGap))
	}
}

// follows reports whether a position is not before another one. Of a stream that was made again the sequences say nothing, and of
// two inputs of one moment the times; so both have to.
func follows(p, q history.Position) bool { return p.Seq >= q.Seq && p.Time >= q.Time }

// Bounds gives for each input up to when time goes on before it: the time of the oldest from there on. If the inbox has more than
// these, nothing is known of the rest but that the stream's inputs are in their order: then it is their last one that counts.
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

// turnable reports whether there is something for the code: inputs, or what time has decided. If the latter comes first and waits
// for inputs, what is unread waits with it.
func (s *schedule) turnable(in *instance) bool {
	at, ok := NextDue(in.state, in.overdue)
	if !ok || at > s.owner.clock.now() || len(in.unread) > 0 && at > Bounds(in.unread, in.partial())[0] {
		return len(in.unread) > 0
	}
	return s.isDue(in.id, at)
}

// partial reports whether the inbox may have more than memory has of it.
func (in *instance) partial() bool { return in.cut || in.pending.stale }
