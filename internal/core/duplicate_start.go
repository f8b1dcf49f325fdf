package core

import (
	"fmt"

	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/queue"
)

// startClass is what a start means to an instance that is there already.
type startClass uint8

// Classes of starts.
const (
	OwnStart    startClass = iota + 1 // its own start, or a client's: harmless
	OrphanStart                       // the turn that started the instance was forgotten, and decided otherwise
	IDConflict                        // somebody else wants the id
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

// IDConflictReply tells a parent that the id of its child belongs to somebody else.
func IDConflictReply(id string, p *history.Parent) queue.OutInput {
	return queue.OutInput{Instance: p.Instance, Kind: queue.KindDone, Done: &queue.Done{
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

// answerStarts does what the starts at the head of an ended instance's inbox ask for, and says how
// many inputs are to be taken out. If one of them takes the place of an orphan, it is the
// first that is left.
func (a *turns) answerStarts(in *instance) (n int, successor *history.Started) {
	for i, u := range in.unread {
		if _, purge := u.Ev.(*history.PurgeRequested); purge {
			return i, nil
		}
		s, ok := u.Ev.(*history.Started)
		if !ok {
			continue
		}
		switch ClassifyStart(in.rec.Parent, s) {
		case OwnStart:
			if end, err := in.rec.EndEvent(); s.Parent != nil && err == nil && end != nil {
				a.outbox.reply(in, done(s.Parent, end))
			}
		case OrphanStart:
			return i, s
		case IDConflict:
			a.met.Taken.Inc()
			a.outbox.reply(in, IDConflictReply(in.id, s.Parent))
		}
	}
	return len(in.unread), nil
}

// promoteSuccessor gives the id of an ended orphan to the child that its parent has now: the next execution, with a
// birth of its own.
func (a *turns) promoteSuccessor(in *instance, successor *history.Started) {
	successor.Execution = in.rec.Execution + 1
	t := &turn{in: in, Decided: Decided{Taken: Taken{Pop: []string{in.unread[0].ID}}}, successor: successor}
	front, err := Element(successorID(successor.Execution)+a.seal, successor)
	if err != nil {
		a.removals.stall(in, stallUnreadable, err.Error())
		return
	}
	t.Front = [][]byte{front}
	a.log.Info("an orphan has ended; its id goes to the child that its parent has now", "instance", in.id, "parent", successor.Parent.Instance)
	a.commits.commit(in, t)
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
