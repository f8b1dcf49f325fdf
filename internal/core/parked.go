package core

// parked are the instances that are idle and have their code in memory, the last used in front.
type parked struct {
	limit, n    int
	first, last *instance
}

// parking is the place of an instance among those that are parked.
type parking struct {
	parked         bool
	before, behind *instance
}

// add puts an instance in front, and returns the one that has no room any more; nil: there is none.
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

// remove takes an instance out that is used, or forgotten.
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
