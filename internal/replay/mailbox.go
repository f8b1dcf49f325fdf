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
	letters []*history.EventReceived // in order of arrival
	places  list[*place]             // that wait
	handed  list[*place]             // that have a letter which nobody has read
}

// place is a wait for one event of a name.
//
//	waiting ──letter──▶ handed ──Value──▶ used up
//	   │                  └──withdrawn: the letter goes to the next place, or back to the front
//	   └──withdrawn: the place is given up
type place struct {
	Future
	self   node[*place] // in its mailbox, until it is used up
	box    *mailbox
	member node[*place] // in its scope, until it is used up
	seq    uint64       // order in which the places were taken
	letter *history.EventReceived
}

func (x *mailboxes) mailbox(name string) *mailbox {
	if x.boxes == nil {
		x.boxes = make(map[string]*mailbox)
	}
	box := x.boxes[name]
	if box == nil {
		box = &mailbox{}
		x.boxes[name] = box
	}
	return box
}

// Next returns a future for the next event of the name that nobody else has: one that
// has arrived already, or one to come.
func (x *Code) Next(name string, in *Scope) *Future {
	if _, err := x.enter(); err != nil {
		return x.Refuse(err)
	}
	if over := x.over(in); over != nil {
		return x.Refuse(over)
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

// TryNext takes the next event of the name if it has arrived; ok is false if not. If none is at hand it polls.
// It takes no place: an event that arrives meanwhile goes to a place that waits, if there is one.
func (x *Code) TryNext(name string, in *Scope) (payload history.Payload, ok bool, err error) {
	if _, err := x.enter(); err != nil {
		return history.Payload{}, false, err
	}
	if over := x.over(in); over != nil {
		return history.Payload{}, false, over
	}
	if p, ok := x.takeLetter(name); ok {
		return p, true, nil
	}
	if err := x.Poll(in); err != nil {
		return history.Payload{}, false, err
	}
	payload, ok = x.takeLetter(name)
	return payload, ok, nil
}

// takeLetter takes the first letter of the name, if there is one.
func (x *mailboxes) takeLetter(name string) (payload history.Payload, ok bool) {
	box := x.boxes[name]
	if box == nil || len(box.letters) == 0 {
		return history.Payload{}, false
	}
	return box.shift().Payload, true
}

func (b *mailbox) shift() *history.EventReceived {
	first := b.letters[0]
	b.letters[0] = nil
	b.letters = b.letters[1:]
	return first
}

// post returns a letter to the place that has waited longest, or keeps it where it
// stands in the order of arrival: a letter that was handed back is older than those
// that stayed.
func (b *mailbox) post(l *history.EventReceived) {
	if first := b.places.head; first != nil {
		first.value.hand(l)
		return
	}
	at, _ := slices.BinarySearchFunc(b.letters, l.ID, func(l *history.EventReceived, id uint64) int { return cmp.Compare(l.ID, id) })
	b.letters = slices.Insert(b.letters, at, l)
}

func (p *place) hand(l *history.EventReceived) {
	p.self.unlink()
	p.box.handed.push(&p.self)
	p.letter = l
	p.settle(l.Payload, nil)
}

// used takes the place out of its scope and its mailbox: nothing of it is left to give back.
func (p *place) used() {
	p.member.unlink()
	p.self.unlink()
}

func (p *place) withdraw(cancel.Cancelled) bool {
	p.used()
	switch {
	case !p.settled:
		return true
	case p.taken || p.letter == nil:
		return false
	}
	back := p.letter
	p.letter = nil
	p.box.post(back)
	return true
}

// Awaited returns the names of the events that the code waits for, sorted.
func (x *mailboxes) Awaited() []string {
	var names []string
	for name, box := range x.boxes {
		if box.places.head != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// unreadEvents returns the events that have been received and that no code has read, in
// the order of their arrival.
func (x *mailboxes) unreadEvents() []*history.EventReceived {
	var all []*history.EventReceived
	for _, box := range x.boxes {
		all = append(all, box.letters...)
		for n := box.handed.head; n != nil; n = n.next {
			all = append(all, n.value.letter)
		}
	}
	slices.SortFunc(all, func(a, b *history.EventReceived) int { return cmp.Compare(a.ID, b.ID) })
	return all
}
