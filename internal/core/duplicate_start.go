package core

import (
	"fmt"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// startClass is what a start means to an instance that is there already.
type startClass uint8

// Classes of starts.
const (
	OwnStart    startClass = iota + 1 // its own start, or a client's: harmless
	OrphanStart                       // the turn that started the instance was forgotten, and decided otherwise
	IDConflict                        // the start of another parent's child
)

// ClassifyStart sorts a start by the parent of the instance that holds the id.
func ClassifyStart(mine *history.Parent, s *history.Started) startClass {
	switch {
	case s.Parent == nil, mine.SamePlace(s.Parent) && mine.Effect == s.Parent.Effect:
		return OwnStart
	case mine.SamePlace(s.Parent):
		return OrphanStart
	default:
		return IDConflict
	}
}

// replaces reports whether a start takes the id of an instance that has ended so.
func replaces(s *history.Started, ended record.Status) bool {
	return s.Parent == nil && (s.Reuse == history.ReuseTerminate || s.Reuse == history.ReuseAfterFailure && ended != record.Completed)
}

// IDConflictReply is the message to a parent that the id of its child belongs to another instance.
func IDConflictReply(id string, p *history.Parent) message.OutInput {
	return message.OutInput{Instance: p.Instance, Kind: message.KindDone, Done: &message.Done{
		Scheduled: p.Event, Effect: p.Effect,
		Failure: &history.Failure{
			Code: history.CodeIDTaken, Permanent: true,
			Message: fmt.Sprintf("instance %s exists already and is not this instance's child; give the child another id, or none", id),
		},
	}}
}

// CancelOrphan is the cancellation of an orphan, in place of the start that found it.
func CancelOrphan(s *history.Started) *history.CancelRequested {
	c := &history.CancelRequested{By: s.Parent.Instance, Text: "the turn that started this instance was lost by the store, and decided otherwise"}
	c.At = s.At
	return c
}

// answerStarts handles the starts at the head of an ended instance's inbox, and returns how
// many inputs are to be taken out. If a start takes the place of the instance, as an orphan's or by its policy, it is the first input
// that is left.
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
			t.owner.met[CountTaken]++
			t.owner.outbox.reply(in, IDConflictReply(in.id, s.Parent))
		}
	}
	return len(in.unread), nil
}

// promoteSuccessor gives the id of an ended instance to another start: the next execution, with an origin of its own.
func (t *turns) promoteSuccessor(in *instance, successor *history.Started) {
	successor.Execution = in.rec.Execution + 1
	turn := &turn{in: in, Decided: Decided{Taken: Taken{Pop: []string{in.unread[0].ID}}}, successor: successor}
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
	body, err := history.Encode(ev)
	if err != nil {
		return nil, err
	}
	return history.Element{ID: id, At: ev.Meta().At, Body: body}.Encode(), nil
}

// StartID names the start of an execution that no stream has. The mark is read by the scripts.
func StartID(execution uint64) string { return fmt.Sprintf("!c%d.0", execution) }

// successorID names the start of an orphan's successor. Unlike the next execution of an instance it has not been at its gate.
func successorID(execution uint64) string { return fmt.Sprintf("%s%d.0", successorMark, execution) }

const successorMark = "!h"

// CarriedID names an event that the next execution begins with.
func CarriedID(execution uint64, n int) string { return fmt.Sprintf("c%d.%d", execution, n) }
