package pool

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/wire"
)

const (
	// MaxMessage bounds a message: the size of one commit, and room for its envelope.
	MaxMessage = 32 << 20

	partBytes   = 256 << 10
	maxParts    = MaxMessage / partBytes
	maxPartial  = 2 * MaxMessage // bytes of all incomplete messages together
	maxPartials = 1024           // incomplete messages
	partialTime = 30 * time.Second
)

var (
	// ErrTooLarge is returned for a message of more than MaxMessage bytes; it is not sent.
	ErrTooLarge = fmt.Errorf("a message of more than %d bytes", MaxMessage)

	errOrder = errors.New("a part of a message is out of order")
	errFull  = fmt.Errorf("incomplete messages exceed %d bytes", maxPartial)
)

// part is a part of a message. The parts of a message arrive in order, but some may be lost.
type part struct {
	at, of int // index from 0, and number of parts
	data   []byte
}

func (p *part) fields(c *wire.Codec) {
	c.Count(&p.at)
	c.Count(&p.of)
	c.Bytes(&p.data)
}

// progress is a part that belongs to no message. It reports that the member is still handling the request.
var progress = wire.Encode((&part{}).fields)

// split cuts a message into parts.
func split(b []byte) ([][]byte, error) {
	if len(b) > MaxMessage {
		return nil, ErrTooLarge
	}
	p := part{of: max(1, (len(b)+partBytes-1)/partBytes)}
	out := make([][]byte, 0, p.of)
	for ; p.at < p.of; p.at++ {
		p.data = b[:min(len(b), partBytes)]
		b = b[len(p.data):]
		out = append(out, wire.Encode(p.fields))
	}
	return out, nil
}

// assembly joins the parts of messages, by the subject that the parts of a message share. Only one goroutine uses it.
type assembly struct {
	all   map[string]*partial
	bytes int
}

type partial struct {
	next, of int
	data     []byte
	began    time.Time
}

// add adds a part, and returns the message if this was its last one.
func (a *assembly) add(of string, b []byte, now time.Time) ([]byte, error) {
	var p part
	if err := wire.Decode(b, p.fields); err != nil {
		return nil, err
	}
	if p.of == 0 || p.of > maxParts || len(p.data) > partBytes {
		a.drop(of)
		return nil, ErrTooLarge
	}
	m := a.all[of]
	switch {
	case p.at == 0 && p.of == 1:
		a.drop(of)
		return p.data, nil
	case p.at == 0:
		a.drop(of)
		a.forget(now)
		if len(a.all) >= maxPartials {
			return nil, errFull
		}
		m = &partial{of: p.of, began: now}
		if a.all == nil {
			a.all = make(map[string]*partial)
		}
		a.all[of] = m
	case m == nil || p.at != m.next || p.of != m.of:
		a.drop(of)
		return nil, errOrder
	}
	if a.bytes+len(p.data) > maxPartial { // drop this message, not those that may be nearly complete
		a.drop(of)
		return nil, errFull
	}
	m.data = append(m.data, p.data...)
	a.bytes += len(p.data)
	if m.next++; m.next < m.of {
		return nil, nil
	}
	a.drop(of)
	return m.data, nil
}

func (a *assembly) drop(of string) {
	if m := a.all[of]; m != nil {
		a.bytes -= len(m.data)
		delete(a.all, of)
	}
}

// forget drops messages that are incomplete for longer than partialTime.
func (a *assembly) forget(now time.Time) {
	for of, m := range a.all {
		if now.Sub(m.began) > partialTime {
			a.drop(of)
		}
	}
}
