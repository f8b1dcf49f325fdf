package core

import (
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// rejectedActivity returns the failure of an activity that a limit has rejected.
func (a *admission) rejectedActivity(event uint64, name string, why limit.Kind, until int64) *history.ActivityFailed {
	failed := &history.ActivityFailed{Scheduled: event, Failure: a.rejectionFailure(name, why, until)}
	failed.At = a.owner.clock.now()
	return failed
}

// rejectionFailure counts a rejection by a limit, and returns its failure.
func (a *admission) rejectionFailure(name string, why limit.Kind, until int64) history.Failure {
	what := "action " + limit.Action(name)
	if key := limit.Key(name); key != "" {
		what += " (key " + key + ")"
	}
	f := history.Failure{}
	switch why {
	case limit.QueueFull:
		f.Code, f.Message = history.CodeQueueFull, what+": as many wait already as its queue limit allows"
	case limit.TimedOut:
		f.Code, f.Message = history.CodeQueueTimeout, what+": it was not admitted within the queue timeout"
	case limit.Cleared:
		f.Code, f.Message = history.CodeQueueCleared, what+": its queue was cleared"
	default:
		f.Code, f.Message = history.CodeLimited, what+": its limit is reached, and its policy is to refuse"
		if until > 0 {
			f.Message += "; there is room again at " + time.UnixMilli(until).UTC().Format(time.RFC3339Nano)
		}
	}
	a.owner.countLimit(limit.Action(name), LimitCount{What: LimitRefused, Reason: f.Code, N: 1})
	return f
}

// startNeedsAdmission reports a start that has not passed its limit. The start of an instance's next execution has: it keeps the slot.
func (a *admission) startNeedsAdmission(in *instance) bool {
	if in.startAdmitted || len(in.unread) == 0 || in.state != nil && in.state.Len > 0 {
		return false
	}
	s, ok := in.unread[0].Ev.(*history.Started)
	return ok && s.Limit == nil && (in.rec == nil || s.StartAt != 0 || strings.HasPrefix(in.unread[0].ID, successorMark))
}

// admitStart enters a start into its limit, before its code has run. If the orchestration is not registered here, other processes are
// queried for its declared policy first.
func (a *admission) admitStart(in *instance) {
	b, ok := a.owner.turns.binding(in)
	switch {
	case ok:
		a.enterStart(in, b.Declared)
	case a.owner.cfg.Elsewhere:
		name, version, _ := in.orchestration()
		a.owner.request(in, findingCode, outstanding{}, Effect{Kind: FindCode, Body: CodeName{Name: name, Version: version}})
	default:
		a.owner.removals.stall(in, stallUnregistered, a.owner.turns.lack(in))
	}
}

// enterStart enters a start into the limit of its orchestration, if it has one. declared is the policy that its handle declares.
func (a *admission) enterStart(in *instance, declared history.Declared) {
	s := in.unread[0].Ev.(*history.Started) //nolint:forcetypeassert // startNeedsAdmission checks it
	f, ok := a.policies.For(s.Name, declared)
	if !ok {
		in.startAdmitted = true
		a.owner.advance(in)
		return
	}
	g := newLimit(s.Name, s.Payload, limit.StartTicket(in.id, s.Origin), f, s)
	a.owner.to(in, admittingStart)
	a.admit(&limitCall{
		reason: EnterStart, in: in, entries: []entry{{event: 1, limit: g}},
		call: limit.AdmitRequest{Limit: g.Name, InForce: f, Enter: []limit.Entry{{Member: Member(in.id, 1, &fold.State{Started: s}, g)}}},
	})
}

// startEntered applies the verdict of a limit on a start.
func (a *admission) startEntered(in *instance, g *history.Limit, got limit.AdmitReply, err error) {
	a.owner.to(in, idle)
	in.startAdmitted, in.startLimit = true, g
	if v := verdict(got, 0, err); a.applyVerdict(in, g, got.Now, v) {
		in.rejection = v
	}
	a.owner.resume(in, sawHead) // the inbox is as before; pending inputs are read before the turn
}

// passLimit writes the verdict of its limit, and the time at which it begins, into a start that is about to be turned.
func (in *instance) passLimit() {
	s, ok := in.unread0().(*history.Started)
	if !ok {
		return
	}
	if s.At = max(s.At, s.StartAt); in.startLimit != nil {
		s.Limit = in.startLimit
	}
}

// rejectionDue reports whether a rejected start can be ended. After a queue timeout, the inputs accepted before it come first.
func (a *admission) rejectionDue(in *instance) bool {
	if in.rejectedAt == 0 {
		return true
	}
	return (len(in.unread) == 0 || Bounds(in.unread, in.partial())[0] >= in.rejectedAt) && a.owner.schedule.isDue(in.id, in.rejectedAt)
}

// rejectStart ends an instance whose start its limit has rejected; its code has not run.
func (a *admission) rejectStart(in *instance) {
	g, why := in.startLimit, in.rejection
	if g == nil {
		g = in.state.Started.Limit
	} else {
		in.passLimit()
	}
	due := in.rejectedAt
	in.rejection, in.rejectedAt = limit.Verdict{}, 0
	f := a.rejectionFailure(g.Name, why.Kind, why.Until)
	f.Message = "instance " + in.id + ": " + f.Message
	if why.Kind != limit.Cleared {
		a.owner.turns.endByName(in, &cancel.Cancelled{Reason: cancel.OrchestrationFailed}, &history.Failed{Failure: f}, 0, due)
		return
	}
	c, end := cancelled(cancel.Requested, "", f.Message, a.owner.clock.now())
	end.Failure.Also = append(end.Failure.Also, f.Code)
	a.owner.turns.endByName(in, c, end, 0, due)
}
