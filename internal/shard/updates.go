package shard

import (
	"context"
	"slices"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history"
)

// answerUpdate sends the answer to an update. A client that does not receive it repeats its request.
func (s *shell) answerUpdate(to string, a message.UpdateAnswer) {
	if err := request.PublishUpdate(s.process.conn, to, a); err != nil {
		s.log.Debug("answer not sent", "instance", a.Instance, "update", a.Update, "error", err)
	}
}

// repeatAnswer answers a repeated update, if the update has an answer.
func (s *shell) repeatAnswer(id string, q core.UpdateQuestion) {
	s.effects.Go(func() {
		ctx, stop := context.WithTimeout(s.life, loadTimeout)
		defer stop()
		a, err := s.readAnswer(ctx, id, q.Name, q.UpdateID)
		switch {
		case err != nil:
			s.log.Debug("answer to update not read", "instance", id, "update", q.Name, "error", err)
		case a != nil:
			s.answerUpdate(q.Reply, *a)
		}
	})
}

// readAnswer reads the answer to an update from the ledger, or derives it from the end of the instance. It returns nil if there is none yet.
func (s *shell) readAnswer(ctx context.Context, id, name, updateID string) (*message.UpdateAnswer, error) {
	answer, open, err := s.process.store.UpdateAnswer(ctx, s.st.Part, id, effectid.UpdateKey(name, updateID))
	if err != nil {
		return nil, err
	}
	if answer == nil {
		rec, err := s.process.store.Record(ctx, s.st.Part, id)
		ended := err == nil && rec != nil && rec.Status.Ended()
		if err == nil && rec != nil && !ended {
			ended, err = s.leftByFormer(ctx, id, effectid.UpdateKey(name, updateID), open, rec)
		}
		if err != nil || !ended {
			return nil, err
		}
		// The instance may have ended between the two reads, and answered the update.
		if answer, _, err = s.process.store.UpdateAnswer(ctx, s.st.Part, id, effectid.UpdateKey(name, updateID)); err != nil {
			return nil, err
		}
		if answer == nil {
			answer = &eventcodec.UpdateAnswer{Failure: replay.EndedUpdate(name, updateID)}
		}
	}
	a := core.UpdateAnswer(id, name, updateID, *answer)
	return &a, nil
}

// leftByFormer reports whether an update that is open in the ledger belongs to a previous instance with the same id. If INPUTS was recreated in
// between, sequences and times may contradict each other; the update then belongs to a previous instance if this one does not have it.
func (s *shell) leftByFormer(ctx context.Context, id, key string, open history.Position, rec *record.Record) (bool, error) {
	if before := open.Before(rec.Origin); !rec.Replaced || open.Seq == 0 || before || rec.Origin.Before(open) {
		return rec.Replaced && before, nil
	}
	l, err := s.process.store.Load(ctx, s.st.Part, id)
	if err != nil || l.Record == nil || record.Truncated(l.Unread) {
		return false, err
	}
	state, err := core.FoldOf(l.Events)
	if err != nil || slices.ContainsFunc(allOpen(l, state), func(u *history.UpdateReceived) bool { return effectid.Update(u) == key }) {
		return false, err
	}
	again, err := s.process.store.Record(ctx, s.st.Part, id) // a commit between the reads may have moved the update
	return again != nil && again.Head == rec.Head && l.Record.Head == rec.Head, err
}

// updateAnswer answers with the answer to an update, or registers the reply subject for it.
func (qs *queries) updateAnswer(ctx context.Context, q *request.Update) (request.Reply, error) {
	if q.ReplyTo != "" {
		qs.shell.post(core.Message{Kind: core.UpdateAwaited, ID: core.UpdateWait(q.Instance, effectid.UpdateKey(q.Name, q.ID)), Body: q.ReplyTo})
	}
	a, err := qs.shell.readAnswer(ctx, q.Instance, q.Name, q.ID)
	if err != nil {
		return nil, err
	}
	if a == nil {
		rec, err := qs.process.store.Record(ctx, qs.shell.st.Part, q.Instance)
		if err == nil && rec == nil {
			err = qs.pending(ctx, q.Instance, nil)
		}
		return new(request.Answered), err
	}
	ans := request.AnswerOf(*a)
	return &request.Answered{Answer: &ans}, nil
}

const maxUpdateInput = 2 << 10 // bytes of the input of an open update in a description

// allOpen returns the open updates of a history, and then the updates at the head of the inbox.
func allOpen(l record.Loaded, state *fold.State) []*history.UpdateReceived {
	all := state.OpenUpdates()
	for _, b := range l.Unread {
		if u, ok := unreadEvent(b).(*history.UpdateReceived); ok {
			all = append(all, u)
		}
	}
	return all
}

// openUpdates describes the updates that an instance has not answered.
func openUpdates(l record.Loaded, state *fold.State) []request.OpenUpdate {
	if l.Record.Status.Ended() {
		return nil
	}
	all := allOpen(l, state)
	var out []request.OpenUpdate
	for _, u := range all[:min(len(all), maxOutstanding)] {
		o := request.OpenUpdate{Name: u.Name, ID: u.UpdateID, By: u.By, At: u.At, Deadline: u.Deadline}
		if len(u.Payload.Data) <= maxUpdateInput {
			o.Input = u.Payload
		}
		out = append(out, o)
	}
	return out
}
