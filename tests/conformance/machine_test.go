package conformance

import (
	"fmt"
	"strconv"

	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/internal/memstore"
)

// machine draws the calls.
type machine struct {
	*harness
	n       int // counter for unused names
	former  []string
	claims  []memstore.Claim // claims that succeeded or were attempted
	sent    []func()         // calls of the owner, duplicates of which may arrive later
	redis   content          // a copy of the store, for a rollback
	savedAs *memstore.Store
}

func (m *machine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"acquire": func(*rapid.T) { m.acquire() }, "renew ownership": func(*rapid.T) { m.renewOwnership() },
		"release": func(*rapid.T) { m.release() }, "ingest": func(*rapid.T) { m.ingest() }, "ingest more": func(*rapid.T) { m.ingest() },
		"due": func(*rapid.T) { m.due() }, "commit": func(*rapid.T) { m.commit() }, "commit more": func(*rapid.T) { m.commit() },
		"owner reconciles": func(*rapid.T) { m.reconcile() }, "claim": func(*rapid.T) { m.claim() }, "claim more": func(*rapid.T) { m.claim() },
		"renew": func(*rapid.T) { m.renew() }, "ack": func(*rapid.T) { m.ack() }, "abandon": func(*rapid.T) { m.abandon() },
		"purge": func(*rapid.T) { m.purge() }, "report": func(*rapid.T) { m.report() },
		"rewind": func(*rapid.T) { m.rewind() }, "owner reconciles a paused instance": func(*rapid.T) { m.reconcileDeferring(func() memstore.Deferral { return memstore.DeferSeen }) },
		"list": func(*rapid.T) { m.list() }, "remove or set a wakeup": func(*rapid.T) { m.reschedule() },
		"again": func(*rapid.T) { m.again() }, "time passes": func(*rapid.T) { m.pass() },
		"save": func(*rapid.T) { m.redis, m.savedAs = m.read(), m.model.Clone() }, "rollback": func(*rapid.T) { m.rollback() },
	}
}

func (m *machine) fresh(prefix string) string {
	m.n++
	return prefix + strconv.Itoa(m.n)
}

// oneIn returns true once in n draws.
func oneIn(m *machine, n int) bool { return rapid.IntRange(1, n).Draw(m.rt, "one in") == n }

func draw[T any](m *machine, what string, from ...T) T {
	return rapid.SampledFrom(from).Draw(m.rt, what)
}

func instances() []string { return []string{"a", "b:2", "c~%41"} }

func (m *machine) instance() string { return draw(m, "instance", instances()...) }

// token draws a token, mostly the owner's.
func (m *machine) token() string {
	if len(m.former) == 0 || m.model.Owner.Token != "" && !oneIn(m, 8) {
		return m.model.Owner.Token
	}
	return draw(m, "token", m.former...)
}

// send makes a call of the owner, and keeps it, because a duplicate of it may arrive later.
func (m *machine) send(call func()) {
	m.sent = append(m.sent, call)
	call()
	if oneIn(m, 6) {
		m.rt.Log("the reply is lost")
		call()
	}
}

func (m *machine) again() {
	if len(m.sent) == 0 {
		return
	}
	m.rt.Log("an earlier request arrives again")
	draw(m, "which", m.sent...)()
}

func (m *machine) pass() {
	const hour = 3_600_000
	d := draw(m, "time", int64(100), 1999, 2000, 2001, 4000, 6000, 9999, 11_000, hour+1, -hour)
	m.shift(d)
	m.model.Shift(d)
}

func (m *machine) rollback() {
	if m.redis == nil {
		return
	}
	m.rt.Log("ROLLBACK")
	m.restore(m.redis)
	m.model = m.savedAs.Clone()
}

func (m *machine) acquire() {
	token := m.fresh("o")
	if oneIn(m, 5) {
		token = m.token()
	}
	if token == "" {
		return
	}
	m.former = append(m.former, token)
	m.both("acquire "+token, func() (string, int64) {
		a := m.ownership("acquire", token, "member", ownerTTL, secret, 4, "", 0)
		if a.Str(0) != "OK" {
			return a.Str(0), 0
		}
		return fmt.Sprint("OK ", a.Int(1), " ", a.Int(2), " ", a.Str(3) == "1", " ", a.Int(4), " ", a.Int(5)), 0
	}, func(s *memstore.Store, now int64) string {
		a, at, clean := s.Acquire(now, token)
		if a != memstore.OK {
			return string(a)
		}
		return fmt.Sprint("OK ", at.Seq, " ", at.Time, " ", clean, " ", s.Owner.Epoch, " ", s.Owner.Commits)
	})
}

func (m *machine) renewOwnership() {
	token, acked := m.token(), m.position()
	commits := max(0, m.model.Owner.Commits+draw(m, "commits acknowledged", int64(0), 0, -1, 1))
	m.both("renew "+token, func() (string, int64) {
		return m.ownership("renew", token, ownerTTL, acked.Seq, acked.Time, commits).Str(0), 0
	}, func(s *memstore.Store, now int64) string { return string(s.Renew(now, token, acked, commits)) })
}

func (m *machine) release() {
	if !oneIn(m, 3) {
		return
	}
	token, clean := m.token(), oneIn(m, 2)
	if token == "" {
		return
	}
	m.both("release "+token, func() (string, int64) {
		return m.ownership("release", token, map[bool]int{true: 1}[clean]).Str(0), 0
	}, func(s *memstore.Store, _ int64) string { return string(s.Release(token, clean)) })
}

// position draws a position, mostly the applied one.
func (m *machine) position() memstore.Position {
	p := m.model.Owner.Applied
	switch {
	case oneIn(m, 10):
		return position(p.Seq + 1)
	case oneIn(m, 10) && p.Seq > 0:
		return position(p.Seq - 1)
	}
	return p
}

// position returns a position with a time in nanoseconds, which exceeds the exact integers of Lua.
func position(seq uint64) memstore.Position {
	if seq == 0 {
		return memstore.Position{}
	}
	return memstore.Position{Seq: seq, Time: 1_790_000_000_123_456_700 + int64(seq)}
}
