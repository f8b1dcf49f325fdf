package conformance

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/memstore"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/pkg/history"
)

// turn draws a turn, mostly a valid one.
func (m *machine) turn() memstore.Turn {
	id := m.instance()
	in := m.model.Get(id)
	t := memstore.Turn{Instance: id, Execution: max(in.Execution, 1), Expect: in.Head, Head: m.fresh("h"), Status: "running"}
	for _, e := range in.Inbox[:draw(m, "inputs", 0, len(in.Inbox)/2, len(in.Inbox))] {
		t.Pop = append(t.Pop, e.ID)
	}
	switch rapid.IntRange(1, 30).Draw(m.rt, "flaw") {
	case 1, 2, 3:
		t.Expect = draw(m, "head", "", "h1", "h2")
	case 4, 5, 6:
		if len(t.Pop) > 0 {
			t.Pop[m.n%len(t.Pop)] = "a.acked.but.lost"
		}
	case 7, 8, 9:
		t.Head = "" // only the inbox is consumed
		return t
	case 10:
		t.Execution++ // the execution has no history yet
	}
	if in.Head == "" {
		t.Begins = 1
	}
	for range draw(m, "events", 1, 2, 3) {
		t.Events = append(t.Events, m.fresh("event "))
	}
	for range draw(m, "creates", 0, 1, 2) {
		l := m.lease()
		if oneIn(m, 3) { // claimed by a worker in the owner's process
			l.Token, l.Worker = m.fresh("t"), "worker"
			m.claims = append(m.claims, memstore.Claim{Instance: t.Instance, Execution: t.Execution, Activity: l.Activity, Effect: l.Effect, Token: l.Token})
		}
		t.Create = append(t.Create, l)
	}
	for range draw(m, "deletes", 0, 0, 1, 3) {
		t.Delete = append(t.Delete, m.lease().Activity)
	}
	if len(t.Create) > 0 && oneIn(m, 4) {
		t.Delete = append(t.Delete, t.Create[0].Activity)
	}
	switch {
	case oneIn(m, 4), in.End != "":
		m.continueAsNew(&t)
		t.NewIncarnation = in.End != "" || oneIn(m, 4)
	case oneIn(m, 6):
		t.Status, t.End = "completed", m.fresh("end")
	}
	m.marks(&t, in)
	if oneIn(m, 4) { // due by time
		for _, e := range in.Inbox {
			t.Due = max(t.Due, e.Time+draw(m, "due", int64(-1), 0, 1))
		}
		t.Applied = m.model.Owner.Applied
		t.Applied.Time += draw(m, "applied", int64(-1), 0, 0, 1)
	}
	if !oneIn(m, 4) {
		t.Next = m.now() + draw(m, "next", int64(0), 500, 3000, 10_000)
	}
	return t
}

// continueAsNew makes a turn the last one of its execution.
func (m *machine) continueAsNew(t *memstore.Turn) {
	t.Begins = t.Execution + 1
	for k := range draw(m, "in front", 1, 2, 20) {
		kind, id := "event", m.fresh("c")
		if k == 0 {
			kind, id = "start", "!"+id
		}
		t.Front = append(t.Front, memstore.Element{ID: id, Kind: kind, Time: 1_790_000_000_000, Tag: "carried"})
	}
	if oneIn(m, 2) {
		t.Parent = m.fresh("p")
	}
}

// marks draws the outbox watermarks of a turn, and the history that it removes.
func (m *machine) marks(t *memstore.Turn, in *memstore.Instance) {
	if oneIn(m, 3) {
		t.Out = memstore.Place{Execution: t.Execution, Event: uint64(len(in.History()) + 1)}
	}
	if oneIn(m, 3) {
		t.Sent = in.Out
	}
	if oneIn(m, 3) {
		t.Custom = in.Custom + 1
	}
	if t.Execution > 1 && oneIn(m, 2) {
		t.Prune = t.Execution - uint64(draw(m, "executions back", 1, 2))
	}
}

func (m *machine) commit() {
	token, t := m.token(), m.turn()
	was := m.model.Get(t.Instance).Record
	m.send(func() {
		if s := m.model.Get(t.Instance); s.Head == t.Expect && (s.Status != was.Status || s.Parent != was.Parent) {
			return // a rollback restored an old head with another record: no owner sends this
		}
		m.both(fmt.Sprintf("commit by %s: %+v", token, t), func() (string, int64) {
			return m.doCommit(token, &was, t)
		}, func(s *memstore.Store, now int64) string {
			c := s.Commit(now, token, t)
			if c.Answer != memstore.OK {
				return string(c.Answer)
			}
			holders := map[uint64]string{}
			for _, h := range c.Holders {
				holders[t.Delete[h.Place-1]] = h.Worker
			}
			ids := []string{}
			for _, e := range c.Inbox {
				ids = append(ids, e.ID)
			}
			return fmt.Sprint("OK ", ids, holders)
		})
	})
}

func (m *machine) doCommit(token string, was *memstore.Record, t memstore.Turn) (string, int64) {
	c := &record.Commit{
		Instance: t.Instance, Execution: t.Execution, Prune: t.Prune, Head: t.Expect, NewHead: t.Head, Pop: allSealed(t.Pop), From: record.Status(was.Status),
		Create: leasesOf(t.Create), Wakeup: t.Next, MaxUnread: record.UnreadBatch, Due: t.Due, Applied: max(t.Applied.Time, 0),
	}
	if t.Head != "" {
		c.Record = recordOf(t)
		c.Reindex(indexed(was))
	}
	for _, e := range t.Front {
		c.Prepend = append(c.Prepend, eventcodec.Element{ID: sealed(e.ID), At: e.Time, Body: []byte(e.Tag)}.Encode())
	}
	for _, e := range t.Events {
		c.Events = append(c.Events, []byte(e))
	}
	for _, a := range t.Delete {
		c.Delete = append(c.Delete, record.Lease{Activity: a})
	}
	out, err := redistest.Answer(func(done func(record.Committed, error)) { m.store.Commit(m.tenure(token), c, done) })
	if err != nil {
		return m.refused(err), 0
	}
	ids := []string{}
	for _, raw := range out.Unread {
		e, err := eventcodec.ParseElement(raw)
		m.must(err)
		ids = append(ids, unsealed(e.ID))
	}
	holders := out.Workers
	if holders == nil {
		holders = map[uint64]string{}
	}
	return fmt.Sprint("OK ", ids, holders), out.Now
}

func recordOf(t memstore.Turn) *record.Record {
	r := &record.Record{
		Status: record.Status(t.Status), End: []byte(t.End), Ended: int64(len(t.End)), NewIncarnation: t.NewIncarnation,
		CustomVersion: t.Custom, Produced: markOf(t.Out), Published: markOf(t.Sent),
	}
	if t.Begins != 0 {
		r.Name, r.Execution = "n", t.Begins
		if t.Parent != "" {
			r.Parent = &history.Parent{Instance: t.Parent}
		}
	}
	return r
}

// indexed returns the parts of a record on which the indexes depend; nil without a record.
func indexed(r *memstore.Record) *record.Record {
	if r.Head == "" {
		return nil
	}
	rec := &record.Record{Name: "n", Status: record.Status(r.Status)}
	if r.Parent != "" {
		rec.Parent = &history.Parent{Instance: r.Parent}
	}
	return rec
}

func markOf(p memstore.Place) record.Watermark {
	return record.Watermark{Execution: p.Execution, Event: p.Event}
}
