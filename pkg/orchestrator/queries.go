package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/pkg/queue"
)

// queries answers the requests of clients for a partition. All but the changes of policies and the clearing of a gate only read.
// They read the store and the gates, not the memory of the actor, and run on goroutines of the subscription.
type queries struct {
	*shell
	unserved *unserved
}

// serve answers one request.
func (qs *queries) serve(ctx context.Context, q queue.Ask) queue.Reply {
	ctx, stop := context.WithTimeout(ctx, loadTimeout)
	defer stop()
	var r queue.Reply
	var err error
	switch q.Op {
	case queue.OpAwait:
		r, err = qs.await(ctx, q)
	case queue.OpDescribe:
		r, err = qs.describe(ctx, q.Instance)
	case queue.OpHistory:
		r, err = qs.historyPage(ctx, q)
	case queue.OpList:
		r, err = qs.list(ctx, q)
	case queue.OpStuck:
		r, err = qs.stuck(ctx, q)
	case queue.OpCount:
		r, err = qs.instanceCounts(ctx)
	case queue.OpStatus:
		r, err = qs.customStatus(ctx, q)
	case queue.OpGates, queue.OpGate, queue.OpWaiters, queue.OpClear, queue.OpPolicies, queue.OpSetPolicy, queue.OpDeletePolicy:
		r, err = qs.askGate(ctx, q)
	default:
		err = &queue.Problem{Code: queue.ProblemBadAsk, Message: fmt.Sprintf("request %d is not known to this orchestrator", q.Op)}
	}
	var p *queue.Problem
	switch {
	case err == nil:
		return r
	case errors.As(err, &p):
	case qs.ctx.Err() != nil:
		p = &queue.Problem{Code: queue.ProblemNotOwner, Message: fmt.Sprintf("partition %d is being handed over; ask again", qs.st.Part)}
	default:
		logFailure(qs.log, "request not answered", err, "op", q.Op, "instance", q.Instance)
		p = &queue.Problem{Code: queue.ProblemInternal, Message: err.Error()}
	}
	return queue.Reply{Problem: p}
}

// pending tells an instance that has not begun from one that is not there.
func (qs *queries) pending(ctx context.Context, id string, is error) error {
	n, err := qs.store.InboxLen(ctx, qs.st.Part, id)
	if err != nil {
		return err
	}
	if n == 0 {
		return notFound(id)
	}
	return is
}

func notFound(id string) error {
	return &queue.Problem{Code: queue.ProblemNotFound, Message: "there is no instance " + id}
}

// register notes who wants to be told, and then reads the record, so that what happens in between is told all the
// same. It gives nil for an instance that has not begun.
func (qs *queries) register(ctx context.Context, q queue.Ask, as messageKind) (*store.Record, error) {
	if q.ReplyTo != "" {
		qs.box.post(message{kind: as, id: q.Instance, body: q.ReplyTo})
	}
	rec, err := qs.store.Record(ctx, qs.st.Part, q.Instance)
	if err == nil && rec == nil {
		err = qs.pending(ctx, q.Instance, nil)
	}
	return rec, err
}

// await answers how the instance ended, or remembers who wants to know.
func (qs *queries) await(ctx context.Context, q queue.Ask) (queue.Reply, error) {
	rec, err := qs.register(ctx, q, endAwaited)
	if err != nil || rec == nil || !rec.Status.Ended() {
		return queue.Reply{}, err
	}
	ans := ended(q.Instance, rec)
	return queue.Reply{Answer: &ans}, nil
}

// ended says how an instance ended.
func ended(id string, rec *store.Record) queue.Answer {
	ans := queue.Answer{Instance: id, Born: rec.Origin, Execution: rec.Execution, Status: string(rec.Status)}
	end, err := rec.EndEvent()
	var ok bool
	if ans.Result, ans.Failure, ok = outcome(end); !ok {
		ans.Problem = &queue.Problem{Code: queue.ProblemInternal, Message: fmt.Sprintf("the end of instance %s can not be read: %v", id, err)}
	}
	return ans
}

// outcome is what an instance ended with; ok is false for what is no end of an instance.
func outcome(end history.Event) (result history.Payload, failure *history.Failure, ok bool) {
	switch e := end.(type) {
	case *history.Completed:
		return e.Result, nil, true
	case *history.Failed:
		return history.Payload{}, &e.Failure, true
	case *history.Cancelled:
		return history.Payload{}, &e.Failure, true
	default:
		return history.Payload{}, nil, false
	}
}

func (qs *queries) describe(ctx context.Context, id string) (queue.Reply, error) {
	stuck, err := qs.store.StalledReason(ctx, qs.st.Part, id)
	if err != nil {
		return queue.Reply{}, err
	}
	l, err := qs.store.Load(ctx, qs.st.Part, id)
	if err != nil && stuck == "" {
		return queue.Reply{}, err
	}
	if l.Record == nil && len(l.Unread) == 0 && stuck == "" {
		return queue.Reply{}, notFound(id)
	}
	d := qs.row(id, l.Record, stuck)
	if d.Inbox, err = qs.store.InboxLen(ctx, qs.st.Part, id); err != nil || l.Record == nil {
		return queue.Reply{Described: &d}, err
	}
	state, _ := history.Check(l.Events)
	for _, id := range state.Children() {
		if e := state.Child(id); len(d.Children) < maxOutstanding {
			d.Children = append(d.Children, queue.OutstandingChild{Event: id, Name: e.Name, Instance: e.Instance, Since: e.At})
		}
	}
	d.Owes = pendingCount(id, l, state)
	if !l.Record.Status.Ended() {
		d.Events = state.Len
		d.Timers = uint64(state.TimerLen()) //nolint:gosec // a length
		if t, ok := state.NextTimer(); ok {
			d.NextTimer = t.FireAt
		}
		if d.Outstanding, err = qs.outstanding(ctx, id, l.Record, state); err != nil {
			return queue.Reply{}, err
		}
		d.Waits = qs.gateWaits(ctx, id, state)
		d.Awaited = qs.awaited(ctx, id)
	}
	return queue.Reply{Described: &d}, nil
}

// awaited returns the names of the events that an instance waits for, if it is in memory and between two turns.
func (qs *queries) awaited(ctx context.Context, id string) []string {
	names := make(chan []string, 1)
	qs.box.post(message{kind: awaitedRequested, id: id, body: names})
	select {
	case n := <-names:
		return n
	case <-qs.ctx.Done():
	case <-ctx.Done():
	}
	return nil
}

// pendingCount counts the messages that the store does not know to be sent, and takes them out of the state.
func pendingCount(id string, l store.Loaded, state *history.State) uint64 {
	in := &instance{id: id}
	in.rec, in.state = l.Record, state
	if in.restoreOutbox(l) != nil {
		return 0
	}
	return uint64(len(in.outbox))
}

// maxOutstanding bounds how many outstanding activities a description lists.
const maxOutstanding = 100

func (qs *queries) outstanding(ctx context.Context, id string, rec *store.Record, state *history.State) ([]queue.Outstanding, error) {
	ids := state.Outstanding()
	ids = ids[:min(len(ids), maxOutstanding)]
	held, err := qs.store.Holders(ctx, qs.st.Part, id, rec.Execution, ids)
	if err != nil {
		return nil, err
	}
	out := make([]queue.Outstanding, len(ids))
	for i, n := range ids {
		e := state.Activity(n)
		out[i] = queue.Outstanding{Activity: n, Name: e.Name, Queue: e.Queue, Worker: held[i].Worker, Claims: held[i].Claims, Since: e.At}
	}
	return out, nil
}

// row is what a listing shows of an instance.
func (qs *queries) row(id string, rec *store.Record, stuck string) queue.Described {
	d := queue.Described{Instance: id}
	if stuck != "" {
		s := parseStall(stuck)
		d.Stuck = s.Why
		if s.Kind != "" {
			d.Stuck = string(s.Kind) + ": " + s.Why
		}
		d.Updated = s.Since
	}
	if rec == nil {
		d.Status = "pending"
		return d
	}
	d.Orchestration, d.Version, d.Status = rec.Name, rec.Version, string(rec.Status)
	d.Born, d.Execution, d.Created, d.Updated, d.Ended, d.Events = rec.Origin, rec.Execution, rec.Created, rec.Updated, rec.Ended, rec.Events
	if rec.Parent != nil {
		d.Parent = rec.Parent.Instance
	}
	d.Custom = custom(rec)
	if rec.Status.Ended() {
		ans := ended(id, rec)
		d.Result, d.Failure, d.Unread = ans.Result, ans.Failure, rec.Unread
	}
	if d.Custom != nil && len(d.Custom.Payload.Data)+len(d.Result.Data) > queue.MaxReply {
		d.Custom.Payload = history.Payload{} // both do not fit into one message; the status can be asked for by itself
	}
	return d
}

func (qs *queries) historyPage(ctx context.Context, q queue.Ask) (queue.Reply, error) {
	rec, err := qs.store.Record(ctx, qs.st.Part, q.Instance)
	if err != nil {
		return queue.Reply{}, err
	}
	if rec == nil {
		return queue.Reply{}, qs.pending(ctx, q.Instance, &queue.Problem{
			Code: queue.ProblemNotFound, Message: "instance " + q.Instance + " has inputs and has not begun: there is no history yet; `pawl get` says what it waits for",
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
		execution-- // the latest has not had its first turn
	}
	raw, err := qs.store.RawHistory(ctx, qs.st.Part, q.Instance, execution, q.After, limit+1)
	if err != nil {
		return queue.Reply{}, err
	}
	r := queue.Reply{Execution: execution}
	room := queue.MaxReply
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

func (qs *queries) list(ctx context.Context, q queue.Ask) (queue.Reply, error) {
	updated, instance, err := queue.ParseListCursor(q.Cursor)
	if err == nil && !slices.Contains(store.Statuses(), store.Status(q.Status)) {
		err = fmt.Errorf("status %.40q is not one of an instance", q.Status)
	}
	if err != nil {
		return queue.Reply{}, &queue.Problem{Code: queue.ProblemBadAsk, Message: err.Error()}
	}
	page, err := qs.store.List(ctx, qs.st.Part, store.ListQuery{
		Status: store.Status(q.Status), Updated: updated, Instance: instance, Limit: q.Limit, Keep: keep(q.Filter),
	})
	if err != nil {
		return queue.Reply{}, err
	}
	var r queue.Reply
	if page.More {
		r.Cursor = queue.ListCursor(page.Updated, page.Instance)
	}
	for _, row := range page.Rows {
		d := qs.row(row.Instance, row.Record, "")
		if row.Record == nil {
			d.Status, d.Updated, d.Stuck = q.Status, row.Updated, "unreadable: "+row.Problem
		}
		d.Result, d.Failure, d.Custom = history.Payload{}, nil, nil // a listing is not for results
		r.Rows = append(r.Rows, d)
	}
	return r, nil
}

// keep is what a filter of a listing keeps; nil: all.
func keep(f *queue.ListFilter) func(string, *store.Record) bool {
	if f == nil {
		return nil
	}
	return func(id string, rec *store.Record) bool {
		return strings.HasPrefix(id, f.Prefix) && (f.Orchestration == "" || rec.Name == f.Orchestration) &&
			rec.Created >= f.Since && (f.Before == 0 || rec.Created < f.Before)
	}
}

// instanceCounts answers how many instances of each status the partition has, and how many are stalled, without reading them.
func (qs *queries) instanceCounts(ctx context.Context) (r queue.Reply, err error) {
	for _, s := range store.Statuses() {
		n, err := qs.store.Count(ctx, qs.st.Part, s)
		if err != nil {
			return r, err
		}
		r.Counts = append(r.Counts, queue.StatusCount{Status: string(s), Count: n})
	}
	if r.Stalled, err = qs.store.StalledCount(ctx, qs.st.Part); err != nil {
		return r, err
	}
	lacking := slices.Collect(maps.Keys(qs.unserved.list()))
	both, err := qs.store.StalledReasons(ctx, qs.st.Part, lacking)
	r.Stalled += uint64(len(lacking) - len(both)) //nolint:gosec // those of lacking that the store lists, too
	return r, err
}

// stuckMost bounds a page of what is stalled.
const stuckMost = 500

// stuck lists what is stalled, by instance id; the cursor is the last one of the page before. Of a list that a flood of early inputs
// has made long only the ids are read for each page.
func (qs *queries) stuck(ctx context.Context, q queue.Ask) (queue.Reply, error) {
	ids, err := qs.store.StalledIDs(ctx, qs.st.Part)
	if err != nil {
		return queue.Reply{}, err
	}
	lacking := qs.unserved.list()
	ids = append(ids, slices.Collect(maps.Keys(lacking))...)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	from, found := slices.BinarySearch(ids, q.Cursor)
	if found {
		from++
	}
	limit := q.Limit
	if limit <= 0 || limit > stuckMost {
		limit = stuckMost
	}
	page := ids[from:min(len(ids), from+limit)]
	whys, err := qs.store.StalledReasons(ctx, qs.st.Part, page)
	if err != nil {
		return queue.Reply{}, err
	}
	var r queue.Reply
	room := queue.MaxReply
	for _, id := range page {
		why := whys[id]
		s, lacks := lacking[id]
		if lacks = lacks && why == ""; lacks {
			why = s.encode()
		}
		if why == "" { // since
			continue
		}
		if room -= len(why) + 1024; room < 0 && len(r.Rows) > 0 {
			r.Cursor = r.Rows[len(r.Rows)-1].Instance
			return r, nil
		}
		rec, err := qs.store.Record(ctx, qs.st.Part, id)
		if err != nil && !store.Unreadable(err) {
			return r, err
		}
		if lacks && (rec == nil || rec.Status.Ended()) { // since
			qs.unserved.drop(id)
			continue
		}
		r.Rows = append(r.Rows, qs.row(id, rec, why))
	}
	if from+limit < len(ids) {
		r.Cursor = page[len(page)-1]
		return r, nil
	}
	return qs.refusals(ctx, r)
}

// refusals adds the refused inputs to the last page, at most a hundred, behind everything that may still move.
func (qs *queries) refusals(ctx context.Context, r queue.Reply) (queue.Reply, error) {
	refused, err := qs.store.Refusals(ctx, qs.st.Part)
	if err != nil {
		return r, err
	}
	for _, x := range refused {
		r.Rows = append(r.Rows, queue.Described{
			Instance: x.Instance, Status: "refused", Updated: x.At,
			Stuck: fmt.Sprintf("refused: input %d can not be used: %s", x.Seq, x.Reason),
		})
	}
	return r, nil
}
