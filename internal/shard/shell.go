package shard

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/internal/leases"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/outage"
	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/promx"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/internal/turn"
	"github.com/pawlrun/pawl/pkg/lease"
)

const loadTimeout = 30 * time.Second // enough for a busy Redis to return a history near its size limit

// shell carries out the effects of one partition, and posts their answers as messages. It makes no decisions.
type shell struct {
	process *Process
	tenure  *partition.Tenure
	st      store.Tenure
	seal    string // suffix of the ids of inbox elements that this owner creates
	log     *slog.Logger
	box     *mailbox
	turns   *turner
	ctx     context.Context //nolint:containedctx // ends with the tenure
	life    context.Context //nolint:containedctx // ends with the shard, after ctx: a hand-over still completes outstanding work
	effects sync.WaitGroup  // goroutines that carry out effects
	lag     lag
	began   time.Time

	unserved unserved
	resident
	direct *direct
}

// resident holds the code in memory, and the turns that are running, by instance. Only the goroutine of the partition uses it.
type resident struct {
	residents   map[string]turn.Code
	running     map[string]*turnRun
	guests      map[string]guest      // instances whose code other members have
	remoteTurns map[string]*guestTurn // turns that other members are deciding
	failed      map[string]bool       // instances whose latest turn ended with an error in another member
}

// now returns the time of a message. It advances with the monotonic clock alone, so that the intervals in a recording are true.
func (s *shell) now() time.Time { return s.began.Add(time.Since(s.began)) }

// post sends a message to the owner. It returns false if the shard has ended.
func (s *shell) post(m core.Message) bool { return s.box.post(mail{Message: m}) }

// do carries out one effect.
func (s *shell) do(e *core.Effect) {
	switch e.Kind {
	case core.RunTurn:
		s.runTurn(e.ID, e.Given)
	case core.EvictCode:
		s.evict(e.ID)
	case core.FindCode:
		findCode(s, e.ID, e.Body.(core.CodeName))
	case core.LoadInstance, core.ReadInbox, core.SearchInbox, core.FetchHead, core.FindWipe, core.ReadSchedule, core.ReadHistory:
		s.read(e)
	case core.CommitTurn, core.ReconcileWith, core.RemoveInstance, core.WipeInstance, core.RewindInstance, core.ReadDue, core.ListRefusals, core.RemoveRefusals, core.ReportLate, core.NoteCancelled, core.ListUnserved, core.UnlistUnserved:
		s.write(e)
	case core.CallLimit, core.ReleaseTickets, core.SweepLimit, core.RescheduleLimit, core.UnlistLimit, core.FindUnwanted, core.PassNotices, core.WakeLimit:
		s.doLimit(e)
	case core.PublishTask, core.PublishMessage, core.SendHints, core.AnswerClients, core.PublishOutcome, core.PublishChange, core.ReadHorizon, core.ReadQueueAge, core.ReadFleet, core.AnswerUpdate, core.ReadUpdate:
		s.doQueue(e)
	case core.PostResend, core.PostLater:
		s.postLater(e)
	case core.WriteLog:
		s.writeLog(e.Body.(*core.LogLine))
	case core.CountLimit:
		s.process.met.countLimit(e.ID, e.Body.(core.LimitCount))
	}
}

// postLater posts a message after a pause.
func (s *shell) postLater(e *core.Effect) {
	after := e.After
	m, _ := e.Body.(*core.Message)
	s.effects.Go(func() {
		outage.Sleep(s.life, after)
		if m == nil {
			m = &core.Message{Kind: core.ResendDue, Body: s.process.conn.Connected()}
		}
		s.post(*m)
	})
}

// read carries out an effect that waits for a reply of Redis, on a goroutine of its own.
func (s *shell) read(e *core.Effect) {
	kind, id, span, execution := e.Kind, e.ID, e.After, e.Number
	timeout := loadTimeout
	if kind == core.FindWipe {
		timeout = wipeTimeout
	}
	s.effects.Go(func() {
		ctx, stop := context.WithTimeout(s.life, timeout)
		defer stop()
		m := core.Message{ID: id}
		switch part := s.st.Part; kind {
		case core.LoadInstance:
			m.Kind = core.InstanceLoaded
			m.Body, m.Err = s.process.store.Load(ctx, part, id)
		case core.ReadInbox:
			m.Kind = core.InboxRead
			m.Body, m.Err = s.process.store.Unread(ctx, part, id)
		case core.SearchInbox:
			m.Kind = core.InboxRead
			m.Body, m.Err = s.process.store.Inbox(ctx, part, id, 0)
		case core.FetchHead:
			m.Kind = core.HeadRead
			m.Body, m.Err = s.process.store.Head(ctx, part, id)
		case core.ReadHistory:
			m.Kind = core.HistoryRead
			m.Body, m.Err = s.process.store.RewindSource(ctx, part, id, execution)
		case core.FindWipe:
			m.Kind = core.WipeFound
			m.Body, m.Err = s.findWipe(ctx, id)
		default: // core.ReadSchedule
			m.Kind = core.ScheduleRead
			_, m.Body, m.Err = s.process.store.Wakeups(ctx, part, span)
		}
		m.Err = refused(m.Err)
		s.post(m)
	})
}

// refused marks an error with record.ErrRefused if Redis rejects the request as such, so that a retry would fail too.
func refused(err error) error {
	if redisx.Refused(err) {
		return fmt.Errorf("%w: %w", record.ErrRefused, err)
	}
	return err
}

// write carries out an effect that writes to the store, without waiting for the reply.
func (s *shell) write(e *core.Effect) {
	id := e.ID
	switch e.Kind {
	case core.CommitTurn:
		begin, t, c := time.Now(), e.Decided, s.direct.claim(e)
		checkLimits(s, id, t)
		s.process.store.Commit(s.st, c, func(done record.Committed, err error) {
			failpoint.Here("orchestrator.committed")
			with := exemplar(t)
			promx.Observe(s.process.met.commitSeconds, time.Since(begin).Seconds(), with)
			if err == nil {
				s.tenure.Committed(done.Number)
				s.process.met.committed(t, c, done.Now, with)
				s.process.spans.committed(id, t)
			}
			s.post(core.Message{Kind: core.CommitAnswered, ID: id, Committed: done, Err: refused(err)})
		})
	case core.ReconcileWith:
		s.declineFor(e.Recon)
		s.process.store.Reconcile(s.st, e.Recon, func(got record.Reconciled, err error) {
			s.post(core.Message{Kind: core.Reconciled, ID: id, Reconciled: got, Err: err})
		})
	case core.RemoveInstance:
		s.process.store.Purge(s.st, e.Body.(*record.Purge), func(now int64, err error) {
			failpoint.Here("orchestrator.purged")
			s.post(core.Message{Kind: core.PurgeAnswered, ID: id, Body: now, Err: err})
		})
	case core.RewindInstance:
		s.process.store.Rewind(s.st, e.Body.(*record.Rewind), func(done record.Committed, err error) {
			failpoint.Here("orchestrator.rewound")
			if err == nil {
				s.tenure.Committed(done.Number)
			}
			s.post(core.Message{Kind: core.RewindAnswered, ID: id, Committed: done, Err: err})
		})
	case core.WipeInstance:
		s.process.store.Wipe(s.st, &e.Body.(*core.Wipe).Request, func(now int64, err error) {
			failpoint.Here("orchestrator.purged")
			s.post(core.Message{Kind: core.Wiped, ID: id, Body: now, Err: err})
		})
	case core.ReadDue:
		s.process.store.Due(s.st, core.DueBatch, func(d record.DueSet, err error) { s.post(core.Message{Kind: core.DueRead, Body: d, Err: err}) })
	case core.ListRefusals:
		refused := e.Body.([]record.Refusal)
		s.effects.Go(func() { s.listRefusals(s.life, refused) })
	case core.ReportLate:
		s.report(id, e.Body.(*core.LateReports))
	case core.RemoveRefusals:
		reply := e.Body.(string)
		s.effects.Go(func() { s.removeRefusals(s.life, id, reply) })
	case core.ListUnserved:
		s.unserved.set(id, e.Body.(core.Stall))
	case core.UnlistUnserved:
		s.unserved.drop(id)
	default: // noteCancelled
		s.process.descendants.add(e.Body.([]string))
	}
}

// declineFor declines the partition if a stalled instance lacks code or a key that another process may have. If its turns are decided by other
// members, another owner would not help.
func (s *shell) declineFor(r *record.Reconciliation) {
	if r.Stalled == "" || r.Stalled == record.NotStalled {
		return
	}
	stall := core.ParseStall(r.Stalled)
	if stall.Lacks() && !s.failed[r.Instance] && s.process.declines.allow(reason{r.Instance, string(stall.Kind)}, s.st.Token, time.Now()) {
		s.tenure.Decline()
	}
}

// report writes that cancelled activities had completed before. It is best effort: a lost report is only missing from the history page.
func (s *shell) report(id string, r *core.LateReports) {
	late := make([]leases.Reported, min(len(r.Reports), leases.MaxReports))
	for i, l := range r.Reports[:len(late)] {
		late[i] = leases.Reported{Activity: l.Activity, Report: lease.Report{Ending: lease.FinishedFirst, Worker: l.Worker, At: time.UnixMilli(l.At)}}
	}
	ref := leases.Ref{Part: s.st.Part, Instance: id, Execution: r.Execution}
	s.process.leases.Report(ref, late, func(err error) {
		if err != nil {
			s.log.Debug("reports of cancelled activities not written", "instance", id, "activities", len(late), "error", err)
		}
	})
}

// listRefusals stores refused inputs for list --stalled. If Redis does not reply, only the log line and the metric remain.
func (s *shell) listRefusals(ctx context.Context, refused []record.Refusal) {
	if len(refused) == 0 {
		return
	}
	ctx, stop := context.WithTimeout(ctx, maxRetry)
	defer stop()
	if err := s.process.store.Refuse(ctx, s.st, refused); err != nil && ctx.Err() == nil {
		logFailure(s.log, "refused inputs not listed", err, "inputs", len(refused))
	}
}

// removeRefusals completes the purge of an id that has no instance: it removes the refused inputs of the id.
func (s *shell) removeRefusals(ctx context.Context, id, reply string) {
	ctx, stop := context.WithTimeout(ctx, maxRetry)
	defer stop()
	found, err := s.process.store.RemoveRefusals(ctx, s.st, id)
	if err != nil && ctx.Err() == nil {
		logFailure(s.log, "refused inputs not removed", err, "instance", id)
	}
	ans := request.Answer{Instance: id}
	if !found || err != nil {
		ans.Problem = core.NotFound(id)
	}
	s.answer(reply, ans)
}

// dropRefused removes the refused inputs of an id from the list; its instance is not affected.
func (s *shell) dropRefused(ctx context.Context, id string) (request.Reply, error) {
	found, err := s.process.store.RemoveRefusals(ctx, s.st, id)
	if err == nil && !found {
		err = &request.Problem{Code: request.ProblemNotFound, Message: "no input of " + id + " is listed as refused"}
	}
	return new(request.Done), err
}

// doLimit carries out an effect that concerns limits.
func (s *shell) doLimit(e *core.Effect) {
	name := e.ID
	switch e.Kind {
	case core.CallLimit:
		why, number := e.Reason, e.Number
		s.process.limits.Admit(*e.Call, func(got limit.AdmitReply, err error) {
			switch why {
			case core.EnterTurn, core.EnterStart:
				failpoint.Here("orchestrator.entered")
			case core.LeaveLimit:
				failpoint.Here("orchestrator.left")
			case core.RepeatLimitRequest:
			}
			s.post(core.Message{Kind: core.LimitAnswered, Number: number, Admitted: got, Err: err})
		})
	case core.ReleaseTickets:
		s.process.limits.ReleaseOrphans(name, e.Body.([]limit.Orphan), func(got limit.AdmitReply, err error) {
			s.post(core.Message{Kind: core.TicketsReleased, ID: name, Admitted: got, Err: err})
		})
	case core.SweepLimit:
		s.process.limits.Sweep(name, e.Body.(*limit.InForce), func(got limit.SweepReply, err error) {
			failpoint.Here("orchestrator.swept")
			if got.Version > 0 {
				s.process.policies.saw(got.Version - 1) // see policies.resolve
			}
			s.post(core.Message{Kind: core.LimitSwept, ID: name, Body: got, Err: err})
		})
	case core.RescheduleLimit:
		after := e.After
		s.process.limits.Reschedule(name, after, func(err error) { s.post(core.Message{Kind: core.LimitRescheduled, ID: name, Body: after, Err: err}) })
	case core.UnlistLimit:
		s.process.limits.Unschedule(name, func(error) {})
	case core.FindUnwanted:
		swept := e.Body.(limit.SweepReply)
		s.process.limits.FindOrphans(swept.Stale, func(unwanted []limit.Member, err error) {
			s.post(core.Message{Kind: core.UnwantedFound, ID: name, Body: &core.UnwantedMembers{Members: unwanted, At: swept.Now}, Err: err})
		})
	case core.PassNotices:
		to := make(map[int][]core.LimitNotice)
		for _, w := range e.Body.([]core.LimitNotice) {
			p := s.process.conn.PartitionOf(w.Member.Instance)
			to[p] = append(to[p], w)
		}
		for p, ws := range to {
			s.passNotices(p, ws)
		}
	default: // wakeLimit
		s.wakeLimit(name)
	}
}

// passNotices sends the notices of a limit to the owner of a partition. Notices to this shard are posted as well, instead of being handled
// at once: their instances may be in any phase.
func (s *shell) passNotices(p int, ws []core.LimitNotice) {
	if here := s.process.shards.at(p); here != nil {
		here.shell.post(core.Message{Kind: core.NoticesPassed, Body: ws})
		return
	}
	out := make([]message.LimitNotice, len(ws))
	for i, w := range ws {
		out[i] = w.Encode()
	}
	s.sendNotices(p, out)
}

// wakeLimit has the owner of a limit sweep it.
func (s *shell) wakeLimit(name string) {
	p := s.process.conn.PartitionOf(name)
	if here := s.process.shards.at(p); here != nil {
		here.shell.post(core.Message{Kind: core.LimitDue, ID: name})
		return
	}
	s.sendNotices(p, []message.LimitNotice{{Limit: name}})
}

func (s *shell) sendNotices(p int, ws []message.LimitNotice) {
	if err := s.process.conn.SendLimitNotices(p, ws); err != nil {
		s.log.Debug("limit notices not sent, repeated by sweep", "partition", p, "error", err)
	}
}
