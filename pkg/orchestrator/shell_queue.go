package orchestrator

import (
	"context"
	"time"

	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/queue"
)

// doQueue carries out an effect that concerns NATS.
func (s *shell) doQueue(e *effect) {
	switch e.kind {
	case publishTask:
		s.publishTask(e)
	case publishMessage:
		out := e.out
		s.conn.PublishInputAsync(out.in, func(_ uint64, err error) {
			failpoint.Here("orchestrator.told")
			s.box.post(message{kind: messagePublished, out: out, err: err})
		})
	case sendHints:
		if err := s.conn.SendHints(e.id, e.body.([]queue.Hint)); err != nil {
			s.log.Debug("a cancel hint could not be sent; the worker finds out by renewing", "worker", e.id, "error", err)
		}
	case answerClients:
		s.answerClients(e.body.(*clientAnswer))
	case reportAwaited:
		r := e.body.(*awaited)
		r.to <- r.names
	case publishOutcome:
		_ = s.conn.PublishOutcome(e.body.(queue.Outcome)) // lost: a client that waits asks
	case publishChange:
		_ = s.conn.PublishChange(e.body.(queue.Change)) // lost: watchers are told of gaps that they can know of
	case readHorizon:
		s.readHorizon(e.after)
	case readQueueAge:
		q := e.body.(*queueAge)
		s.queueAges.ask(s.life, q.queue, func(at time.Time, some bool, err error) {
			answer := *q
			answer.at, answer.some = at, some
			s.box.post(message{kind: queueAgeRead, body: &answer, err: err})
		})
	default: // readFleet
		r, id := e.body.(*fleetReport), e.id
		s.fleet.ask(s.life, func(all *served) {
			if all != nil {
				s.box.post(message{kind: fleetRead, id: id, body: &fleetReport{waiting: r.waiting, served: all}})
			}
		})
	}
}

// publishTask puts the task of an activity into its queue.
func (s *shell) publishTask(e *effect) {
	instance, rec, act := e.id, e.rec, e.activity
	s.conn.PublishTask(queue.Task{
		Instance: instance, Origin: rec.Origin, Execution: rec.Execution, Activity: act.ID, Effect: act.Effect,
		Name: act.Name, Queue: act.Queue, Attempt: act.Attempt, Payload: act.Payload, ScheduledAt: act.At,
		MaxClaims: uint32(s.cfg.MaxClaims), //nolint:gosec // validated by New
		CallKey:   act.First,
	}, func(err error) {
		failpoint.Here("orchestrator.published")
		s.box.post(message{kind: taskPublished, id: instance, event: act.ID, err: err})
	})
}

func (s *shell) answerClients(a *clientAnswer) {
	for _, reply := range a.to {
		s.answer(reply, a.answer)
	}
	if a.committed {
		failpoint.Here("orchestrator.answered")
	}
}

// answer sends a reply to a client. What is lost the client requests again.
func (s *shell) answer(reply string, ans request.Answer) {
	if reply == "" {
		return
	}
	if err := request.Publish(s.conn, reply, ans); err != nil {
		s.log.Debug("answer not sent", "instance", ans.Instance, "error", err)
	}
}

// announce has the clients that wait for something in the partition request it again: they are known to the owner
// before this one, or to this one from before it was cut off.
func (s *shell) announce() {
	if err := s.conn.AnnounceOwner(s.st.Part); err != nil {
		s.log.Debug("owner could not be announced, waiting clients request again by themselves", "error", err)
	}
}

// readHorizon asks the stream how far it is.
func (s *shell) readHorizon(after time.Duration) {
	s.waits.Go(func() {
		if after > 0 {
			sleep(s.life, after)
		}
		ctx, stop := context.WithTimeout(s.life, horizonTimeout)
		defer stop()
		got, err := s.conn.Accepted(ctx, s.st.Part)
		s.box.post(message{kind: horizonAnswered, body: got, err: err})
	})
}
