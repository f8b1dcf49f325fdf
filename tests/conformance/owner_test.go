package conformance

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/memstore"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/pkg/history"
)

// refused returns the text of a rejection, and fails on any other error.
func (m *machine) refused(err error) string {
	switch {
	case errors.Is(err, record.ErrFenced):
		return string(memstore.Fenced)
	case errors.Is(err, record.ErrRolledBack):
		return string(memstore.RolledBack)
	case errors.Is(err, record.ErrConflict):
		return string(memstore.Conflict)
	}
	m.rt.Fatal(err)
	return ""
}

func (m *machine) tenure(token string) store.Tenure {
	return store.Tenure{Part: partition, Token: token, Secret: secret}
}

// secret is the secret of the partition: elements that owners write to an inbox end with its seal, which the model does not have.
const secret = "secret"

// sealed returns the id of an element as the owner writes it; workers cannot seal their elements.
func sealed(id string) string {
	if strings.HasPrefix(id, "a") {
		return id
	}
	return id + store.Tenure{Secret: secret}.Seal()
}

func allSealed(ids []string) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = sealed(id)
	}
	return out
}

// unsealed returns the id as in the model.
func unsealed(id string) string { return strings.TrimSuffix(id, store.Tenure{Secret: secret}.Seal()) }

func (m *machine) ingest() {
	token, from := m.token(), m.position()
	batch := make([]memstore.Message, draw(m, "messages", 0, 1, 2, 5))
	for i := range batch {
		kind := draw(m, "kind", "start", "plain", "event", "cancel")
		plain := kind == "plain"
		if plain {
			kind = "start"
		}
		id := m.fresh("i")
		if kind == "start" {
			id = "!" + id
		}
		batch[i] = memstore.Message{Instance: m.instance(), ID: draw(m, "message id", "", "m1", "m2", "m3", m.fresh("m")), Kind: kind, Element: id, Sent: 1_790_000_000_000, Plain: plain}
	}
	to := position(from.Seq + uint64(len(batch)))
	bound := record.InboxBound
	if oneIn(m, 4) {
		bound = draw(m, "bound of an inbox", 1, 3)
	}
	m.send(func() {
		m.both(fmt.Sprintf("ingest by %s from %d to %d: %v", token, from.Seq, to.Seq, batch), func() (string, int64) {
			if bound < record.InboxBound {
				return m.ingestBound(token, from, to, batch, bound)
			}
			return m.doIngest(token, from, to, batch)
		}, func(s *memstore.Store, now int64) string {
			s.Rules.Inbox = bound
			defer func() { s.Rules.Inbox = record.InboxBound }()
			a, fates := s.Ingest(now, token, from, to, batch)
			return strings.TrimSpace(string(a) + " " + strings.Join(fates, " "))
		})
	})
}

func (m *machine) doIngest(token string, from, to memstore.Position, batch []memstore.Message) (string, int64) {
	msgs := make([]record.Message, len(batch))
	for i, b := range batch {
		msgs[i] = record.Message{
			Instance: b.Instance, ID: b.ID, Kind: messageKindOf(&b),
			Element: eventcodec.Element{ID: sealed(b.Element), At: b.Sent, Body: []byte(b.ID)}.Encode(),
		}
	}
	type answer struct {
		now   int64
		fates []record.Ingested
	}
	a, err := redistest.Answer(func(done func(answer, error)) {
		m.store.Ingest(m.tenure(token), history.Position(from), history.Position(to), msgs, func(now int64, fates []record.Ingested, err error) {
			done(answer{now, fates}, err)
		})
	})
	if err != nil {
		return m.refused(err), 0
	}
	if a.fates == nil {
		return string(memstore.Done), a.now
	}
	out := "OK"
	for _, f := range a.fates {
		switch {
		case f.Repeat:
			out += " " + memstore.Repeat
		case f.Full:
			out += " " + memstore.Full
		case f.Unknown:
			out += " " + memstore.Unknown
		case f.Exists:
			out += fmt.Sprint(" e", f.Unread)
		default:
			out += fmt.Sprint(" n", f.Unread)
		}
	}
	return out, a.now
}

func messageKindOf(m *memstore.Message) record.MessageKind {
	switch {
	case m.Plain:
		return record.PlainStart
	case m.Kind == "start":
		return record.StartMessage
	case m.Kind == "cancel":
		return record.CancelMessage
	default:
		return record.OtherMessage
	}
}

// ingestBound runs the script with a bound that a test can reach.
func (m *machine) ingestBound(token string, from, to memstore.Position, batch []memstore.Message, bound int) (string, int64) {
	keys := []string{m.part.Owner(), m.part.Wakeups(), m.part.Early()}
	args := []any{token, from.Seq, from.Time, to.Seq, to.Time, bound, 10_000, rules().Seen, record.InboxBytes, record.EarlyBytes, record.EarlyTotalBytes, m.tenure(token).Seal()}
	for _, b := range batch {
		keys = append(keys, m.part.Instance(b.Instance), m.part.Inbox(b.Instance), m.part.Seen(b.Instance))
		args = append(args, b.Instance, b.ID, string(messageKindOf(&b)), eventcodec.Element{ID: sealed(b.Element), At: b.Sent, Body: []byte(b.ID)}.Encode())
	}
	v, err := m.run.Do(m.ctx, redisx.Call{Script: m.lua["ingest"], Keys: keys, Args: args})
	m.must(err)
	r := redisx.NewReply(v)
	if a := r.Str(0); a != string(memstore.OK) {
		now := int64(0)
		if a == string(memstore.Done) {
			now = r.Int(1)
		}
		return a, now
	}
	return strings.Join(append([]string{"OK"}, r.Strs(2)...), " "), r.Int(1)
}

func (m *machine) due() {
	token, limit := m.token(), draw(m, "limit", 1, 2, 10)
	m.both("due", func() (string, int64) {
		d, err := redistest.Answer(func(done func(record.DueSet, error)) { m.store.Due(m.tenure(token), limit, done) })
		if err != nil {
			return m.refused(err), 0
		}
		return fmt.Sprint("OK ", d.Instances, d.Next, d.Limits, d.NextLimit), d.Now
	}, func(s *memstore.Store, now int64) string {
		a, due, limits := s.Due(now, token, limit)
		if a != memstore.OK {
			return string(a)
		}
		return fmt.Sprint("OK ", due.IDs, due.Next, limits.IDs, limits.Next)
	})
}

// list registers a limit, as its first caller does.
func (m *machine) list() {
	name := draw(m, "limit", "charge-card", "charge-card/acme")
	m.both("list "+name, func() (string, int64) {
		_, err := m.run.Do(m.ctx, redisx.Call{Script: m.lua["schedule"], Keys: []string{m.part.Limits()}, Args: []any{name}})
		m.must(err)
		return "", 0
	}, func(s *memstore.Store, now int64) string {
		s.List(now, name)
		return ""
	})
}

// reschedule ends a sweep of a limit by setting the time of the next one.
func (m *machine) reschedule() {
	name, in := draw(m, "limit", "charge-card", "charge-card/acme"), int64(0)
	if !oneIn(m, 3) {
		in = draw(m, "next", int64(500), 2000)
	}
	m.both(fmt.Sprintf("reschedule %s in %d", name, in), func() (string, int64) {
		_, err := redistest.Answer(func(done func(any, error)) {
			replied := func(err error) { done(nil, err) }
			if in == 0 {
				m.limits.Unschedule(name, replied)
				return
			}
			m.limits.Reschedule(name, time.Duration(in)*time.Millisecond, replied)
		})
		m.must(err)
		return "", 0
	}, func(s *memstore.Store, now int64) string {
		s.Reschedule(now, name, in)
		return ""
	})
}

// deferrals maps the deferrals of the model to those of the store.
var deferrals = map[memstore.Deferral]record.Deferral{"": record.DeferNone, memstore.DeferAll: record.DeferAll, memstore.DeferEarly: record.DeferEarly}

// deferral draws how the owner defers the inbox.
func (m *machine) deferral() memstore.Deferral {
	if !oneIn(m, 8) {
		return ""
	}
	return draw(m, "deferral", memstore.DeferAll, memstore.DeferEarly)
}

// lease draws an activity; its effect id is one of two.
func (m *machine) lease() memstore.Create {
	n := draw(m, "activity", uint64(1), 2, 3)
	return memstore.Create{Activity: n, Effect: fmt.Sprintf("effect%d%s", n, draw(m, "timeline", "x", "x", "x", "y"))}
}

func (m *machine) reconcile() { m.reconcileDeferring(m.deferral) }

func (m *machine) reconcileDeferring(deferral func() memstore.Deferral) {
	token, id := m.token(), m.instance()
	in := m.model.Get(id)
	g := memstore.Reconciliation{Instance: id, Execution: max(in.Execution, 1), Head: in.Head, Deferral: deferral(), Seen: max(0, len(in.Inbox)-1)}
	inbox := deferrals[g.Deferral]
	if g.Deferral == memstore.DeferSeen {
		inbox = record.DeferSeen(g.Seen)
	}
	if oneIn(m, 2) {
		g.Sent = memstore.Place{Execution: g.Execution, Event: in.Out.Event}
	}
	if oneIn(m, 8) {
		g.Head = "h1"
	}
	if !oneIn(m, 3) {
		g.Next = m.now() + draw(m, "next", int64(0), 500, 3000, 10_000)
	}
	for range draw(m, "outstanding", 0, 1, 2) {
		if l := m.lease(); len(g.Leases) == 0 || g.Leases[0].Activity != l.Activity {
			g.Leases = append(g.Leases, l)
		}
	}
	m.send(func() {
		m.both(fmt.Sprintf("reconciliation by %s: %+v", token, g), func() (string, int64) {
			l := &record.Reconciliation{Instance: id, Execution: g.Execution, Head: g.Head, Published: markOf(g.Sent), Leases: leasesOf(g.Leases), MaxClaims: claims, Wakeup: g.Next, Deferral: inbox}
			out, err := redistest.Answer(func(done func(record.Reconciled, error)) { m.store.Reconcile(m.tenure(token), l, done) })
			if err != nil {
				return m.refused(err), 0
			}
			states := []string{}
			for _, s := range out.Leases {
				state := string(s.Status)
				if s.Status == record.LeaseUnclaimed {
					state += fmt.Sprint(" ", s.ReturnedAt)
				}
				states = append(states, state)
			}
			return fmt.Sprint("OK ", out.Unread, states), out.Now
		}, func(s *memstore.Store, now int64) string {
			a, unread, states := s.Reconcile(now, token, g)
			if a != memstore.OK {
				return string(a)
			}
			for i, state := range states {
				if at := (memstore.Place{Execution: g.Execution, Event: g.Leases[i].Activity}); state == memstore.Waits {
					states[i] += fmt.Sprint(" ", s.Get(id).Leases[at].ReturnedAt)
				}
			}
			if states == nil {
				states = []string{}
			}
			return fmt.Sprint("OK ", unread, states)
		})
	})
}
