package core

import (
	"errors"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// Import of an exported instance. See decision 79.
//
// An import is a start of message.ImportName whose payload has the history. It takes an id as every start with Reject does, so it
// never has an effect on an instance that exists, and of two imports, or an import and a start, the one that is accepted first has the id:
//
//	start with the history ──▶ one commit: record, history, status ──▶ an instance that has ended
//	                                                                        └── retry ──▶ execution n+1 ──▶ running
//
// The history of an instance that had not ended is closed as by a termination, so what was outstanding there is cancelled, and nothing of
// it is in the imported instance: no lease, no message, no ticket. A retry drops that end, as of every instance that its owner has ended,
// and continues like a rewind: what was outstanding is scheduled anew in the next execution, with its effect ids; children
// that were outstanding are started anew. So an imported instance runs nothing until an operator requests it.
//
// The events keep what their code has seen: random values and ids of children follow from where they were recorded
// (Started.Recorded). Effect ids of children and tickets are replaced (history.Import.Adopt), so that neither a cancellation nor a rewind of the
// imported instance has an effect on what belongs to the exported one.
//
// An import that a newer build made waits for an owner of that build, stalled as unreadable.
//
// Crash points: before the commit the start is in the inbox, and the next owner imports it; behind it there is an instance like any other.

// importing is the start at the head of the inbox that imports the instance; nil: there is none.
func (in *instance) importing() *history.Started {
	s, ok := in.unread0().(*history.Started)
	if !ok || s.Name != message.ImportName || s.Payload.Type != history.TypeImport || in.rec != nil {
		return nil
	}
	return s
}

// importInstance writes the record and the history of an imported instance; one that cannot be imported has failed. It reads the payload
// itself: its bounds keep that short.
func (t *turns) importInstance(in *instance, s *history.Started) {
	m, err := history.ReadImport(s.Payload)
	var events []history.Event
	if err == nil {
		events, err = m.Adopt(in.id, s)
	}
	for i := 0; i < len(events) && err == nil; i++ { // its objects would be removed with the exported instance
		err = pawlcodec.CheckPortable(events[i])
	}
	if errors.Is(err, history.ErrNewerVersion) {
		t.owner.removals.stall(in, stallUnreadable, err.Error()) // the start keeps its payload
		return
	}
	s.Payload = history.Payload{}
	turn := t.owner.newTurn(in, &history.State{})
	turn.noted, turn.imported = true, true
	if err != nil || !turn.Record(events) {
		t.failByName(in, &history.Failure{Code: history.CodeUndecodable, Permanent: true, Message: errors.Join(err, turn.Err).Error()})
		return
	}
	if turn.Fold.End == nil {
		turn.end(cancelled(cancel.Terminated, s.By, "imported; a retry continues it", turn.now))
	}
	turn.Fold.TakeReleased()
	turn.Fold.TrimAcked(turn.Fold.Len)
	turn.Pop, turn.Attributes, turn.Settled, turn.Answers = []string{in.unread[0].ID}, m.Attributes, nil, nil
	in.sent = record.Watermark{Execution: turn.Fold.Execution(), Event: turn.Fold.Len} // nothing of it is sent
	t.owner.log.Info("instance imported", "instance", in.id, "from", m.Instance, "by", s.By, "events", len(m.Events))
	t.owner.commits.commit(in, turn)
}
