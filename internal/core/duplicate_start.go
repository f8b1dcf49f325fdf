package core

import (
	"fmt"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// startClass is the meaning of a start for an instance that already has its id.
type startClass uint8

// Classes of starts.
const (
	OwnStart    startClass = iota + 1 // a repeat of its own start, or the start of a client: no effect
	OrphanStart                       // the instance is an orphan: the turn that started it was lost, and was decided again differently
	IDConflict                        // the start of another parent's child
)

// ClassifyStart classifies a start. mine is the parent of the instance that has the id.
func ClassifyStart(mine *history.Parent, s *history.Started) startClass {
	switch {
	case s.Parent == nil, samePlace(mine, s.Parent) && mine.Effect == s.Parent.Effect:
		return OwnStart
	case samePlace(mine, s.Parent):
		return OrphanStart
	default:
		return IDConflict
	}
}

// replaces reports whether a client's start takes over the id of an instance that ended with this status.
func replaces(s *history.Started, ended record.Status) bool {
	return s.Parent == nil && (s.Reuse == history.ReuseTerminate || s.Reuse == history.ReuseAfterFailure && ended != record.Completed)
}

// IDConflictReply returns the message that notifies a parent that the id of its child belongs to another instance.
func IDConflictReply(id string, p *history.Parent) message.OutInput {
	return message.OutInput{Instance: p.Instance, Kind: message.KindDone, Done: &message.Done{
		Scheduled: p.Event, Effect: p.Effect,
		Failure: &history.Failure{
			Code: history.CodeIDTaken, Permanent: true,
			Message: fmt.Sprintf("instance %s exists already and is not this instance's child; give the child another id, or none", id),
		},
	}}
}

// CancelOrphan returns the cancellation of an orphan, which replaces the start that found it.
func CancelOrphan(s *history.Started) *history.CancelRequested {
	c := &history.CancelRequested{By: s.Parent.Instance, Text: "the turn that started this instance was lost by the store, and decided otherwise"}
	c.At = s.At
	return c
}

// answerStarts answers the starts in an ended instance's inbox, and returns the number of inputs to remove. A successor is a start that
// takes over the id of the instance, because that is an orphan or by the policy of the start; it is the first input that is not removed.
func (t *turns) answerStarts(in *instance) (n int, successor *history.Started) {
	for i, u := range in.unread {
		if u.ForOwner() {
			return i, nil
		}
		s, ok := u.Ev.(*history.Started)
		if !ok {
			continue
		}
		switch ClassifyStart(in.rec.Parent, s) {
		case OwnStart:
			if replaces(s, in.status()) {
				return i, s
			}
			if end, err := in.rec.EndEvent(); s.Parent != nil && err == nil && end != nil {
				t.owner.outbox.reply(in, done(s.Parent, end))
			}
		case OrphanStart:
			return i, s
		case IDConflict:
			t.owner.met[CountIDConflicts]++
			t.owner.outbox.reply(in, IDConflictReply(in.id, s.Parent))
		}
	}
	return len(in.unread), nil
}

// promoteSuccessor passes the id of an ended instance to another start, as the next execution with an origin of its own.
func (t *turns) promoteSuccessor(in *instance, successor *history.Started) {
	successor.Execution = in.rec.Execution + 1
	turn := &turn{in: in, Decided: Decided{Consumed: Consumed{Pop: []string{in.unread[0].ID}}}, successor: successor}
	front, err := Element(successorID(successor.Execution)+t.owner.seal, successor)
	if err != nil {
		t.owner.removals.stall(in, stallUnreadable, err.Error())
		return
	}
	turn.Front = [][]byte{front}
	t.owner.log.Info("id of ended instance reused", "instance", in.id, "sequence", successor.Origin.Seq)
	t.owner.commits.commit(in, turn)
}

// Element encodes an input for the front of an inbox.
func Element(id string, ev history.Event) ([]byte, error) {
	body, err := eventcodec.Encode(ev)
	if err != nil {
		return nil, err
	}
	return eventcodec.Element{ID: id, At: ev.Meta().At, Body: body}.Encode(), nil
}

// StartID returns the id of an execution's start that is not from the stream. The scripts read the mark "!".
func StartID(execution uint64) string { return fmt.Sprintf("!c%d.0", execution) }

// successorID returns the id of the start of a successor. Unlike the start of an instance's next execution, it has not passed its limit.
func successorID(execution uint64) string { return fmt.Sprintf("%s%d.0", successorMark, execution) }

const successorMark = "!h"

// CarriedID returns the id of the n-th input that is carried to the next execution.
func CarriedID(execution uint64, n int) string { return fmt.Sprintf("c%d.%d", execution, n) }

// samePlace reports whether p and q name the same event as the one that started the child.
func samePlace(p, q *history.Parent) bool {
	return p != nil && q != nil && p.Instance == q.Instance && p.Origin == q.Origin && p.Execution == q.Execution && p.Event == q.Event
}
