package replay

import (
	"fmt"

	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/pkg/history"
)

// A limit refuses a decision at the call, and the code continues with the failure. The refusal is recorded (history.Refused), so a replay
// reproduces it whatever the limits and the room are by then:
//
//	call ──a limit is exceeded──▶ Refused ──▶ the code receives the failure
//	  └─────────────────────────▶ the decision
//
// Without this record, the next call with the same name could match the event of the decision that followed the refused one.

// MaxRoom is the default room of a step, in bytes.
const MaxRoom = 14 << 20

// decisionBytes bounds the encoded size of a decision without its names and payloads, and limitBytes that of its limit.
const (
	decisionBytes = 128
	limitBytes    = 512
)

// SetRoom sets the owner's bound on the encoded size of the decisions of the next step, in bytes, so that they fit into the commit.
// Decisions that do not fit are refused. The step after it has MaxRoom again.
func (x *record) SetRoom(bytes int) { x.room = bytes }

// refuse returns the failure of a decision that is refused, or nil if it may be made. failure is set if the decision exceeds a limit
// other than the room of the step. On replay, the history decides.
func (x *record) refuse(made history.Event, failure *history.Failure) *history.Failure {
	if x.past.active {
		x.collectCancels()
		ev, ok := x.peek().(*history.Refused)
		if !ok || ev.Of != made.Kind() || ev.Name != nameOf(made) {
			return nil
		}
		x.consume()
		return &ev.Failure
	}
	if failure == nil {
		failure = x.noRoom(made)
	}
	switch {
	case failure == nil, x.unwinding:
		return failure
	case x.overdrawn():
		x.exceed()
	default:
		x.append(&history.Refused{Of: made.Kind(), Name: nameOf(made), Failure: *failure})
	}
	return failure
}

// noRoom returns the failure of a decision that does not fit into the step, or nil.
func (x *record) noRoom(made history.Event) *history.Failure {
	size := sizeOf(made)
	if x.opts.Codec.Stores() && size > sealing.StoreAbove { // only a reference is in the event, but the object is in memory until the turn is over
		size = (size + x.stored.bytes) / storedShare
	}
	if size <= x.room {
		return nil
	}
	return &history.Failure{
		Code: history.CodeTurnTooLarge, Also: []string{history.CodeTooLarge}, Permanent: true,
		Message: fmt.Sprintf("%s takes %d bytes, and this turn has room for %d more; wait for a result or a timer before the next call",
			describe(made), size, max(x.room, 0)),
	}
}

// sizeOf returns an upper bound of the encoded size of a decision.
func sizeOf(ev history.Event) int {
	n := decisionBytes + len(payloadOf(ev).Data)
	switch ev := ev.(type) {
	case *history.ActivityScheduled:
		n += len(ev.Name) + len(ev.Queue)
		if ev.Limit != nil {
			n += limitBytes
		}
	case *history.ChildScheduled:
		n += len(ev.Name) + len(ev.Instance)
	case *history.EventSent:
		n += len(ev.Name) + len(ev.Instance)
		if s := ev.Start; s != nil {
			n += len(s.Name) + len(s.Payload.Data)
		}
	case *history.Broadcast:
		n += len(ev.Name) + len(ev.Text)
		for _, id := range ev.Instances {
			n += len(id) + 3
		}
	case *history.SideEffectRecorded:
		n += len(ev.Result.Data)
	case *history.UpdateAnswered: // counted twice, because the ledger stores the result, too
		n += len(ev.Result.Data)
		if f := ev.Failure; f != nil {
			n += len(f.Message) + len(f.Stack) + len(f.Data.Data)
		}
	}
	return n
}
