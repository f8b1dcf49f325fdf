package replay

import (
	"cmp"
	"slices"
	"strings"

	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// mailbox holds the events, or the updates, of one name. It contains either events or waits, never both: an event goes to the wait that
// began first, and is stored only if there is none.
type mailbox struct {
	name   string
	events []history.Event // EventReceived or UpdateReceived, in order of arrival
	places list[*place]    // waits without an event
	handed list[*place]    // waits with an unread event
}

// place is a wait for one event or update of a name.
//
//	waiting ──event──▶ handed ──Value──▶ consumed
//	   │                  └──withdrawn: the event goes to the next place, or back to the front
//	   └──withdrawn: the place is removed
type place struct {
	Future
	self   node[*place] // node in the mailbox, until the event is consumed
	box    *mailbox
	member node[*place] // node in the scope, until the event is consumed
	seq    uint64       // number of the wait, in the order in which waits began
	event  history.Event
}

// boxes are the mailboxes of an execution. Most executions have few, and a map with one element takes more memory than the element. But
// senders choose the names of events, so if there are many, they are found by a map. The zero value is empty.
type boxes struct {
	all    []*mailbox
	byName map[string]*mailbox // nil up to fewBoxes
}

const fewBoxes = 8

// find returns the mailbox of the name, or nil if there is none.
func (b *boxes) find(name string) *mailbox {
	if b.byName != nil {
		return b.byName[name]
	}
	for _, box := range b.all {
		if box.name == name {
			return box
		}
	}
	return nil
}

func (b *boxes) add(box *mailbox) {
	b.all = append(b.all, box)
	switch {
	case b.byName != nil:
		b.byName[box.name] = box
	case len(b.all) > fewBoxes:
		b.byName = make(map[string]*mailbox, 2*fewBoxes)
		for _, box := range b.all {
			b.byName[box.name] = box
		}
	}
}

func (x *mailboxes) mailbox(name string) *mailbox {
	box := x.boxes.find(name)
	if box == nil {
		box = &mailbox{name: name}
		x.boxes.add(box)
	}
	return box
}

// Next returns a future for the next event of the name that no other wait takes: one that has already arrived, or a later one.
func (x *Code) Next(name string, in *Scope) *Future {
	if err := x.Over(in); err != nil {
		return x.Refuse(err)
	}
	x.places++
	from := x.mailbox(name)
	p := &place{Future: Future{x: x}, box: from, seq: x.places}
	p.self.value, p.member.value, p.source = p, p, p
	x.in(in).places.push(&p.member)
	if len(from.events) > 0 {
		p.hand(from.shift())
	} else {
		from.places.push(&p.self)
	}
	return &p.Future
}

// TryNext takes the next event of the name if one has arrived; ok is false otherwise. If none is available, it polls. It is not a wait:
// an event that arrives in the meantime goes to a waiting place, if there is one.
func (x *Code) TryNext(name string, in *Scope) (payload history.Payload, ok bool, err error) {
	if err := x.Over(in); err != nil {
		return history.Payload{}, false, err
	}
	if payload, ok = x.takeEvent(name); !ok {
		if err := x.Poll(in); err != nil {
			return history.Payload{}, false, err
		}
		payload, ok = x.takeEvent(name)
	}
	payload = x.unseal(payload)
	x.exit()
	return payload, ok, nil
}

// takeEvent removes and returns the payload of the first event of the name, if there is one.
func (x *mailboxes) takeEvent(name string) (payload history.Payload, ok bool) {
	box := x.boxes.find(name)
	if box == nil || len(box.events) == 0 {
		return history.Payload{}, false
	}
	return inputPayload(box.shift()), true
}

func (b *mailbox) shift() history.Event {
	first := b.events[0]
	b.events[0] = nil
	b.events = b.events[1:]
	return first
}

// post passes an event to the place that has waited longest. If no place waits, it inserts the event in the order of arrival, because an
// event that was returned may be older than those in the mailbox.
func (b *mailbox) post(l history.Event) {
	if first := b.places.head; first != nil {
		first.value.hand(l)
		return
	}
	at, _ := slices.BinarySearchFunc(b.events, l.Meta().ID, func(l history.Event, id uint64) int { return cmp.Compare(l.Meta().ID, id) })
	b.events = slices.Insert(b.events, at, l)
}

func (p *place) hand(l history.Event) {
	p.self.unlink()
	p.box.handed.push(&p.self)
	p.event = l
	p.x.handed(l)
	p.settle(p.x.unseal(inputPayload(l)), nil)
}

// used removes the place from its scope and its mailbox, because nothing remains to be returned.
func (p *place) used() {
	p.member.unlink()
	p.self.unlink()
}

func (p *place) withdraw(cancel.Cancelled) bool {
	p.used()
	switch {
	case !p.settled:
		return true
	case p.taken || p.event == nil:
		return false
	}
	back := p.event
	p.event = nil
	p.box.post(back)
	p.x.returned(back)
	return true
}

// Awaited lists the names of the events and of the updates that code waits for, each sorted.
type Awaited struct{ Events, Updates []string }

// Awaited returns the names of the events and updates that the code waits for.
func (x *mailboxes) Awaited() (a Awaited) {
	for _, box := range x.boxes.all {
		if box.places.head == nil {
			continue
		}
		if name, ok := strings.CutPrefix(box.name, updateBox); ok {
			a.Updates = append(a.Updates, name)
		} else {
			a.Events = append(a.Events, box.name)
		}
	}
	slices.Sort(a.Events)
	slices.Sort(a.Updates)
	return a
}

// unreadEvents returns the events that were received but not read, in the order of their arrival.
func (x *mailboxes) unreadEvents() []*history.EventReceived {
	var all []*history.EventReceived
	for _, ev := range x.unreadInputs() {
		if ev, ok := ev.(*history.EventReceived); ok {
			all = append(all, ev)
		}
	}
	return all
}

// unreadInputs returns the events and updates that the code has not read, in the order of their arrival.
func (x *mailboxes) unreadInputs() []history.Event {
	var all []history.Event
	for _, box := range x.boxes.all {
		all = append(all, box.events...)
		for n := box.handed.head; n != nil; n = n.next {
			all = append(all, n.value.event)
		}
	}
	slices.SortFunc(all, func(a, b history.Event) int { return cmp.Compare(a.Meta().ID, b.Meta().ID) })
	return all
}

// inputPayload returns the payload of an event or an update.
func inputPayload(ev history.Event) history.Payload {
	switch ev := ev.(type) {
	case *history.EventReceived:
		return ev.Payload
	case *history.UpdateReceived:
		return ev.Payload
	default:
		return history.Payload{}
	}
}
