package shard

import (
	"context"
	"errors"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/outage"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
)

// doQueue carries out an effect on NATS.
func (s *shell) doQueue(e *core.Effect) {
	switch e.Kind {
	case core.PublishTask:
		s.publishTask(e)
	case core.PublishMessage:
		number := e.Number
		s.process.conn.PublishInputAsync(*e.Input, func(_ uint64, err error) {
			failpoint.Here("orchestrator.messaged")
			s.post(core.Message{Kind: core.MessagePublished, Number: number, Err: err})
		})
	case core.SendHints:
		if err := s.process.conn.SendHints(e.ID, e.Body.([]message.Hint)); err != nil {
			s.log.Debug("cancel hint not sent", "worker", e.ID, "error", err)
		}
	case core.AnswerClients:
		s.answerClients(e.Body.(*core.ClientAnswer))
	case core.PublishOutcome:
		_ = s.process.conn.PublishOutcome(e.Body.(message.Outcome)) // if it is lost, waiting clients request it again
	case core.PublishChange:
		_ = s.process.conn.PublishChange(e.Body.(message.Change)) // if it is lost, watchers are notified of the gap where it can be detected
	case core.ReadHorizon:
		s.readHorizon(e.After, e.Body.(history.Position))
	case core.ReadQueueAge:
		number := e.Number
		s.process.queueAges.read(s.life, e.ID, func(at time.Time, some bool, err error) {
			s.post(core.Message{Kind: core.QueueAgeRead, Number: number, Body: core.QueueAge{At: at, Some: some}, Err: err})
		})
	case core.AnswerUpdate:
		r := e.Body.(*core.UpdateReply)
		for _, to := range r.To {
			s.answerUpdate(to, r.Answer)
		}
		failpoint.Here("orchestrator.answered")
	case core.ReadUpdate:
		s.repeatAnswer(e.ID, e.Body.(core.UpdateQuestion))
	default: // readFleet
		number := e.Number
		s.process.fleet.get(s.life, func(all *core.Served) { s.post(core.Message{Kind: core.FleetRead, Number: number, Body: all}) })
	}
}

// publishTask publishes the task of an activity, or runs it on a slot of this process that was reserved at the commit.
func (s *shell) publishTask(e *core.Effect) {
	instance, rec, act := e.ID, e.Rec, e.Activity
	task := transport.Task{
		Instance: instance, Origin: rec.Origin, Execution: rec.Execution, Activity: act.ID, Effect: act.Effect,
		Name: act.Name, Queue: act.Queue, Attempt: act.Attempt, Payload: act.Payload, ScheduledAt: act.At,
		MaxClaims: uint32(s.process.cfg.MaxClaims), //nolint:gosec // validated by New
		CallKey:   act.First, Headers: e.Headers,
	}
	published := func(err error) {
		failpoint.Here("orchestrator.published")
		s.post(core.Message{Kind: core.TaskPublished, ID: instance, Event: act.ID, Err: err})
	}
	if s.direct.run(task) {
		published(nil)
		return
	}
	s.process.conn.PublishTask(task, published)
}

func (s *shell) answerClients(a *core.ClientAnswer) {
	for _, reply := range a.To {
		s.answer(reply, a.Answer)
	}
	if a.Committed {
		failpoint.Here("orchestrator.answered")
	}
}

// answer sends a reply to a client. A client that does not receive it repeats its request.
func (s *shell) answer(reply string, ans request.Answer) {
	if reply == "" {
		return
	}
	if err := request.Publish(s.process.conn, reply, ans); err != nil {
		s.log.Debug("answer not sent", "instance", ans.Instance, "error", err)
	}
}

// announce has the clients that wait for something in the partition repeat their requests: they were registered with the previous
// owner, or with this one before its connection was interrupted.
func (s *shell) announce() {
	if err := s.process.conn.AnnounceOwner(s.st.Part); err != nil {
		s.log.Debug("owner not announced", "error", err)
	}
}

const horizonTimeout = 2 * time.Second // of one request to the stream

// readHorizon reads the end of INPUTS for the partition; inputs up to known have been applied.
func (s *shell) readHorizon(after time.Duration, known history.Position) {
	s.effects.Go(func() {
		if after > 0 {
			outage.Sleep(s.life, after)
		}
		var got message.Accepted
		err := errNotConnected
		if s.process.conn.Connected() {
			ctx, stop := context.WithTimeout(s.life, horizonTimeout)
			defer stop()
			got, err = s.process.conn.Accepted(ctx, s.st.Part, known)
		}
		s.post(core.Message{Kind: core.HorizonAnswered, Body: got, Err: err})
	})
}

var errNotConnected = errors.New("not connected to NATS")
