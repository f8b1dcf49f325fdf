package orchestrator

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/pkg/lease"
	"github.com/pawlrun/pawl/pkg/queue"
)

const loadTimeout = 30 * time.Second // of a history near its limit, from a busy Redis

// shell carries out the effects of one partition, and posts their answers as messages. It decides nothing.
type shell struct {
	*shared
	tenure *partition.Tenure
	st     store.Tenure
	seal   string // of the elements that the owner makes
	log    *slog.Logger
	box    *mailbox
	turns  *turner
	ctx    context.Context //nolint:containedctx // ends with the tenure
	life   context.Context //nolint:containedctx // ends with the shard: later, for a hand-over finishes what is under way
	waits  sync.WaitGroup  // of what has been sent off
	lag    lag
}

// do carries out one effect.
func (s *shell) do(e *effect) {
	switch e.kind {
	case runTurn:
		s.runTurn(e.turn)
	case evictCode:
		s.evict(e)
	case loadInstance, readInbox, searchInbox, fetchHead, findWipe, readSchedule:
		s.read(e.kind, e.in, e.after)
	case commitTurn:
		s.commit(e.in, e.turn, e.commit)
	case reconcileWith:
		s.reconcile(e.in, e.recon)
	case removeInstance:
		s.remove(e.in, e.body.(*removal))
	case wipeInstance:
		s.wipe(e.in, e.body.(*wipe))
	case readDue:
		s.store.Due(s.st, dueBatch, func(d store.DueSet, err error) { s.box.post(message{kind: dueRead, body: d, err: err}) })
	case listRefusals:
		refused := e.body.([]store.Refusal)
		s.waits.Go(func() { s.listRefusals(s.life, refused) })
	case forgetRefusals:
		id, reply := e.id, e.body.(string)
		s.waits.Go(func() { s.forgetRefusals(s.life, id, reply) })
	case reportLate:
		s.report(e.id, e.turn)
	case noteCancelled:
		s.descendants.add(e.body.([]string))
	case callGate, releaseTickets, sweepGate, relistGate, unlistGate, findUnwanted, passNotices, wakeGate:
		s.doGate(e)
	case publishTask, publishMessage, sendHints, answerClients, reportAwaited, publishOutcome, publishChange, readHorizon, readQueueAge, readFleet:
		s.doQueue(e)
	case postLater:
		after, m := e.after, e.later
		s.waits.Go(func() {
			sleep(s.life, after)
			s.box.post(*m)
		})
	}
}

// read sends off what waits for Redis on a goroutine of its own.
func (s *shell) read(kind effectKind, in *instance, span time.Duration) {
	timeout := loadTimeout
	if kind == findWipe {
		timeout = wipeTimeout
	}
	s.waits.Go(func() {
		ctx, stop := context.WithTimeout(s.life, timeout)
		defer stop()
		m := message{in: in}
		switch part := s.st.Part; kind {
		case loadInstance:
			m.kind = instanceLoaded
			m.body, m.err = s.store.Load(ctx, part, in.id)
		case readInbox:
			m.kind = inboxRead
			m.body, m.err = s.store.Unread(ctx, part, in.id)
		case searchInbox:
			m.kind = inboxRead
			m.body, m.err = s.store.Inbox(ctx, part, in.id)
		case fetchHead:
			m.kind = headRead
			m.body, m.err = s.store.Head(ctx, part, in.id)
		case findWipe:
			m.kind = wipeFound
			m.body, m.err = s.findWipe(ctx, in.id)
		default: // readSchedule
			m.kind = scheduleRead
			_, m.body, m.err = s.store.Wakeups(ctx, part, span)
		}
		s.box.post(m)
	})
}

func (s *shell) commit(in *instance, t *turn, c *store.Commit) {
	begin := time.Now()
	s.store.Commit(s.st, c, func(done store.Committed, err error) {
		failpoint.Here("orchestrator.committed")
		s.met.commitSeconds.Observe(time.Since(begin).Seconds())
		if err == nil {
			s.tenure.Committed(done.Number)
		}
		s.box.post(message{kind: commitAnswered, in: in, turn: t, commit: c, committed: done, err: err})
	})
}

func (s *shell) reconcile(in *instance, r *reconciliation) {
	s.store.Reconcile(s.st, r.request, func(got store.Reconciled, err error) {
		s.box.post(message{kind: reconciled, in: in, recon: r, looked: got, err: err})
	})
}

func (s *shell) remove(in *instance, r *removal) {
	s.store.Purge(s.st, r.purge, func(now int64, err error) {
		failpoint.Here("orchestrator.purged")
		r.now = now
		s.box.post(message{kind: purgeAnswered, in: in, body: r, err: err})
	})
}

func (s *shell) wipe(in *instance, w *wipe) {
	s.store.Wipe(s.st, &store.Wipe{Instance: in.id, InboxIndex: w.at, Purge: w.id, Keys: w.keys}, func(now int64, err error) {
		failpoint.Here("orchestrator.purged")
		w.now = now
		s.box.post(message{kind: wiped, in: in, body: w, err: err})
	})
}

// report writes how cancelled activities have ended. What is lost of it is missing, and no more.
func (s *shell) report(id string, t *turn) {
	late := t.late[:min(len(t.late), lease.MaxReports)]
	ref := lease.Ref{Part: s.st.Part, Instance: id, Execution: t.execution}
	s.leases.Report(ref, late, func(err error) {
		if err != nil {
			s.log.Debug("how cancelled activities ended could not be noted", "instance", id, "activities", len(late), "error", err)
		}
	})
}

// listRefusals keeps refused inputs. If Redis does not answer, the log line and the count are all there is.
func (s *shell) listRefusals(ctx context.Context, refused []store.Refusal) {
	if len(refused) == 0 {
		return
	}
	ctx, stop := context.WithTimeout(ctx, lastRetry)
	defer stop()
	if err := s.store.Refuse(ctx, s.st, refused); err != nil && ctx.Err() == nil {
		logFailure(s.log, "refused inputs not listed", err, "inputs", len(refused))
	}
}

// forgetRefusals completes the purge of an id that has no instance: it removes the refused inputs of the id.
func (s *shell) forgetRefusals(ctx context.Context, id, reply string) {
	ctx, stop := context.WithTimeout(ctx, lastRetry)
	defer stop()
	found, err := s.store.ForgetRefusals(ctx, s.st, id)
	if err != nil && ctx.Err() == nil {
		logFailure(s.log, "refused inputs not removed", err, "instance", id)
	}
	ans := request.Answer{Instance: id}
	if !found || err != nil {
		ans.Problem = notFound(id)
	}
	s.answer(reply, ans)
}

func (s *shell) runTurn(t *turn) { s.turns.do(&turnRun{turn: t, shell: s}) }

func (s *shell) evict(e *effect) {
	s.turns.do(&eviction{shell: s, instance: e.id, code: e.body.(func() *replay.Execution)})
}

// doGate carries out an effect that concerns gates.
func (s *shell) doGate(e *effect) {
	name := e.id
	switch e.kind {
	case callGate:
		c := e.call
		s.gates.Admit(c.call, func(got limiter.AdmitReply, err error) {
			switch c.why {
			case enterTurn, enterStart:
				failpoint.Here("orchestrator.entered")
			case leaveGate:
				failpoint.Here("orchestrator.left")
			case askGate:
			}
			s.box.post(message{kind: gateAnswered, call: c, admitted: got, err: err})
		})
	case releaseTickets:
		s.gates.ReleaseOrphans(name, e.body.([]limiter.Orphan), func(got limiter.AdmitReply, err error) {
			s.box.post(message{kind: ticketsReleased, id: name, admitted: got, err: err})
		})
	case sweepGate:
		r := e.body.(*sweepRequest)
		s.gates.Sweep(name, r.policy, func(got limiter.SweepReply, err error) {
			failpoint.Here("orchestrator.swept")
			s.box.post(message{kind: gateSwept, id: name, body: &gateSweep{visit: r.visit, swept: got}, err: err})
		})
	case relistGate:
		after := e.after
		s.gates.Reschedule(name, after, func(err error) { s.box.post(message{kind: gateRelisted, id: name, body: after, err: err}) })
	case unlistGate:
		s.gates.Unschedule(name, func(error) {})
	case findUnwanted:
		swept := e.body.(limiter.SweepReply)
		s.gates.FindOrphans(swept.Stale, func(unwanted []limiter.Member, err error) {
			s.box.post(message{kind: unwantedFound, id: name, body: &unwantedMembers{members: unwanted, at: swept.Now}, err: err})
		})
	case passNotices:
		for p, ws := range e.body.(map[int][]gateNotice) {
			s.passNotices(p, ws)
		}
	default: // wakeGate
		s.wakeGate(name)
	}
}

// passNotices sends what a gate has for the instances of a partition. For those of this shard, too, it is a message of its own: an
// instance may be in the middle of something.
func (s *shell) passNotices(p int, ws []gateNotice) {
	if here := s.shards.at(p); here != nil {
		here.post(message{kind: noticesPassed, body: ws})
		return
	}
	out := make([]queue.LimitNotice, len(ws))
	for i, w := range ws {
		out[i] = w.encode()
	}
	s.sendWords(p, out)
}

// wakeGate has the owner of a gate visit it.
func (s *shell) wakeGate(name string) {
	p := s.conn.PartitionOf(name)
	if here := s.shards.at(p); here != nil {
		here.post(message{kind: gateDue, id: name})
		return
	}
	s.sendWords(p, []queue.LimitNotice{{Kind: queue.LimitSweep, Gate: name}})
}

func (s *shell) sendWords(p int, ws []queue.LimitNotice) {
	if err := s.conn.SendLimitNotices(p, ws); err != nil {
		s.log.Debug("a gate's words could not be sent; its sweep says them again", "partition", p, "error", err)
	}
}
