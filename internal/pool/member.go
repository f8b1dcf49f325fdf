package pool

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/transport"
)

// Member receives the requests of owners that lack code which this process has.
type Member struct {
	conn *transport.Conn
	at   string
	subs []*transport.Subscription // in the order of their creation
}

// builtinPrefix begins the names of the orchestrations that all processes have.
const builtinPrefix = "pawl."

// NewMember returns a member with a unique name. It can send answers, but receives no requests before Join.
func NewMember(conn *transport.Conn, name string) *Member {
	return &Member{conn: conn, at: transport.AddressOf(name)}
}

// Join subscribes to the requests of other members. fn is called for each request, and must not block. If it returns an error, the request
// is counted as malformed.
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
		if strings.HasPrefix(name, builtinPrefix) {
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

func (m *Member) add(sub *transport.Subscription) {
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

// Progress restarts the timeout of a caller.
func (m *Member) Progress(to string) error { return m.conn.AnswerMember(to, progress) }

// Answer answers a request. If the answer is lost, the caller repeats its request.
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

// Leave unsubscribes: first from searches for code, then from requests. Requests that have arrived are still handled.
func (m *Member) Leave() {
	for _, sub := range slices.Backward(m.subs) {
		sub.Stop()
	}
}
