package conformance

import (
	"errors"
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/tests/model"
)

// refused gives the word of a refusal, and fails upon any other error.
func (m *machine) refused(err error) string {
	switch {
	case errors.Is(err, store.ErrFenced):
		return string(model.Fenced)
	case errors.Is(err, store.ErrConflict):
		return string(model.Conflict)
	}
	m.rt.Fatal(err)
	return ""
}

func (m *machine) tenure(token string) store.Tenure {
	return store.Tenure{Part: partition, Token: token}
}

func (m *machine) ingest() {
	token, from := m.token(), m.position()
	batch := make([]model.Message, draw(m, "messages", 0, 1, 2, 5))
	for i := range batch {
		kind := draw(m, "kind", "start", "start", "event", "cancel")
		id := m.fresh("i")
		if kind == "start" {
			id = "!" + id
		}
		batch[i] = model.Message{Instance: m.instance(), ID: draw(m, "message id", "", "m1", "m2", "m3", m.fresh("m")), Kind: kind, Element: id, Sent: 1_790_000_000_000}
	}
	to := position(from.Seq + uint64(len(batch)))
	m.send(func() {
		m.both(fmt.Sprintf("ingest by %s from %d to %d: %v", token, from.Seq, to.Seq, batch), func() (string, int64) {
			return m.doIngest(token, from, to, batch)
		}, func(s *model.Store, now int64) string {
			a, fates := s.Ingest(now, token, from, to, batch)
			return strings.TrimSpace(string(a) + " " + strings.Join(fates, " "))
		})
	})
}

func (m *machine) doIngest(token string, from, to model.Position, batch []model.Message) (string, int64) {
	msgs := make([]store.Message, len(batch))
	for i, b := range batch {
		kind := map[string]store.MessageKind{"start": store.StartMessage, "cancel": store.CancelMessage, "event": store.OtherMessage}[b.Kind]
		msgs[i] = store.Message{
			Instance: b.Instance, ID: b.ID, Kind: kind,
			Element: history.Element{ID: b.Element, At: b.Sent, Body: []byte(b.ID)}.Encode(),
		}
	}
	type answer struct {
		now   int64
		fates []store.Ingested
	}
	a, err := await(func(done func(answer, error)) {
		m.store.Ingest(m.tenure(token), history.Position(from), history.Position(to), msgs, func(now int64, fates []store.Ingested, err error) {
			done(answer{now, fates}, err)
		})
	})
	if err != nil {
		return m.refused(err), 0
	}
	if a.fates == nil {
		return string(model.Done), a.now
	}
	out := "OK"
	for _, f := range a.fates {
		switch {
		case f.Repeat:
			out += " " + model.Repeat
		case f.Full:
			out += " " + model.Full
		case f.Unknown:
			out += " " + model.Unknown
		case f.Exists:
			out += fmt.Sprint(" e", f.Unread)
		default:
			out += fmt.Sprint(" n", f.Unread)
		}
	}
	return out, a.now
}

func (m *machine) due() {
	token, most := m.token(), draw(m, "most", 1, 2, 10)
	m.both("due", func() (string, int64) {
		d, err := await(func(done func(store.DueNow, error)) { m.store.Due(m.tenure(token), most, done) })
		if err != nil {
			return m.refused(err), 0
		}
		return fmt.Sprint("OK ", d.Instances, d.Next), d.Now
	}, func(s *model.Store, now int64) string {
		a, due, next := s.Due(now, token, most)
		if a != model.OK {
			return string(a)
		}
		return fmt.Sprint("OK ", due, next)
	})
}

// turn draws a turn: mostly one that fits.
func (m *machine) turn() model.Turn {
	id := m.instance()
	in := m.model.Get(id)
	t := model.Turn{Instance: id, Expect: in.Head, Head: m.fresh("h"), Status: "running"}
	for _, e := range in.Inbox[:draw(m, "inputs", 0, len(in.Inbox)/2, len(in.Inbox))] {
		t.Pop = append(t.Pop, e.ID)
	}
	switch rapid.IntRange(1, 30).Draw(m.rt, "flaw") {
	case 1, 2, 3:
		t.Expect = draw(m, "head", "", "h1", "h2")
	case 4, 5, 6:
		if len(t.Pop) > 0 {
			t.Pop[m.n%len(t.Pop)] = "a.acked.but.forgotten"
		}
	case 7, 8, 9:
		t.Head = "" // only the inbox is consumed
		return t
	}
	for range draw(m, "events", 1, 2, 3) {
		t.Events = append(t.Events, m.fresh("event "))
	}
	for range draw(m, "creates", 0, 1, 2) {
		t.Create = append(t.Create, m.lease())
	}
	for range draw(m, "deletes", 0, 0, 1, 3) {
		t.Delete = append(t.Delete, m.lease().Activity)
	}
	if len(t.Create) > 0 && m.oneIn(4) {
		t.Delete = append(t.Delete, t.Create[0].Activity)
	}
	if m.oneIn(10) {
		t.Status = "completed"
	}
	if !m.oneIn(4) {
		t.Next = m.now() + draw(m, "next", int64(0), 500, 3000, 10_000)
	}
	return t
}

// holds are the model's in the store's words.
var holds = map[model.Hold]store.Hold{"": store.HoldNone, model.Stalled: store.HoldAll, model.Early: store.HoldEarly}

// hold draws that the owner holds back what is unread.
func (m *machine) hold() model.Hold {
	if !m.oneIn(8) {
		return ""
	}
	return draw(m, "hold", model.Stalled, model.Early)
}

// lease draws an activity; its effect is one of two.
func (m *machine) lease() model.Create {
	n := draw(m, "activity", uint64(1), 2, 3)
	return model.Create{Activity: n, Effect: fmt.Sprintf("effect%d%s", n, draw(m, "timeline", "x", "x", "x", "y"))}
}

func (m *machine) commit() {
	token, t := m.token(), m.turn()
	from := m.model.Get(t.Instance).Status
	m.send(func() {
		if s := m.model.Get(t.Instance); s.Head == t.Expect && s.Status != from {
			return // a rollback made the head old again under another status: no owner sends this
		}
		m.both(fmt.Sprintf("commit by %s: %+v", token, t), func() (string, int64) {
			return m.doCommit(token, from, t)
		}, func(s *model.Store, now int64) string {
			c := s.Commit(now, token, t)
			if c.Answer != model.OK {
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

func (m *machine) doCommit(token, from string, t model.Turn) (string, int64) {
	c := &store.Commit{
		Instance: t.Instance, Execution: 1, Head: t.Expect, NewHead: t.Head, Pop: t.Pop, From: store.Status(from),
		Create: leasesOf(t.Create), Look: t.Next, Want: store.UnreadBatch,
	}
	if t.Head != "" {
		c.Record = &store.Record{Name: "n", Execution: 1, Status: store.Status(t.Status)}
	}
	for _, e := range t.Events {
		c.Events = append(c.Events, []byte(e))
	}
	for _, a := range t.Delete {
		c.Delete = append(c.Delete, store.Lease{Activity: a})
	}
	out, err := await(func(done func(store.Committed, error)) { m.store.Commit(m.tenure(token), c, done) })
	if err != nil {
		return m.refused(err), 0
	}
	ids := []string{}
	for _, raw := range out.Unread {
		e, err := history.ParseElement(raw)
		m.must(err)
		ids = append(ids, e.ID)
	}
	holders := out.Holders
	if holders == nil {
		holders = map[uint64]string{}
	}
	return fmt.Sprint("OK ", ids, holders), out.Now
}

func (m *machine) look() {
	token, id := m.token(), m.instance()
	g := model.Glance{Instance: id, Head: m.model.Get(id).Head, Hold: m.hold()}
	if m.oneIn(8) {
		g.Head = "h1"
	}
	if !m.oneIn(3) {
		g.Next = m.now() + draw(m, "next", int64(0), 500, 3000, 10_000)
	}
	for range draw(m, "outstanding", 0, 1, 2) {
		if l := m.lease(); len(g.Leases) == 0 || g.Leases[0].Activity != l.Activity {
			g.Leases = append(g.Leases, l)
		}
	}
	m.send(func() {
		m.both(fmt.Sprintf("look by %s: %+v", token, g), func() (string, int64) {
			l := &store.Look{Instance: id, Execution: 1, Head: g.Head, Leases: leasesOf(g.Leases), Most: claims, Next: g.Next, Hold: holds[g.Hold]}
			out, err := await(func(done func(store.Looked, error)) { m.store.Look(m.tenure(token), l, done) })
			if err != nil {
				return m.refused(err), 0
			}
			states := []string{}
			for _, s := range out.Leases {
				states = append(states, string(s.Found))
			}
			return fmt.Sprint("OK ", out.Unread, states), out.Now
		}, func(s *model.Store, now int64) string {
			a, unread, states := s.Look(now, token, g)
			if a != model.OK {
				return string(a)
			}
			return fmt.Sprint("OK ", unread, states)
		})
	})
}
