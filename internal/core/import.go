package core

import (
	"errors"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/imported"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// Import of an exported instance. See decision 79.
//
// An import is a start of message.ImportName whose payload contains the history. It takes an id like any start with Reject: it
// never has an effect on an existing instance, and of two imports, or an import and a start, the one that is accepted first takes the id:
//
//	start with the history ──▶ one commit: record, history, status ──▶ an instance that has ended
//	                                                                        └── retry ──▶ execution n+1 ──▶ running
//
// The history of an instance that had not ended is closed as by a termination: outstanding activities and children are cancelled, and the
// imported instance has no lease, no message and no ticket of them. A retry drops that end, as for every instance that its owner has ended,
// and continues like a rewind: outstanding activities are rescheduled in the next execution, with effect ids of that execution;
// outstanding children are started again. So an imported instance runs nothing until an operator requests it.
//
// The events keep the values that their code has seen: random values and ids of children are derived from the recorded identity
// (Started.Recorded). Effect ids of children and tickets are replaced (imported.Instance.Adopt), so that neither a cancellation nor a rewind
// of the imported instance affects children and tickets of the exported one.
//
// An import that a newer build made waits for an owner of that build, stalled as unreadable.
//
// Crash points: before the commit the start is in the inbox, and the next owner imports it; after the commit the instance is like any other.

// importing returns the start at the head of the inbox that imports the instance; nil: there is none.
func (in *instance) importing() *history.Started {
	s, ok := in.unread0().(*history.Started)
	if !ok || s.Name != message.ImportName || s.Payload.Type != imported.ContentType || in.rec != nil {
		return nil
	}
	return s
}

// importInstance writes the record and the history of an imported instance. If the import is invalid, the instance fails. The payload is
// decoded here, and not by the shell, because its bounds keep that fast.
func (t *turns) importInstance(in *instance, s *history.Started) {
	m, err := imported.Read(s.Payload)
	var events []history.Event
	if err == nil {
		events, err = m.Adopt(in.id, s)
	}
	for i := 0; i < len(events) && err == nil; i++ { // a payload in the object store would be removed with the exported instance
		err = sealing.CheckPortable(events[i])
	}
	if errors.Is(err, eventcodec.ErrNewerVersion) {
		t.owner.removals.stall(in, stallUnreadable, err.Error()) // the start keeps its payload
		return
	}
	s.Payload = history.Payload{}
	turn := t.owner.newTurn(in, &fold.State{})
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
	in.sent = record.Watermark{Execution: turn.Fold.Execution(), Event: turn.Fold.Len} // none of its messages is sent
	t.owner.log.Info("instance imported", "instance", in.id, "from", m.Instance, "by", s.By, "events", len(m.Events))
	t.owner.commits.commit(in, turn)
}
