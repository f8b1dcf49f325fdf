package wakeup

import "slices"

// owner is what the owner has in memory of the instance. The names are those of pkg/orchestrator.
type owner struct {
	exists, busy, loaded, read, missed, look bool
	record, ended, knocked, coded            bool
	unread, late                             []input
	turned                                   input // the greatest input of the stream that was turned
	acked                                    bool  // the completion was turned
}

func (w *World) begin(what string, reads bool) {
	o := &w.own
	o.busy = true
	if reads || w.setup.Wrong == MissedDropped {
		o.missed = false
	}
	if what != "" {
		w.net = append(w.net, request{what: what})
	}
}

// unsure notes that the inbox may have an input of which memory knows neither content nor place.
func (w *World) unsure() {
	if o := &w.own; o.busy {
		o.missed = true
	} else {
		o.read = o.loaded
	}
}

// ingested is the answer of an ingest.
func (w *World) ingested(r request) {
	o := &w.own
	for i, in := range r.batch {
		o.exists = true
		switch {
		case !r.again:
			w.arrived(in, r.fate[i], r.exists)
		case w.setup.Wrong == RepeatDropped:
			o.read = true
		default:
			w.unsure()
		}
		w.advance()
	}
}

func (w *World) arrived(in input, length int, exists bool) {
	o := &w.own
	switch {
	case !o.loaded && !o.busy && !exists && length == 1:
		o.loaded, o.unread = true, []input{in}
	case o.busy && length == 1:
		if w.setup.Wrong != LateDropped {
			o.late = append(o.late, in)
		}
	case !o.busy && o.loaded && !o.read && len(o.unread) == length-1 && (exists || !w.setup.start(in)) && w.lacks(in):
		o.unread = append(o.unread, in)
	default:
		w.unsure()
	}
}

func (w *World) lacks(in input) bool {
	o := &w.own
	return in > o.turned && !slices.ContainsFunc(o.unread, func(has input) bool { return has != completion && has >= in })
}

// onDoorbell is what a worker's doorbell does.
func (w *World) onDoorbell(carries bool) {
	o := &w.own
	o.exists = true
	switch {
	case !carries && w.setup.Wrong == BellDropped && o.busy:
	case !carries:
		w.unsure()
	case o.busy:
		o.late = append(o.late, completion)
	case o.loaded && len(o.unread) == 0 && !o.acked:
		o.unread = append(o.unread, completion)
	case o.loaded && !o.acked:
		o.read = true
	}
	w.advance()
}

func (w *World) lookAt() {
	o := &w.own
	o.exists = true
	if o.busy {
		o.look = o.look || !o.loaded
		return
	}
	o.look = true
	w.advance()
}

// advance does the next thing, if nothing is under way.
func (w *World) advance() {
	o := &w.own
	switch {
	case o.busy:
	case !o.loaded:
		w.begin("load", true)
	case o.read:
		o.read = false
		w.begin("read", true)
	default:
		w.goOn()
	}
}

func (w *World) goOn() {
	o := &w.own
	switch {
	case o.ended && len(o.unread) > 0:
		w.commit(slices.Clone(o.unread), false)
	case !o.record && len(o.unread) == 0:
		w.settle()
	case !o.record && !w.setup.start(o.unread[0]):
		w.begin("look", false) // early
	case w.setup.Gate && !o.knocked && !o.record: // and a start stands first
		w.begin("gate", false)
	case len(o.unread) > 0:
		w.begin("", false)
		w.turning, w.taken = true, slices.Clone(o.unread)
	case o.look:
		w.settle()
	default:
		w.rest()
	}
}

// settle looks at an instance that has nothing to turn.
func (w *World) settle() {
	if !w.own.look {
		w.rest()
		return
	}
	w.own.look = false
	w.begin("look", false)
}

func (w *World) rest() {
	if o := &w.own; o.coded && !o.ended {
		o.look = false
		return
	}
	w.own = owner{}
}

// turned sends the commit of a turn.
func (w *World) turned() {
	w.turning = false
	w.begin("", true)
	w.commit(w.taken, true)
	w.taken = nil
}

func (w *World) commit(pop []input, turn bool) {
	o := &w.own
	o.busy = true
	o.missed = false
	r := request{what: "commit", pop: pop}
	if turn {
		o.coded = true
		r.takes = slices.ContainsFunc(pop, w.setup.start)
		r.ends = w.setup.Ends > 0 && slices.Contains(pop, input(w.setup.Ends))
	}
	w.net = append(w.net, r)
}

// answered is an answer of the store.
func (w *World) answered(r request) {
	o := &w.own
	if r.what == "ingest" {
		w.ingested(r)
		return
	}
	early := r.what == "look" && !o.record && len(o.unread) > 0
	o.busy = false
	switch {
	case r.what == "gate":
		o.knocked = true
		w.catchUp()
	case early:
		came := (len(o.late) > 0 || o.missed) && w.setup.Wrong != EarlyTrusted
		o.late = nil
		if !came {
			*o = owner{}
			return
		}
		o.read = true
	case r.what == "look":
		o.read = (o.read || o.missed || r.fate[0] > len(o.unread)) && w.setup.Wrong != LookTrusted
		w.catchUp()
		if !o.read && len(o.unread) == 0 {
			w.rest()
			return
		}
	default:
		w.shown(r)
	}
	w.advance()
}

// shown is an answer that shows the inbox.
func (w *World) shown(r request) {
	o := &w.own
	for _, in := range r.pop {
		if in == completion {
			o.acked = true
		} else {
			o.turned = max(o.turned, in)
		}
	}
	if r.what == "load" {
		o.acked = r.exists && w.acked && !slices.Contains(r.shows, completion) // the history says so
	}
	o.loaded, o.unread = true, r.shows
	o.record, o.ended = r.exists, r.ended
	if r.what == "read" && w.setup.Wrong == ReadTrusted {
		o.read = false
	} else {
		o.read = o.missed && len(o.unread) == 0
	}
	w.catchUp()
}

// catchUp takes what came while something was under way, if the inbox is not known to have anything else.
func (w *World) catchUp() {
	o := &w.own
	late := o.late
	o.late = nil
	if len(o.unread) > 0 {
		return
	}
	for _, last := range slices.Backward(late) {
		if last == completion && !o.acked || last != completion && last > o.turned {
			o.unread = append(o.unread, last)
			return
		}
	}
}
