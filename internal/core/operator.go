package core

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// Requests of operators: pause, resume, terminate, rewind, retry. See decision 68.
//
//	            ┌── pause ──▶ paused ── resume, cancel ──▶ running
//	running ────┼── terminate ────────▶ cancelled, by the owner, without the code
//	            └── rewind, retry ────▶ execution n+1 ──▶ running       (also from an instance that has ended)
//
// A request is an input that waits in the inbox until the inputs before it are turned. The owner carries it out; the code does not see it.
// Three kinds of instances do not reach their requests, so their whole inbox is searched:
//
//	paused               the first request of any kind, cancellation or forced purge
//	stalled              the first terminate, rewind or retry; before it a forced purge
//	continuing as new    the first pause or terminate
//
// A commit pops only the head of an inbox. So a request that was found after other inputs stays in the inbox, and the record stores its
// position (Control): it, and each request before it, has no effect when the instance reaches it. Requests take effect in the order of
// their positions, whichever way they were found.
//
// Pause is a commit without the code: status paused, Paused in the history, and, if the pause stops activities, the deletion of all leases.
// Resumed is an input of a turn. The code then reschedules the stopped activities, except those whose completions are in the
// inbox: no other completion can arrive, because a completion needs its lease.
//
// Rewind has four steps, each repeatable; the request stays in the inbox until the last:
//
//	outbox empty ──▶ history and inbox read, planned ──▶ undone children: cancel, or purge of an explicit id, in INPUTS ──▶ one script
//
// The script copies the kept events to execution n+1, deletes the leases of execution n, and puts into the front of the inbox: Rewound,
// and the inputs that are put back (see history.RewindPlan). A completion that has arrived since the inbox was read is a conflict, and so
// is one that Redis has lost since: its activity would neither run nor end. Rewound is the
// first input of its turn, and neither a timer nor a notice precedes it: everything that the code decides from there on has effect ids
// of execution n+1.
//
// Crash points: before a commit or the script nothing is written, and the next owner finds the request again. Children may have been
// undone by then; the plan follows from the same history, so they are undone again, and a child of another start ignores it. After the
// script the record names the request, so it is not carried out again; a waiting client learns the outcome when it describes the instance.

// operators carries out the requests of operators.
type operators struct {
	owner *Owner
	held  map[string]heldInbox // inboxes of instances that take no turn: see held.go
}

// request finds the first unread request for this incarnation that has not taken effect and has one of these verbs, with its index.
func (in *instance) request(verbs ...history.Verb) (n int, r *history.OperatorRequested) {
	for i, u := range in.unread {
		if r := requestOf(in, u); r != nil && !in.tookEffect(u, r) && slices.Contains(verbs, r.Verb) {
			return i, r
		}
	}
	return 0, nil
}

// tookEffect reports a request that has taken effect, or is for another incarnation.
func (in *instance) tookEffect(u Unread, r *history.OperatorRequested) bool {
	return !in.concerns(u, r.Of) || in.rec != nil && !u.start() && follows(in.rec.Control, u.position())
}

// terminatedEarly terminates an instance, before its code runs, if its termination has overtaken its start. It reports whether it did.
func (o *operators) terminatedEarly(in *instance) bool {
	if in.rec != nil || len(in.unread) < 2 {
		return false
	}
	n, r := in.request(history.VerbTerminate)
	if r == nil || r.Of == "" {
		return false
	}
	o.terminate(in, n)
	return true
}

// requestNext reports a request at the head of the inbox. A request for a start that has not arrived is kept, like other early inputs.
func (*operators) requestNext(in *instance) bool {
	return len(in.unread) > 0 && requestOf(in, in.unread[0]) != nil && (in.rec != nil || in.unread[0].obsolete())
}

// urgent finds a request that a stalled instance must carry out at once, with its index.
func (in *instance) urgent() (n int, r *history.OperatorRequested) {
	if in.rec == nil { // nothing to rewind
		return in.request(history.VerbTerminate)
	}
	return in.request(history.VerbTerminate, history.VerbRewind, history.VerbRetry)
}

// overtakes reports a request for which the inbox of a stalled instance is searched.
func overtakes(in message.Input) bool {
	v, _ := history.ParseVerb(in.Name)
	return in.Kind == message.KindOperate && v != history.VerbPause && v != history.VerbResume || in.Kind == message.KindStart && in.Reuse == history.ReuseTerminate
}

func (in *instance) paused() bool { return in.status() == record.Paused }

// rewinding reports whether the next input is Rewound.
func (in *instance) rewinding() bool {
	_, ok := in.unread0().(*history.Rewound)
	return ok
}

// requested carries out the request at index n of the inbox, or its next step.
func (o *operators) requested(in *instance, n int) {
	u := in.unread[n]
	r := requestOf(in, u)
	ended, begun := in.status().Ended(), in.rec != nil && (in.status().Ended() || in.state != nil && in.state.Len > 0)
	switch {
	case in.rec == nil && n == 0, in.tookEffect(u, r):
		o.owner.commits.takeOut(in, 1)
	case r.Verb == history.VerbPause && ended, r.Verb == history.VerbTerminate && ended:
		o.refuse(in, n, fmt.Sprintf("instance %s has ended", in.id))
	case r.Verb == history.VerbPause && in.paused():
		o.refuse(in, n, fmt.Sprintf("instance %s is paused already", in.id))
	case r.Verb == history.VerbPause:
		o.pause(in, n)
	case r.Verb == history.VerbResume && in.paused():
		o.resume(in, n, r.By, r.Text, r.Reply)
	case r.Verb == history.VerbResume:
		o.refuse(in, n, fmt.Sprintf("instance %s is not paused", in.id))
	case r.Verb == history.VerbTerminate:
		o.terminate(in, n)
	case r.Verb == history.VerbRetry && !ended:
		o.refuse(in, n, fmt.Sprintf("instance %s has not ended; rewind it instead", in.id))
	case !begun:
		o.refuse(in, n, fmt.Sprintf("execution %d of instance %s has not begun", in.execution(), in.id))
	case len(in.outbox) > 0:
		if n > 0 {
			o.owner.removals.forced[in.id] = true // so that it is found again
		}
		o.owner.outbox.flushOutbox(in) // the acknowledgement continues the request
	default:
		o.owner.request(in, readingHistory, outstanding{place: n}, Effect{Kind: ReadHistory, Number: in.execution()})
	}
}

// refuse answers a request that has no effect, and removes it from the inbox or records it as carried out.
func (o *operators) refuse(in *instance, n int, why string) {
	u := in.unread[n]
	r, at := u.operator(), u.position()
	o.owner.met[CountDropped]++
	o.owner.log.Info("request of an operator refused", "instance", in.id, "verb", r.Verb, "by", r.By, "reason", why)
	o.owner.commits.answer(r.Reply, message.Answer{Instance: in.id, Problem: &message.Problem{Code: message.ProblemRefused, Message: why}})
	if r.Reply == "" && r.Of == "" { // no client waits, such as for a request of a batch
		note := record.Refusal{Instance: in.id, Seq: at.Seq, At: at.Time / int64(time.Millisecond), Reason: fmt.Sprintf("%s by %s: %s", r.Verb, r.By, why)}
		o.owner.emit(Effect{Kind: ListRefusals, Body: []record.Refusal{note}})
	}
	if n == 0 {
		o.owner.commits.takeOut(in, 1)
		return
	}
	in.control = at
	o.owner.unloadCode(in)
	t := o.owner.newTurn(in, in.state.Clone())
	t.noted = true
	o.owner.commits.commit(in, t)
}

// pause pauses the instance.
func (o *operators) pause(in *instance, n int) {
	u := in.unread[n]
	r := u.operator()
	o.owner.unloadCode(in)
	t := o.owner.newTurn(in, in.state.Clone())
	t.noted, t.note = true, record.Paused
	if n == 0 {
		t.Pop = []string{u.ID}
	}
	if t.Fold.Len > 0 && !t.add(&history.Paused{By: r.By, Text: r.Text, Stop: r.Stop}) {
		o.owner.removals.stall(in, stallUnreadable, t.Err.Error())
		return
	}
	in.control, in.answerTo = u.position(), r.Reply
	o.owner.log.Info("instance paused", "instance", in.id, "by", r.By, "stop", r.Stop)
	o.owner.commits.commit(in, t)
}

// resume continues a paused instance, for an operator or for a cancellation, which the code handles.
func (o *operators) resume(in *instance, n int, by, why, reply string) {
	in.control, in.answerTo = in.unread[n].position(), reply
	if p := in.state.PausedBy(); p != nil {
		ev := &history.Resumed{By: by, Text: why, Stopped: p.Stop}
		ev.At = max(in.state.Now, o.owner.clock.now())
		if p.Stop {
			for _, id := range in.state.Outstanding() {
				if slices.ContainsFunc(in.unread, in.ends(id)) {
					ev.Answered = append(ev.Answered, id)
				}
			}
		}
		in.localInputs = slices.Insert(in.localInputs, 0, history.Event(ev))
	}
	o.owner.log.Info("instance resumed", "instance", in.id, "by", by)
	o.owner.turns.turn(in)
}

// terminate ends the instance without its code. A start that requires the termination stays in the inbox.
func (o *operators) terminate(in *instance, n int) {
	u := in.unread[n]
	r := requestOf(in, u)
	in.control, in.answerTo = u.position(), r.Reply
	o.owner.log.Info("instance terminated", "instance", in.id, "by", r.By)
	drop := n
	if !u.start() {
		drop++
	}
	o.owner.turns.cancelByName(in, cancel.Terminated, r.By, r.Text, drop)
}

// atBoundary pauses or terminates an instance between two executions, if an operator has requested it.
func (o *operators) atBoundary(in *instance) bool {
	n, r := in.request(history.VerbPause, history.VerbTerminate)
	if r == nil {
		return false
	}
	o.requested(in, n)
	return true
}

// rewind is a rewind in progress.
type rewind struct {
	plan    *fold.Plan
	began   *history.Started
	inbox   int             // number of inbox elements that were read
	results []record.Placed // elements that are results of kept activities
	undone  int             // messages to undone children that are not acknowledged
	failed  bool            // one of those messages has failed
}

// historyRead plans the rewind, and undoes the children whose starts it drops.
func (o *operators) historyRead(in *instance, req outstanding, src record.RewindSource, err error) {
	var inbox []Unread
	var events []history.Event
	if err == nil {
		inbox, err = o.owner.inbox.parseUnread(src.Inbox)
	}
	if err == nil {
		events, err = DecodeEvents(1, src.Events)
	}
	if err == nil && len(inbox) <= req.place {
		err = fmt.Errorf("inbox of %s: %w", in.id, record.ErrConflict)
	}
	if err != nil {
		o.owner.unload(in)
		o.owner.inbox.unreadable(in, err)
		return
	}
	in.unread, in.cut = inbox, false
	r := inbox[req.place].operator()
	if r == nil { // the inbox in memory was outdated
		o.owner.unload(in)
		o.owner.schedule.wake(in.id)
		return
	}
	plan, results, err := planRewind(events, r, inbox)
	if err != nil {
		o.refuse(in, req.place, fmt.Sprintf("instance %s: %v", in.id, err))
		return
	}
	began, _ := events[0].(*history.Started)
	rw := &rewind{plan: plan, began: began, inbox: len(inbox), results: results}
	o.owner.to(in, undoing)
	in.outstanding.place, in.outstanding.rewind = req.place, rw
	for _, c := range plan.Undone {
		if out, ok := undo(in, began, c, r); ok {
			rw.undone++
			o.owner.outbox.publish(&outgoing{reason: sendUndo, from: in, in: out})
		}
	}
	if rw.undone == 0 {
		o.commitRewind(in)
	}
}

// planRewind returns the plan, and the unread results that it relies on with their indexes in the inbox.
func planRewind(events []history.Event, r *history.OperatorRequested, inbox []Unread) (plan *fold.Plan, results []record.Placed, err error) {
	if r.Verb == history.VerbRetry {
		plan, err = fold.PlanRetry(events, r.Start)
		return plan, nil, err
	}
	plan, err = fold.PlanRewind(events, r.To, func(e *history.ActivityScheduled) bool {
		i := slices.IndexFunc(inbox, func(u Unread) bool { return u.ends(e) })
		if i >= 0 {
			results = append(results, record.Placed{Place: i, ID: inbox[i].ID})
		}
		return i >= 0
	})
	return plan, results, err
}

// undo returns the message to a child whose start is dropped: a child with a generated id is cancelled, if the instance has not ended; a child
// with an explicit id is purged, so that the code can start it again.
func undo(in *instance, began *history.Started, c *history.ChildScheduled, r *history.OperatorRequested) (out message.OutInput, ok bool) {
	out = message.OutInput{Instance: c.Instance, Kind: message.KindCancel, Of: c.Effect, Reason: cancel.Rewound, By: r.By, Text: r.Text}
	for id := in.identity(); id.Execution > 0 && id.Execution >= began.Execution; id.Execution-- { // generated by this execution, or by one that it was rewound from
		if c.Instance == replay.ChildID(effectid.IdentityOf(began, in.identity(), id.Execution), c.ID) {
			return out, !in.status().Ended()
		}
	}
	out.Kind, out.Reason, out.Force = message.KindPurge, 0, true
	return out, true
}

// undone handles the stream's answer to a message to an undone child.
func (o *operators) undone(in *instance, err error) {
	if o.owner.instances[in.id] != in || in.phase != undoing {
		return
	}
	rw := in.outstanding.rewind
	rw.failed = rw.failed || err != nil && !unsendable(err)
	if rw.undone--; rw.undone > 0 {
		return
	}
	if rw.failed {
		o.owner.to(in, idle)
		o.owner.outbox.retrySoon(in, publishRetry)
		return
	}
	o.commitRewind(in)
}

// commitRewind sends the script that writes the rewind.
func (o *operators) commitRewind(in *instance) {
	req := *in.outstanding
	o.owner.to(in, idle)
	rw, u := req.rewind, in.unread[req.place]
	r, plan, next := u.operator(), rw.plan, in.execution()+1
	w := &record.Rewind{
		Instance: in.id, Execution: in.execution(), Keep: plan.Keep, Head: in.head(), NewHead: o.owner.commits.heads + strconv.FormatUint(o.owner.nextNumber(), 36),
		From: in.status(), To: record.Running, Read: rw.inbox, Results: rw.results, Control: u.position(), Release: in.rec.Retained,
	}
	if plan.State.Waiting(1) {
		w.To = record.Pending
	}
	w.Unanswered = strconv.FormatBool(plan.State.UpdateLen() > 0)
	c := record.Commit{Record: &record.Record{Status: w.To, Unanswered: w.Unanswered}}
	c.Reindex(in.rec)
	w.Leave, w.Enter = c.Leave, c.Enter
	for _, k := range plan.State.Tickets() {
		if k.Limit.Retain && !k.Waiting {
			w.Retain = append(w.Retain, k.ID)
		}
	}
	if in.state != nil {
		for _, id := range in.state.Outstanding() {
			w.Delete = append(w.Delete, record.Lease{Activity: id, Effect: in.state.Activity(id).Effect})
		}
	}
	var first history.Event
	id := fmt.Sprintf("%s%d.0", record.RewoundMark, next)
	if plan.Keep == 0 {
		s := *rw.began
		s.Execution, s.Version, s.Limit, s.Cancel, s.StatusVersion, s.CustomStatus = next, "", nil, nil, in.rec.CustomVersion, in.rec.Custom
		s.Recorded = nil
		if s.StartAt, s.Reuse = 0, 0; s.Timeout > 0 {
			s.Deadline = max(o.owner.clock.now(), plan.State.Now) + s.Timeout
		}
		first, id = &s, successorID(next)
	} else {
		first = &history.Rewound{Execution: next, From: in.execution(), By: r.By, Text: r.Text, Answered: plan.AnsweredIDs()}
	}
	first.Meta().At = max(o.owner.clock.now(), plan.State.Now)
	err := prepend(w, id+o.owner.seal, first)
	for i, ev := range plan.PutBack {
		back := CarriedID(next, i+1)
		if c, ok := ev.(*history.ActivityCompleted); ok {
			back = "a" + plan.State.Activity(c.Scheduled).Effect + ".r"
		}
		err = errors.Join(err, prepend(w, back+o.owner.seal, ev))
	}
	if err != nil {
		o.refuse(in, req.place, err.Error())
		return
	}
	o.owner.request(in, rewinding, req, Effect{Kind: RewindInstance, Body: w})
}

// prepend adds an element to the front of the inbox.
func prepend(w *record.Rewind, id string, ev history.Event) error {
	b, err := Element(id, ev)
	w.Prepend = append(w.Prepend, b)
	return err
}

// rewound handles the answer to a rewind, and loads the instance again.
func (o *operators) rewound(in *instance, req outstanding, done record.Committed, err error) {
	r := in.unread[req.place].operator()
	if written, _ := o.owner.scriptAnswered("rewind of "+in.id, done.Now, err); written {
		o.owner.met[CountCommits]++
		if !o.owner.commits.acknowledged(done.Number, o.owner.commits.number) {
			return
		}
		o.owner.log.Info("instance rewound", "instance", in.id, "verb", r.Verb, "by", r.By, "event", req.rewind.plan.Keep, "execution", in.execution()+1)
		o.sendRewound(in, done, r)
	}
	delete(o.owner.removals.stalls, in.id)
	delete(o.owner.removals.forced, in.id)
	o.owner.unload(in)
	o.owner.schedule.wake(in.id)
}

// sendRewound notifies workers, watchers and the waiting client of a rewind.
func (o *operators) sendRewound(in *instance, done record.Committed, r *history.OperatorRequested) {
	why := &history.ActivityCancelRequested{Reason: cancel.Rewound, By: r.By, Text: r.Text}
	o.owner.met[CountHints] += float64(o.owner.sendHints(stopHints(in, why, done)))
	if in.state != nil {
		for _, id := range in.state.Outstanding() {
			delete(o.owner.commits.sent, sending{in.id, id})
		}
	}
	o.owner.commits.publishChange(in, message.Change{Status: string(record.Running), Was: string(in.status())}, done.Now)
	o.owner.commits.answer(r.Reply, message.Answer{Instance: in.id, Execution: in.execution() + 1, Status: string(record.Running)})
}
