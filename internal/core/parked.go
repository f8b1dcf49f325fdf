package core

// parked is the list of idle instances whose code is in memory, most recently used first.
type parked struct {
	limit, n    int
	first, last *instance
}

// parking is the position of an instance in the list of parked instances.
type parking struct {
	parked         bool
	before, behind *instance
}

// add puts an instance at the front, and returns the one that it evicts from the list, if any.
func (p *parked) add(in *instance) *instance {
	p.remove(in)
	in.parking = parking{parked: true, behind: p.first}
	if p.n++; p.first != nil {
		p.first.before = in
	} else {
		p.last = in
	}
	p.first = in
	if p.n <= p.limit {
		return nil
	}
	out := p.last
	p.remove(out)
	return out
}

// remove removes an instance that becomes busy or is dropped.
func (p *parked) remove(in *instance) {
	if !in.parked {
		return
	}
	p.n--
	if in.before != nil {
		in.before.behind = in.behind
	} else {
		p.first = in.behind
	}
	if in.behind != nil {
		in.behind.before = in.before
	} else {
		p.last = in.before
	}
	in.parking = parking{}
}
