package conformance

import (
	"fmt"
	"strings"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/memstore"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redistest"
)

// ofRepairs reports whether only rewinds or pauses reveal a mistake.
func ofRepairs(wrong memstore.Mistake) bool {
	return strings.HasPrefix(string(wrong), "a rewind ") || wrong == memstore.DeferUnseen
}

// rewind rewinds an instance that has a history, mostly with valid arguments.
func (m *machine) rewind() {
	token, id := m.token(), m.instance()
	in := m.model.Get(id)
	if in.Head == "" {
		return
	}
	was := in.Record
	r := memstore.Rewind{
		Instance: id, Execution: in.Execution, Keep: draw(m, "keep", 0, in.Events/2, in.Events), Head: in.Head, NewHead: m.fresh("h"), Status: "running",
		Read: draw(m, "read", len(in.Inbox), len(in.Inbox), 0),
	}
	for i, e := range in.Inbox[:r.Read] {
		if strings.HasPrefix(e.ID, "a") {
			r.Results = append(r.Results, record.Placed{Place: i, ID: e.ID})
		}
	}
	if strings.HasSuffix(r.NewHead, "7") { // without a draw, which would change the meaning of the seeds of TestModelMistakesAreDetected
		r.Results = append(r.Results, record.Placed{Place: len(in.Inbox) / 2, ID: "a.acked.but.lost"})
	}
	if oneIn(m, 6) {
		r.Head = draw(m, "head", "h1", "h2")
	}
	r.Delete = append(r.Delete, []uint64{1, 2, 3}[:draw(m, "deletes", 0, 3, 3)]...)
	for range draw(m, "in front", 1, 2) {
		r.Front = append(r.Front, memstore.Element{ID: "!r" + m.fresh(""), Kind: "start", Time: 1_790_000_000_000, Tag: "front"})
	}
	m.send(func() {
		if in := m.model.Get(id); in.Head == r.Head && (in.Status != was.Status || in.Parent != was.Parent || in.Execution != r.Execution) {
			return // the head belongs to another record: no owner sends this
		}
		m.both(fmt.Sprintf("rewind by %s: %+v", token, r), func() (string, int64) { return m.doRewind(token, &was, &r) },
			func(s *memstore.Store, now int64) string {
				c := s.Rewind(now, token, r)
				if c.Answer != memstore.OK {
					return string(c.Answer)
				}
				holders := map[uint64]string{}
				for _, h := range c.Holders {
					holders[r.Delete[h.Place-1]] = h.Worker
				}
				return fmt.Sprint("OK ", holders, c.Number)
			})
	})
}

func (m *machine) doRewind(token string, was *memstore.Record, r *memstore.Rewind) (string, int64) {
	w := &record.Rewind{
		Instance: r.Instance, Execution: r.Execution, Keep: uint64(r.Keep), Head: r.Head, NewHead: r.NewHead, From: record.Status(was.Status), To: record.Status(r.Status),
		Read: r.Read, Results: r.Results,
	}
	c := record.Commit{Record: &record.Record{Status: w.To}}
	c.Reindex(indexed(was))
	w.Leave, w.Enter = c.Leave, c.Enter
	for _, e := range r.Front {
		w.Prepend = append(w.Prepend, eventcodec.Element{ID: sealed(e.ID), At: e.Time, Body: []byte(e.Tag)}.Encode())
	}
	for _, a := range r.Delete {
		w.Delete = append(w.Delete, record.Lease{Activity: a})
	}
	out, err := redistest.Answer(func(done func(record.Committed, error)) { m.store.Rewind(m.tenure(token), w, done) })
	if err != nil {
		return m.refused(err), 0
	}
	holders := out.Workers
	if holders == nil {
		holders = map[uint64]string{}
	}
	return fmt.Sprint("OK ", holders, out.Number), out.Now
}
