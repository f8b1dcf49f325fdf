package replay

import (
	"cmp"
	"slices"

	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// mailbox holds the events of one name. It has letters or places, never both: a
// letter goes to the place that has waited longest, and stays only if there is none.
type mailbox struct {
	letters []letter // in order of arrival
	places  list[*place]
}

type letter struct {
	id      uint64 // of its EventReceived
	payload history.Payload
}

// place is a wait for one event of a name.
//
//	waiting ──letter──▶ handed ──Value──▶ used up
//	   │                  └──withdrawn: the letter goes to the next place, or back to the front
//	   └──withdrawn: the place is given up
type place struct {
	Future
	self   node[*place]
	box    *mailbox
	member node[*place] // in its scope, until it is used up
	seq    uint64       // order in which the places were taken
	letter letter
}

func (x *Execution) mailbox(name string) *mailbox {
	if x.mail == nil {
		x.mail = make(map[string]*mailbox)
	}
	box := x.mail[name]
	if box == nil {
		box = &mailbox{}
		x.mail[name] = box
	}
	return box
}

// Next gives a future for the next event of the name that nobody else has: one that
// has arrived already, or one to come.
func (x *Execution) Next(name string, in *Scope) *Future {
	if _, err := x.enter(); err != nil {
		return x.refused(err)
	}
	if over := x.over(in); over != nil {
		return x.refused(over)
	}
	x.places++
	box := x.mailbox(name)
	p := &place{Future: Future{x: x}, box: box, seq: x.places}
	p.self.value, p.member.value, p.source = p, p, p
	x.in(in).places.push(&p.member)
	if len(box.letters) > 0 {
		p.hand(box.shift())
	} else {
		box.places.push(&p.self)
	}
	return &p.Future
}

// TryNext takes the next event of the name if it has arrived; ok is false if not.
func (x *Execution) TryNext(name string, in *Scope) (payload history.Payload, ok bool, err error) {
	if _, err := x.enter(); err != nil {
		return history.Payload{}, false, err
	}
	if over := x.over(in); over != nil {
		return history.Payload{}, false, over
	}
	box := x.mail[name]
	if box == nil || len(box.letters) == 0 {
		return history.Payload{}, false, nil
	}
	return box.shift().payload, true, nil
}

func (b *mailbox) shift() letter {
	first := b.letters[0]
	b.letters[0] = letter{}
	b.letters = b.letters[1:]
	return first
}

// post gives a letter to the place that has waited longest, or keeps it where it
// stands in the order of arrival: a letter that was handed back is older than those
// that stayed.
func (b *mailbox) post(l letter) {
	if first := b.places.head; first != nil {
		first.value.hand(l)
		return
	}
	at, _ := slices.BinarySearchFunc(b.letters, l.id, func(l letter, id uint64) int { return cmp.Compare(l.id, id) })
	b.letters = slices.Insert(b.letters, at, l)
}

func (p *place) hand(l letter) {
	p.self.unlink()
	p.letter = l
	p.settle(l.payload, nil)
}

// used takes the place out of its scope: nothing of it is left to give back.
func (p *place) used() { p.member.unlink() }

func (p *place) withdraw(cancel.Cancelled) bool {
	p.member.unlink()
	switch {
	case !p.settled:
		p.self.unlink()
		return true
	case p.taken || p.letter.id == 0:
		return false
	}
	back := p.letter
	p.letter = letter{}
	p.box.post(back)
	return true
}
