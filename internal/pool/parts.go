package pool

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/wire"
)

const (
	// MaxMessage bounds a message: what one commit takes, and room for its envelope.
	MaxMessage = 32 << 20

	partBytes   = 256 << 10
	maxParts    = MaxMessage / partBytes
	maxPartial  = 2 * MaxMessage // bytes of all messages of which parts are missing
	maxPartials = 1024           // such messages
	partialTime = 30 * time.Second
)

var (
	// ErrTooLarge is the error of a message that is not sent.
	ErrTooLarge = fmt.Errorf("a message of more than %d bytes", MaxMessage)

	errOrder = errors.New("a part that does not follow the one before")
	errFull  = fmt.Errorf("messages of %d bytes have not arrived whole", maxPartial)
)

// part is a piece of a message. Parts of one message arrive in order, or not at all.
type part struct {
	at, of int // from 0
	data   []byte
}

func (p *part) fields(c *wire.Codec) {
	c.Count(&p.at)
	c.Count(&p.of)
	c.Bytes(&p.data)
}

// progress is a part of no message: the member is still busy with the request.
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

// assembly puts messages together, by the subject that their parts have in common. It is used by one goroutine.
type assembly struct {
	all   map[string]*partial
	bytes int
}

type partial struct {
	next, of int
	data     []byte
	began    time.Time
}

// add takes a part, and returns the message if that was the last one.
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
	if a.bytes+len(p.data) > maxPartial { // the latest makes room: what is nearly whole does not
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

// forget drops what has been incomplete for long.
func (a *assembly) forget(now time.Time) {
	for of, m := range a.all {
		if now.Sub(m.began) > partialTime {
			a.drop(of)
		}
	}
}
