package queue

import "github.com/pawlrun/pawl/pkg/history"

func wireBell(w *wire, b *Bell) {
	w.record(4, func(w *wire) {
		w.str(&b.Instance)
		w.bytes(&b.Element)
		w.str(&b.Effect)
		w.str(&b.Proof)
	})
}

func wireHint(w *wire, h *Hint) {
	w.record(9, func(w *wire) {
		w.str(&h.Instance)
		w.uint(&h.Execution)
		w.uint(&h.Activity)
		w.str(&h.Effect)
		number(w, &h.Reason)
		w.str(&h.By)
		w.str(&h.Text)
		w.int(&h.At)
		w.str(&h.Token)
	})
}

func (n *Notice) wire(w *wire) {
	number(w, &n.Kind)
	w.count(&n.Partition)
	w.str(&n.Member)
}

const answerFields = 10

func wireAnswer(w *wire, a *Answer) {
	w.str(&a.Instance)
	w.position(&a.Born)
	w.uint(&a.Execution)
	w.str(&a.Status)
	w.payload(&a.Result)
	optional(w, &a.Failure, failureFields, wireFailure)
	optional(w, &a.Problem, problemFields, wireProblem)
	optional(w, &a.Custom, customFields, wireCustom)
}

const customFields = 4

func wireCustom(w *wire, c *Custom) {
	w.uint(&c.Version)
	w.payload(&c.Payload)
	w.bool(&c.Cleared)
}

const problemFields = 2

func wireProblem(w *wire, p *Problem) {
	w.str(&p.Code)
	w.str(&p.Message)
}

func (a *Ask) wire(w *wire) {
	number(w, &a.Op)
	w.str(&a.Instance)
	w.str(&a.ReplyTo)
	w.uint(&a.Execution)
	w.uint(&a.After)
	w.str(&a.Status)
	w.str(&a.Cursor)
	w.count(&a.Limit)
	w.str(&a.Gate)
	w.str(&a.Key)
	w.str(&a.Level)
	optional(w, &a.Policy, policyFields, wirePolicy)
	optional(w, &a.Filter, 4, func(w *wire, f *ListFilter) {
		w.str(&f.Orchestration)
		w.str(&f.Prefix)
		w.int(&f.Since)
		w.int(&f.Before)
	})
}

func (r *Reply) wire(w *wire) {
	optional(w, &r.Problem, problemFields, wireProblem)
	optional(w, &r.Answer, answerFields, wireAnswer)
	optional(w, &r.Described, describedFields, wireDescribed)
	w.uint(&r.Execution)
	list(w, &r.Events, (*wire).bytes)
	w.bool(&r.More)
	list(w, &r.Rows, func(w *wire, d *Described) {
		w.record(describedFields, func(w *wire) { wireDescribed(w, d) })
	})
	w.str(&r.Cursor)
	list(w, &r.Reports, func(w *wire, x *Report) {
		w.record(2, func(w *wire) { w.uint(&x.Activity); w.str(&x.Text) })
	})
	list(w, &r.Gates, wireGateStats)
	list(w, &r.Waiters, wireGateWaiter)
	list(w, &r.Policies, wireLevelPolicy)
	w.count(&r.Cleared)
	list(w, &r.Counts, func(w *wire, c *StatusCount) {
		w.record(2, func(w *wire) { w.str(&c.Status); w.uint(&c.Count) })
	})
	w.uint(&r.Stalled)
}

const describedFields = 26

func wireDescribed(w *wire, d *Described) {
	w.str(&d.Instance)
	w.str(&d.Orchestration)
	w.str(&d.Version)
	w.str(&d.Status)
	w.position(&d.Born)
	w.uint(&d.Execution)
	w.int(&d.Created)
	w.int(&d.Updated)
	w.int(&d.Ended)
	w.uint(&d.Events)
	list(w, &d.Outstanding, func(w *wire, o *Outstanding) { w.record(6, o.wire) })
	w.uint(&d.Timers)
	w.int(&d.NextTimer)
	w.uint(&d.Inbox)
	w.payload(&d.Result)
	optional(w, &d.Failure, failureFields, wireFailure)
	w.str(&d.Stuck)
	w.str(&d.Parent)
	list(w, &d.Children, func(w *wire, o *OutstandingChild) { w.record(4, o.wire) })
	optional(w, &d.Custom, customFields, wireCustom)
	w.uint(&d.Owes)
	list(w, &d.Waits, wireGateWait)
	list(w, &d.Unread, func(w *wire, u *history.UnreadEvents) {
		w.record(2, func(w *wire) { w.str(&u.Event); w.uint(&u.Count) })
	})
	list(w, &d.Awaited, (*wire).str)
}

func (o *OutstandingChild) wire(w *wire) {
	w.uint(&o.Event)
	w.str(&o.Name)
	w.str(&o.Instance)
	w.int(&o.Since)
}

func (o *Outstanding) wire(w *wire) {
	w.uint(&o.Activity)
	w.str(&o.Name)
	w.str(&o.Queue)
	w.str(&o.Worker)
	number(w, &o.Claims)
	w.int(&o.Since)
}

func (a Answer) encode() []byte { return encode(answerFields, func(w *wire) { wireAnswer(w, &a) }) }

func decodeAnswer(b []byte) (Answer, error) {
	var a Answer
	err := decode("answer", b, func(w *wire) { wireAnswer(w, &a) })
	return a, err
}

func (n Notice) encode() []byte { return encode(3, n.wire) }
func (a Ask) encode() []byte    { return encode(13, a.wire) }
func (r Reply) encode() []byte  { return encode(15, r.wire) }

func encodeBells(bells []Bell) []byte {
	return encode(1, func(w *wire) { list(w, &bells, wireBell) })
}

func encodeHints(hints []Hint) []byte {
	return encode(1, func(w *wire) { list(w, &hints, wireHint) })
}
