package wakeup

import (
	"fmt"
	"slices"
	"strings"
)

// Mistake breaks one rule.
type Mistake string

// The mistakes.
const (
	None          Mistake = ""
	MissedDropped Mistake = "an input that was missed is forgotten when the next request begins"
	ReadTrusted   Mistake = "a reading of the inbox that was empty is trusted though an input was missed meanwhile"
	RepeatDropped Mistake = "a batch whose ingest was repeated is not read again if a request was under way"
	LookTrusted   Mistake = "what came while a look was under way is not asked after"
	EarlyTrusted  Mistake = "what came while early inputs were held back is not asked after"
	LateDropped   Mistake = "an input that came into an empty inbox while a request was under way is forgotten"
	BellDropped   Mistake = "a doorbell that carries nothing is forgotten if a request is under way"
)

// Setup is what a search is about.
type Setup struct {
	Plan     []string // what clients send, in order: "start" or the name of an event
	Gate     bool     // the start has to pass a gate first
	Activity bool     // the start schedules an activity
	Ends     int      // the code ends with this input, 0: never
	Show     int      // inputs that one answer shows at most
	Resends  int      // replies of ingests that are lost
	Dues     int      // times that the agenda names the instance
	Evicts   int      // times that memory has no room for it
	Wrong    Mistake
}

// input is an element of the inbox: its place in the plan from one, or 100 for the completion.
type input int

const completion input = 100

func (s *Setup) start(in input) bool { return in != completion && s.Plan[in-1] == "start" }

// request is a call of a script, or what has become of it.
type request struct {
	what  string // ingest, commit, look, load, read, gate
	batch []input
	pop   []input
	to    int  // ingest: applied after it
	ends  bool // commit: the code has ended
	takes bool // commit: the code has taken the start

	done bool // the store has carried it out; the answer:
	fate []int
	// length of the inbox after each input of an ingest; or of the inbox
	exists, again, ended bool
	shows                []input
}

func (r *request) reading() bool { return r.what == "load" || r.what == "read" || r.what == "gate" }

// World is a store, an owner, and what is in flight between them.
type World struct {
	setup *Setup

	inbox         []input
	record, ended bool
	lease, acked  bool
	applied       int

	net     []request // in the order in which they were sent
	bells   []bool    // of completions; true: it carries the completion
	sent    int       // inputs of the plan that have been handed to ingest
	turning bool      // the code runs
	taken   []input   // by the turn
	own     owner

	resends, dues, evicts int
	broken                string
}

// NewWorld is the beginning.
func NewWorld(s *Setup) *World {
	return &World{setup: s, resends: s.Resends, dues: s.Dues, evicts: s.Evicts}
}

// Step is something that can happen.
type Step struct {
	name     string
	optional bool
	do       func(*World)
}

// String is its name.
func (s Step) String() string { return s.name }

// After gives the world in which the step has happened.
func (w *World) After(s Step) *World {
	c := *w
	c.inbox, c.net, c.bells, c.taken = slices.Clone(w.inbox), slices.Clone(w.net), slices.Clone(w.bells), slices.Clone(w.taken)
	c.own.unread, c.own.late = slices.Clone(w.own.unread), slices.Clone(w.own.late)
	s.do(&c)
	return &c
}

// Steps lists what can happen now.
func (w *World) Steps() []Step {
	var all []Step
	add := func(name string, do func(*World)) { all = append(all, Step{name: name, do: do}) }
	may := func(left int, name string, do func(*World)) {
		if left > 0 {
			all = append(all, Step{name: name, optional: true, do: do})
		}
	}
	first := slices.IndexFunc(w.net, func(r request) bool { return !r.done })
	if first >= 0 {
		add(w.net[first].what+" arrives", func(w *World) { w.carryOut(&w.net[first]) })
		if w.net[first].what == "ingest" {
			may(w.resends, "ingest arrives, its reply is lost, it is sent again", func(w *World) {
				w.resends--
				w.carryOut(&w.net[first])
				w.net[first].again = true
			})
		}
	}
	ordered := true
	for i, r := range w.net {
		if !r.done || !r.reading() && !ordered {
			ordered = ordered && r.reading()
			continue
		}
		ordered = ordered && r.reading()
		add("answer of "+r.what, func(w *World) {
			w.net = slices.Delete(w.net, i, i+1)
			w.answered(r)
		})
	}
	if w.sent < len(w.setup.Plan) && !slices.ContainsFunc(w.net, func(r request) bool { return r.what == "ingest" }) {
		for n := 1; n <= min(2, len(w.setup.Plan)-w.sent); n++ {
			add(fmt.Sprintf("%d inputs are read from the stream", n), func(w *World) { w.ingest(n) })
		}
	}
	if w.lease {
		for _, carries := range []bool{true, false} {
			add(fmt.Sprintf("the worker acks, its doorbell carries the completion: %v", carries), func(w *World) { w.ack(carries) })
		}
	}
	for i, carries := range w.bells {
		add("doorbell", func(w *World) {
			w.bells = slices.Delete(w.bells, i, i+1)
			w.onDoorbell(carries)
		})
	}
	if w.turning {
		add("the code comes back", func(w *World) { w.turned() })
	}
	may(w.dues, "the agenda names it", func(w *World) { w.dues--; w.lookAt() })
	if w.own.exists && !w.own.busy {
		may(w.evicts, "it is put out of memory", func(w *World) { w.evicts--; w.own = owner{} })
	}
	return all
}

// ingest hands inputs of the stream to the store.
func (w *World) ingest(n int) {
	r := request{what: "ingest", to: w.sent + n}
	for i := range n {
		r.batch = append(r.batch, input(w.sent+i+1))
	}
	w.sent += n
	w.net = append(w.net, r)
}

// ack is what a worker does.
func (w *World) ack(carries bool) {
	w.lease, w.acked = false, true
	w.inbox = append(w.inbox, completion)
	if len(w.inbox) == 1 {
		w.bells = append(w.bells, carries)
	}
}

// carryOut runs the script of a request.
func (w *World) carryOut(r *request) {
	r.done = true
	switch r.what {
	case "ingest":
		r.exists = w.record
		for _, in := range r.batch {
			front := w.setup.start(in) && !w.record && !slices.ContainsFunc(w.inbox, w.setup.start)
			if front {
				w.inbox = slices.Insert(w.inbox, 0, in)
			} else {
				w.inbox = append(w.inbox, in)
			}
			r.fate = append(r.fate, len(w.inbox))
		}
		w.applied = r.to
	case "commit":
		if len(r.pop) > len(w.inbox) || !slices.Equal(r.pop, w.inbox[:len(r.pop)]) {
			w.broken = fmt.Sprintf("the commit pops %v, and the inbox is %v", r.pop, w.inbox)
			return
		}
		w.inbox = w.inbox[len(r.pop):]
		w.record = true
		w.ended = w.ended || r.ends
		w.lease = (w.lease || r.takes && w.setup.Activity && !w.acked) && !w.ended
		w.show(r)
	case "look":
		r.fate = []int{len(w.inbox)}
	case "load", "read":
		w.show(r)
	}
}

// show puts the head of the inbox into an answer.
func (w *World) show(r *request) {
	r.shows = slices.Clone(w.inbox[:min(len(w.inbox), w.setup.Show)])
	r.exists, r.ended = w.record, w.ended
}

// Check reports what a step itself saw go wrong.
func (w *World) Check() string { return w.broken }

// Finished reports an instance that sleeps: nothing is in flight, and it has unread inputs that could be turned.
func (w *World) Finished() string {
	if len(w.inbox) > 0 && (w.record || slices.ContainsFunc(w.inbox, w.setup.start)) {
		return fmt.Sprintf("unread inputs %v, and only the agenda would wake the owner", w.inbox)
	}
	return ""
}

// Fair picks the next step of a world in which the agenda is silent.
func (w *World) Fair() (Step, bool) {
	for _, s := range w.Steps() {
		if !s.optional {
			return s, true
		}
	}
	return Step{}, false
}

// Clock stands still.
func (w *World) Clock() int64 { return 0 }

// Text appends all that makes the state another one.
func (w *World) Text(b []byte) []byte {
	b = fmt.Appendf(b, "%v %v %v %v %v %d %d|", w.inbox, w.record, w.ended, w.lease, w.acked, w.applied, w.sent)
	for _, r := range w.net {
		b = fmt.Appendf(b, "%+v;", r)
	}
	b = fmt.Appendf(b, "|%v %v %v %+v %d %d %d", w.bells, w.turning, w.taken, w.own, w.resends, w.dues, w.evicts)
	return append(b, strings.TrimSpace(w.broken)...)
}
