package history

import (
	"fmt"
)

// A gate takes gateFields places of the event that it belongs to; the declaration is a byte string of its own, for gates keep it, too.
const gateFields = 7

func (w *writer) gate(g *Limit) {
	if g == nil {
		return
	}
	w.str(g.Name)
	w.str(g.Ticket)
	w.bool(g.Waiting)
	w.bool(g.Retain)
	w.str(g.HeldByAncestor)
	w.int(g.WaitingSince)
	w.keep(w.enc.EncodeBytes(g.Declared.Encode()))
}

func (r *reader) gate() *Limit {
	if r.left == 0 {
		return nil
	}
	g := &Limit{Name: r.str(), Ticket: r.str(), Waiting: r.bool(), Retain: r.bool(), HeldByAncestor: r.str(), WaitingSince: r.int()}
	var err error
	g.Declared, err = DecodeDeclared(r.bytes())
	r.keep(err)
	if *g == (Limit{}) {
		return nil // a place holder
	}
	return g
}

// bytes reads a byte string.
func (r *reader) bytes() (b []byte) {
	if r.more() {
		var err error
		b, err = r.dec.DecodeBytes()
		r.keep(err)
	}
	return b
}

// Encode gives the bytes of a declaration; none if it says nothing.
func (d Declared) Encode() []byte {
	if d == (Declared{}) {
		return nil
	}
	w := newWriter()
	defer w.free()
	w.array(1 + 2*policyFields + 2)
	w.str(d.Group)
	w.policy(d.Action)
	w.policy(d.GroupPolicy)
	return append([]byte(nil), w.buf.Bytes()...)
}

// DecodeDeclared reads what Encode wrote. The error matches ErrCorrupt.
func DecodeDeclared(b []byte) (Declared, error) {
	if len(b) == 0 {
		return Declared{}, nil
	}
	r, err := newReader(b)
	if err != nil {
		return Declared{}, fmt.Errorf("declared limits: %w: %w", ErrCorrupt, err)
	}
	defer r.free()
	d := Declared{Group: r.str(), Action: r.policy(), GroupPolicy: r.policy()}
	r.rest()
	if r.err != nil {
		return Declared{}, fmt.Errorf("declared limits: %w: %w", ErrCorrupt, r.err)
	}
	return d, nil
}

// policyFields is how many places a policy takes, besides the one that says whether there is one.
const policyFields = 9

func (w *writer) policy(p *Policy) {
	w.bool(p != nil)
	if p == nil {
		p = &Policy{}
	}
	w.uint(uint64(p.Concurrency))
	w.uint(uint64(p.Rate))
	w.int(p.RateWindow)
	w.uint(p.Quota)
	w.int(p.QuotaWindow)
	w.str(p.Key)
	w.uint(uint64(p.QueueLimit))
	w.int(p.QueueTimeout)
	w.bool(p.Reject)
}

func (r *reader) policy() *Policy {
	is := r.bool()
	p := &Policy{
		Concurrency: r.uint32(), Rate: r.uint32(), RateWindow: r.int(), Quota: r.uint(), QuotaWindow: r.int(),
		Key: r.str(), QueueLimit: r.uint32(), QueueTimeout: r.int(), Reject: r.bool(),
	}
	if !is {
		return nil
	}
	return p
}
