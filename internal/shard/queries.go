package shard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/history"
)

// queries answers the requests of clients for a partition. They read the store and the limits, not the memory of the owner, and run on
// goroutines of the subscription. A few also write: they change policies, reject the waiters of a limit, or drop refused inputs.
type queries struct {
	process *Process
	shell   *shell
}

// serve answers one request.
func (qs *queries) serve(ctx context.Context, q request.Request) (request.Reply, error) {
	ctx, stop := context.WithTimeout(ctx, loadTimeout)
	defer stop()
	r, err := qs.reply(ctx, q)
	if err == nil {
		return r, nil
	}
	if _, ok := errors.AsType[*request.Problem](err); ok {
		return nil, err
	}
	if qs.shell.ctx.Err() != nil {
		return nil, &request.Problem{Code: request.ProblemNotOwner, Message: fmt.Sprintf("partition %d is being handed over", qs.shell.st.Part)}
	}
	logFailure(qs.shell.log, "request not answered", err, "request", fmt.Sprintf("%T", q))
	return nil, err
}

func (qs *queries) reply(ctx context.Context, q request.Request) (request.Reply, error) {
	if id := request.InstanceOf(q); id != "" && qs.process.conn.PartitionOf(id) != qs.shell.st.Part { // its record would be missing here
		return nil, &request.Problem{Code: request.ProblemBadRequest, Message: fmt.Sprintf(
			"instance %s is not in partition %d of %d: the partitions were resized, restart this program", id, qs.shell.st.Part, qs.process.conn.Partitions())}
	}
	switch q := q.(type) {
	case *request.Await:
		return qs.await(ctx, q)
	case *request.Status:
		return qs.customStatus(ctx, q)
	case *request.Start:
		return qs.startState(ctx, q)
	case *request.Update:
		return qs.updateAnswer(ctx, q)
	case *request.Query:
		return qs.query(ctx, q)
	case *request.Demand:
		return qs.demand(ctx, q.Queue)
	case *request.Owner:
		return qs.ownership(), nil
	case *request.Health:
		return qs.process.stores.get(ctx, qs.readHealth), nil
	case *request.Requeue:
		return qs.requeue(ctx, q.Instance)
	case *request.DropRefused:
		return qs.shell.dropRefused(ctx, q.Instance)
	case *request.Describe:
		return qs.describe(ctx, q)
	case *request.History:
		return qs.historyPage(ctx, q)
	case *request.List:
		return qs.list(ctx, q)
	case *request.Stalled:
		return qs.stalled(ctx, q)
	case *request.Count:
		return qs.count(ctx, q)
	case *request.Versions:
		return qs.versions(ctx)
	case *request.Limits:
		return qs.limitsListed(ctx, q)
	case *request.Limit:
		return qs.limitStats(ctx, q)
	case *request.Waiters:
		return qs.limitWaiters(ctx, q)
	case *request.Holders:
		return qs.limitHolders(ctx, q)
	case *request.Clear:
		return qs.clearLimit(ctx, q)
	case *request.Policies:
		return qs.policiesSet(ctx, q)
	case *request.SetPolicy:
		return qs.setPolicy(ctx, q)
	case *request.DeletePolicy:
		return qs.deletePolicy(ctx, q)
	default:
		return nil, &request.Problem{Code: request.ProblemBadRequest, Message: fmt.Sprintf("request %T is not known to this orchestrator", q)}
	}
}

// pending distinguishes an instance that has not begun from one that does not exist.
func (qs *queries) pending(ctx context.Context, id string, is error) error {
	n, err := qs.process.store.InboxLen(ctx, qs.shell.st.Part, id)
	if err != nil {
		return err
	}
	if n == 0 {
		return notFound(ctx, qs.shell, id)
	}
	return is
}

// notFound returns the error for an instance of which nothing was found. After a takeover, or after Redis has lost writes, inputs that were
// accepted earlier may not be applied yet. One of them may be the start of the instance, so the client has to retry. It also has to retry
// if the start was handled between two reads: an applied input is in the inbox, which is read first, or has led to a record.
func notFound(ctx context.Context, s *shell, id string) error {
	known := s.lag.known.Load() // read before Redis, whose position is at least as high unless it has lost writes
	at, err := s.process.store.Applied(ctx, s.st.Part)
	if err != nil {
		return err
	}
	unread, err := s.process.store.InboxLen(ctx, s.st.Part, id)
	if err != nil {
		return err
	}
	rec, err := s.process.store.Record(ctx, s.st.Part, id)
	switch {
	case err != nil:
		return err
	case known == 0 || at.Seq+1 < known:
		return &request.Problem{Code: request.ProblemNotOwner, Message: "its orchestrator has not read all inputs yet"}
	case unread > 0 || rec != nil:
		return &request.Problem{Code: request.ProblemNotOwner, Message: id + " begins at this moment"}
	default:
		return core.NotFound(id)
	}
}

// register registers a reply subject and then reads the record, so that no change is missed in between. It returns a nil record for an
// instance that has not begun.
func (qs *queries) register(ctx context.Context, id, replyTo string, as core.MessageKind) (*record.Record, error) {
	if replyTo != "" {
		qs.shell.post(core.Message{Kind: as, ID: id, Body: replyTo})
	}
	rec, err := qs.process.store.Record(ctx, qs.shell.st.Part, id)
	if err == nil && rec == nil {
		err = qs.pending(ctx, id, nil)
	}
	return rec, err
}

// await answers with the outcome of the instance, or registers the reply subject for it.
func (qs *queries) await(ctx context.Context, q *request.Await) (request.Reply, error) {
	rec, err := qs.register(ctx, q.Instance, q.ReplyTo, core.EndAwaited)
	if err != nil || rec == nil || !rec.Status.Ended() {
		return new(request.Answered), err
	}
	ans := core.EndAnswer(q.Instance, rec)
	return &request.Answered{Answer: &ans}, nil
}

// describe reads the position, the inbox and the record in this order, so that the record reflects each accepted input that is no longer in the
// inbox.
func (qs *queries) describe(ctx context.Context, q *request.Describe) (request.Reply, error) {
	id := q.Instance
	if q.Accepted > 0 {
		at, err := qs.process.store.Applied(ctx, qs.shell.st.Part)
		if err == nil && at.Seq < q.Accepted {
			err = &request.Problem{Code: request.ProblemInternal, Message: fmt.Sprintf("input %d is not applied yet", q.Accepted)}
		}
		if err != nil {
			return nil, err
		}
	}
	unread, err := qs.process.store.InboxLen(ctx, qs.shell.st.Part, id)
	if err != nil {
		return nil, err
	}
	stalled, err := qs.process.store.StalledReason(ctx, qs.shell.st.Part, id)
	if err != nil {
		return nil, err
	}
	l, err := qs.process.store.Load(ctx, qs.shell.st.Part, id)
	if err != nil && stalled == "" {
		return nil, err
	}
	if l.Record == nil && len(l.Unread) == 0 && stalled == "" {
		return nil, notFound(ctx, qs.shell, id)
	}
	d := described(id, l.Record, stalled)
	if d.UnreadInputs = unread; l.Record == nil {
		if s := nextStart(l); s != nil {
			d.Orchestration, d.Version = s.Name, s.Version
		}
		return d, nil
	}
	state, _ := fold.Check(l.Events)
	if d.Control = l.Record.Control.Seq; state.PausedBy() != nil {
		p := state.PausedBy()
		d.PausedBy, d.PausedFor, d.Stopped = p.By, p.Text, p.Stop
	}
	for _, id := range state.Children() {
		if e := state.Child(id); len(d.Children) < maxOutstanding {
			d.Children = append(d.Children, request.Child{Event: id, Name: e.Name, Instance: e.Instance, Scheduled: e.At})
		}
	}
	d.OpenUpdates = openUpdates(l, state)
	startOptions(d, l, state)
	d.PendingMessages = core.PendingCount(id, l, state)
	if !l.Record.Status.Ended() {
		d.Events = state.Len
		d.Timers = uint64(state.TimerLen()) //nolint:gosec // a length
		if t, ok := state.NextTimer(); ok {
			d.NextTimer = t.FireAt
		}
		if d.Activities, err = qs.outstanding(ctx, id, l.Record, state); err != nil {
			return nil, err
		}
		d.LimitWaits = qs.limitWaits(ctx, id, state)
		a := qs.awaited(ctx, id, l)
		d.AwaitedEvents, d.AwaitedUpdates = a.Events, a.Updates
	}
	return d, nil
}

// awaited returns what an instance waits for: from its code if that is resident, otherwise from a replica.
func (qs *queries) awaited(ctx context.Context, id string, l record.Loaded) (a replay.Awaited) {
	reply := make(chan replay.Awaited, 1)
	qs.shell.box.post(mail{Message: core.Message{ID: id}, awaited: reply})
	select {
	case a, known := <-reply:
		if !known {
			a = qs.process.awaitedByReplica(id, l.Record.Execution, l.Events)
		}
		return a
	case <-qs.shell.ctx.Done():
	case <-ctx.Done():
	}
	return a
}

const maxOutstanding = 100 // outstanding activities, and rows of other kinds, in a description

func (qs *queries) outstanding(ctx context.Context, id string, rec *record.Record, state *fold.State) ([]request.Activity, error) {
	ids := state.Outstanding()
	ids = ids[:min(len(ids), maxOutstanding)]
	held, err := qs.process.store.Holders(ctx, qs.shell.st.Part, id, rec.Execution, ids)
	if err != nil {
		return nil, err
	}
	out := make([]request.Activity, len(ids))
	for i, n := range ids {
		e := state.Activity(n)
		out[i] = request.Activity{Event: n, Name: e.Name, Queue: e.Queue, Worker: held[i].Worker, Claims: held[i].Claims, Scheduled: e.At}
	}
	return out, nil
}

const maxError = 200 // bytes of the text of a failure, and of the reason of a stall, in a list

// summary returns the row of an instance in a list. rec may be nil, and stalled empty.
func summary(id string, rec *record.Record, stalled string) request.Summary {
	sum := request.Summary{Instance: id}
	if stalled != "" {
		s := core.ParseStall(stalled)
		sum.Stalled = s.Reason
		if s.Kind != "" {
			sum.Stalled = string(s.Kind) + ": " + s.Reason
		}
		sum.Updated, sum.StatusSince = s.Since, s.Since
	}
	if rec == nil {
		sum.Status = request.StatusPending
		return sum
	}
	sum.Orchestration, sum.Version, sum.Status = rec.Name, rec.Version, string(rec.Status)
	sum.Origin, sum.Execution, sum.Events = rec.Origin, rec.Execution, rec.Events
	sum.Started, sum.Updated, sum.Ended = rec.Created, rec.Updated, rec.Ended
	sum.Attributes = rec.Attributes
	sum.Code, sum.Error = rec.Failure()
	sum.Error = text.Shorten(sum.Error, maxError)
	if rec.Parent != nil {
		sum.Parent = rec.Parent.Instance
	}
	return sum
}

// described returns the part of a description that comes from the record, which may be nil.
func described(id string, rec *record.Record, stalled string) *request.Description {
	d := &request.Description{Summary: summary(id, rec, stalled)}
	if rec == nil {
		return d
	}
	d.CustomStatus = core.CustomStatus(rec)
	if rec.Status.Ended() {
		ans := core.EndAnswer(id, rec)
		d.Result, d.Failure, d.UnreadEvents = ans.Result, ans.Failure, rec.Unread
	}
	if d.CustomStatus != nil && len(d.CustomStatus.Payload.Data)+len(d.Result.Data) > request.MaxReply {
		d.CustomStatus.Payload = history.Payload{} // both may exceed one message; clients can request the status separately
	}
	return d
}

func (qs *queries) historyPage(ctx context.Context, q *request.History) (request.Reply, error) {
	rec, err := qs.process.store.Record(ctx, qs.shell.st.Part, q.Instance)
	if err != nil {
		return nil, err
	}
	if rec == nil {
		return nil, qs.pending(ctx, q.Instance, &request.Problem{
			Code: request.ProblemNotFound, Message: "instance " + q.Instance + " has inputs and has not begun: there is no history yet; `pawl get` shows what it waits for",
		})
	}
	execution := q.Execution
	if execution == 0 {
		execution = rec.Execution
	}
	limit := q.Limit
	if limit <= 0 || limit > 1000 {
		limit = 1000
	}
	if q.Execution == 0 && rec.Events == 0 && execution > 1 {
		execution-- // the latest one has no history before its first turn
	}
	raw, err := qs.process.store.RawHistory(ctx, qs.shell.st.Part, q.Instance, execution, q.After, limit+1)
	if err != nil {
		return nil, err
	}
	r := &request.HistoryPage{Execution: execution}
	room := request.MaxReply
	for i, e := range raw {
		if room -= len(e); i == limit || room < 0 && i > 0 {
			r.More = true
			break
		}
		r.Events = append(r.Events, e)
	}
	r.Reports, err = qs.reports(ctx, q.Instance, execution, q.After, r.Events)
	return r, err
}

// requeue retries a stalled instance at once, without waiting for its backoff.
func (qs *queries) requeue(ctx context.Context, id string) (request.Reply, error) {
	reason, err := qs.process.store.StalledReason(ctx, qs.shell.st.Part, id)
	if err != nil {
		return nil, err
	}
	if reason == "" {
		return nil, &request.Problem{Code: request.ProblemRefused, Message: "instance " + id + " is not stalled"}
	}
	if s := core.ParseStall(reason); s.AwaitsStart() {
		return nil, &request.Problem{Code: request.ProblemRefused, Message: "instance " + id + " has not been started, so there is nothing to retry: " + s.Reason}
	}
	qs.shell.post(core.Message{Kind: core.RetryRequested, ID: id})
	return new(request.Done), nil
}

const maxStalled = 500 // rows in a page of stalled instances

// stalled lists the stalled instances by id, and the refused inputs after them; the cursor is the last id of the previous page. Each page reads
// all ids, but details only of its own rows: a flood of inputs before their starts can make the list long.
func (qs *queries) stalled(ctx context.Context, q *request.Stalled) (request.Reply, error) {
	ids, err := qs.process.store.StalledIDs(ctx, qs.shell.st.Part)
	if err != nil {
		return nil, err
	}
	lacking := qs.shell.unserved.list()
	ids = append(ids, slices.Collect(maps.Keys(lacking))...)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	from, found := slices.BinarySearch(ids, q.Cursor)
	if found {
		from++
	}
	limit := q.Limit
	if limit <= 0 || limit > maxStalled {
		limit = maxStalled
	}
	page := ids[from:min(len(ids), from+limit)]
	reasons, err := qs.process.store.StalledReasons(ctx, qs.shell.st.Part, page)
	if err != nil {
		return nil, err
	}
	r := new(request.InstancePage)
	room := request.MaxReply
	for _, id := range page {
		reason := reasons[id]
		s, lacks := lacking[id]
		if lacks = lacks && reason == ""; lacks {
			reason = s.Encode()
		}
		if reason == "" { // no longer stalled
			continue
		}
		if room -= len(reason) + 1024; room < 0 && len(r.Instances) > 0 {
			r.Cursor = r.Instances[len(r.Instances)-1].Instance
			return r, nil
		}
		rec, err := qs.process.store.Record(ctx, qs.shell.st.Part, id)
		if err != nil && !store.Unreadable(err) {
			return r, err
		}
		if lacks && (rec == nil || rec.Status.Ended()) { // it has ended since
			qs.shell.unserved.drop(id)
			continue
		}
		row := summary(id, rec, reason)
		if rec == nil && err == nil {
			if row.Orchestration, row.Version, err = qs.unreadStart(ctx, id); err != nil {
				return r, err
			}
		}
		r.Instances = append(r.Instances, row)
	}
	if from+limit < len(ids) {
		r.Cursor = page[len(page)-1]
		return r, nil
	}
	return qs.refusals(ctx, r)
}

// unreadStart returns the orchestration and version of an instance that has not begun; empty if only early inputs have arrived.
func (qs *queries) unreadStart(ctx context.Context, id string) (name, version string, err error) {
	first, err := qs.process.store.Inbox(ctx, qs.shell.st.Part, id, 1) // a start is before early inputs
	if s := nextStart(record.Loaded{Unread: first}); s != nil {
		name, version = s.Name, s.Version
	}
	return name, version, err
}

// refusals adds the refused inputs, of which the store keeps at most a hundred, to the last page.
func (qs *queries) refusals(ctx context.Context, r *request.InstancePage) (request.Reply, error) {
	refused, err := qs.process.store.Refusals(ctx, qs.shell.st.Part)
	if err != nil {
		return r, err
	}
	for _, x := range refused {
		r.Instances = append(r.Instances, request.Summary{
			Instance: x.Instance, Status: "refused", Updated: x.At,
			Stalled: fmt.Sprintf("refused: input %d cannot be used: %s", x.Seq, x.Reason),
		})
	}
	return r, nil
}
