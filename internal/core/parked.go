package core

import "container/list"

// parked are the instances that are idle and have their code in memory, the last used in front.
type parked struct {
	limit int
	order list.List // of *instance
	at    map[string]*list.Element
}

// add puts an instance in front, and returns the one that has no room any more; nil: there is none.
func (p *parked) add(in *instance) *instance {
	p.remove(in.id)
	p.at[in.id] = p.order.PushFront(in)
	if p.order.Len() <= p.limit {
		return nil
	}
	last, _ := p.order.Back().Value.(*instance)
	p.remove(last.id)
	return last
}

// remove takes an instance out that is used, or forgotten.
func (p *parked) remove(id string) {
	if e := p.at[id]; e != nil {
		p.order.Remove(e)
		delete(p.at, id)
	}
}
