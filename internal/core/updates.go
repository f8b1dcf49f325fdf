package core

import (
	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

// Updates are inputs with an answer: decision 64 describes their states, the orders that matter and the crash points. The commit of a
// turn writes its answers into the ledger; the reply sent after it is a copy, which may be lost:
//
//	turn ──▶ Decided.Answers ──▶ Commit.Answers ──committed──▶ AnswerUpdate, to the reply subject of the update and those that wait for it
//	ingest: a repeat of an id ──▶ ReadUpdate: the shell answers from the ledger
//
// An update that is open when its instance ends is answered without a write: an ended record together with a ledger that has no answer
// means that the instance has ended.

// AnsweredUpdate is an update that a turn answers.
type AnsweredUpdate struct {
	Update *history.UpdateReceived
	Answer eventcodec.UpdateAnswer
	Left   bool // the update is dropped with its instance, and the answer is not written
}

// UpdateReply is the answer to an update, for the clients that wait for it.
type UpdateReply struct {
	To     []string // reply subjects
	Answer message.UpdateAnswer
}

// UpdateQuestion is a request for the recorded answer to an update, made by a repeat of the update.
type UpdateQuestion struct{ Name, UpdateID, Reply string }

// UpdateWait returns the id of UpdateAwaited.
func UpdateWait(instance, update string) string { return instance + "\n" + update }

func updateReceived(in message.Input, name string, p history.Payload) *history.UpdateReceived {
	return &history.UpdateReceived{Name: name, UpdateID: in.ID, Payload: p, By: in.By, Reply: in.Reply, Deadline: in.Deadline}
}

// Answer adds the answer to an update that the code does not receive.
func (t *Decided) Answer(u *history.UpdateReceived, at int64, why *history.Failure) {
	t.Answers = append(t.Answers, AnsweredUpdate{Update: u, Answer: eventcodec.UpdateAnswer{At: at, Failure: why}})
}

// noteAnswered keeps the update that an event answers, before the state drops it.
func (t *Decided) noteAnswered(e history.Event) {
	a, ok := e.(*history.UpdateAnswered)
	if !ok {
		return
	}
	if u := t.Fold.Update(a.Update); u != nil {
		t.Size += len(a.Result.Data)
		t.Answers = append(t.Answers, AnsweredUpdate{Update: u, Answer: eventcodec.UpdateAnswer{At: a.At, Result: a.Result, Failure: a.Failure}})
	}
}

// leave answers an update that is dropped with its instance.
func (t *Decided) leave(u Unread) {
	if up, ok := u.Ev.(*history.UpdateReceived); ok {
		t.Answers = append(t.Answers, AnsweredUpdate{Update: up, Answer: eventcodec.UpdateAnswer{Failure: replay.EndedUpdate(up.Name, up.UpdateID)}, Left: true})
	}
}

// repeatedUpdate answers a repeat of an update from the ledger, at once or when the update is answered.
func (c *commits) repeatedUpdate(arr Arrival, result *record.Ingested) {
	u, ok := arr.Ev.Ev.(*history.UpdateReceived)
	if !ok || arr.Reply == "" || !result.Repeat {
		return
	}
	c.updaters.add(UpdateWait(arr.Instance, effectid.Update(u)), arr.Reply, c.owner.clock.now())
	c.owner.emit(Effect{Kind: ReadUpdate, ID: arr.Instance, Body: UpdateQuestion{Name: u.Name, UpdateID: u.UpdateID, Reply: arr.Reply}})
}
