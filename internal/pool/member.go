package pool

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/pkg/queue"
)

// Member receives the requests of the owners that lack code of this process.
type Member struct {
	conn *queue.Conn
	at   string
	subs []*queue.Subscription // in the order in which they began
}

// own begins the names of the orchestrations that every process has.
const own = "pawl."

// NewMember returns a member with a name that no other one has; it does not listen yet. It can answer.
func NewMember(conn *queue.Conn, name string) *Member {
	return &Member{conn: conn, at: queue.AddressOf(name)}
}

// Join listens for what other members ask of this one; fn is called as soon as one asks, and must not block. An error of it is why the
// request is counted as malformed.
func (m *Member) Join(programs *author.Registry, fn func(reply string, r Request) error) error {
	var parts assembly
	sub, err := m.conn.ServeTurns(m.at, func(reply string, b []byte) error {
		whole, err := parts.add(reply, b, time.Now())
		if err != nil || whole == nil {
			return err
		}
		r, err := DecodeRequest(whole)
		if err != nil {
			return err
		}
		return fn(reply, r)
	})
	m.add(sub)
	for _, name := range programs.Orchestrations() {
		if strings.HasPrefix(name, own) {
			continue
		}
		versions := programs.Versions(name)
		err = errors.Join(err, m.serve(programs, name, versions[0], true))
		for _, v := range versions {
			err = errors.Join(err, m.serve(programs, name, v, false))
		}
	}
	if err != nil {
		m.Leave()
	}
	return err
}

func (m *Member) add(sub *queue.Subscription) {
	if sub != nil {
		m.subs = append(m.subs, sub)
	}
}

func (m *Member) serve(programs *author.Registry, name, version string, newest bool) error {
	o, _ := programs.Recorded(name, version)
	found := Found{At: m.at, Version: version, Declared: o.Declared}.Encode()
	parts, err := split(found)
	if err != nil {
		return err
	}
	sub, err := m.conn.ServeCode(name, version, newest, func() []byte { return parts[0] })
	m.add(sub)
	return err
}

// Progress has the one that asks wait on.
func (m *Member) Progress(to string) error { return m.conn.AnswerMember(to, progress) }

// Answer answers a request. What is lost is asked again.
func (m *Member) Answer(to string, a *Answer) error {
	b, err := split(a.Encode())
	if err != nil {
		b, err = split((&Answer{Missing: "the answer is " + err.Error()}).Encode())
	}
	for _, p := range b {
		if err = m.conn.AnswerMember(to, p); err != nil {
			break
		}
	}
	return err
}

// Leave stops listening: for those that look for code first, then for requests, behind those that have arrived.
func (m *Member) Leave() {
	for _, sub := range slices.Backward(m.subs) {
		sub.Stop()
	}
}
