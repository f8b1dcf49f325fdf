package pawltest

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/history"
)

// Record is the record of one execution of an instance. The one embedded in Env is that of the instance under test.
type Record struct {
	e  *world
	in *instance // nil means the instance under test
	x  *execution
}

// Recorded is a Record, or an Env for its instance under test.
type Recorded interface {
	recorded() Record
}

func (r Record) recorded() Record {
	r.e.tb.Helper()
	if r.in != nil {
		return r
	}
	in := r.e.last(r.e.setup.id)
	if in == nil {
		r.e.tb.Fatal("nothing has run yet; this is for after Run, or for a Moment's Do")
	}
	return Record{e: r.e, in: in, x: in.now()}
}

// Of returns the record of another instance, for its last execution. If no instance has the id, the test fails and lists the ids in use.
func (e *Env) Of(instance string) Record {
	e.world.tb.Helper()
	in := e.world.last(instance)
	if in == nil {
		e.world.tb.Fatalf("there is no instance %s, only %q", instance, e.Instances())
	}
	return Record{e: e.world, in: in, x: in.now()}
}

// Instances lists the ids of all instances in the order in which they started.
func (e *Env) Instances() []string {
	var ids []string
	for _, in := range e.world.instances {
		ids = append(ids, in.id)
	}
	return ids
}

// Execution returns the record of an earlier execution, counted from 1.
func (r Record) Execution(n int) Record {
	r.e.tb.Helper()
	r = r.recorded()
	if n < 1 || n > len(r.in.executions) {
		r.e.tb.Fatalf("instance %s has %d executions, and no number %d", r.in.id, len(r.in.executions), n)
	}
	r.x = r.in.executions[n-1]
	return r
}

// Executions returns the number of executions that the instance has begun.
func (r Record) Executions() int { return len(r.recorded().in.executions) }

// History returns the history so far, with one line per event: its id, the virtual time since the start of the execution, and its
// description in the format of pawl history.
func (r Record) History() string {
	r.e.tb.Helper()
	return replaytest.Text(r.recorded().x.events)
}

// WantHistory fails the test unless the history equals want, line by line. The amount of white space between words and around lines does
// not matter, and blank lines are ignored.
func (r Record) WantHistory(want string) {
	r.e.tb.Helper()
	got, wanted := lines(r.History()), lines(want)
	for i := range max(len(got), len(wanted)) {
		switch {
		case i >= len(got):
			r.e.tb.Errorf("the history ends before %q:\n%s", wanted[i], r.History())
		case i >= len(wanted):
			r.e.tb.Errorf("the history continues with %q:\n%s", got[i], r.History())
		case got[i] != wanted[i]:
			r.e.tb.Errorf("the history has %q, not %q:\n%s", got[i], wanted[i], r.History())
		default:
			continue
		}
		return
	}
}

// WantLines fails the test unless the history contains, in this order and possibly with others in between, a line with each of the parts.
func (r Record) WantLines(parts ...string) {
	r.e.tb.Helper()
	rest := lines(r.History())
	for _, part := range parts {
		part = strings.Join(strings.Fields(part), " ")
		for len(rest) > 0 && !strings.Contains(rest[0], part) {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			r.e.tb.Errorf("the history has no %q, or not behind those before it:\n%s", part, r.History())
			return
		}
		rest = rest[1:]
	}
}

func lines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 {
			all = append(all, strings.Join(words, " "))
		}
	}
	return all
}

// Export returns the history so far in the format of pawl history --json.
func (r Record) Export() []byte {
	r.e.tb.Helper()
	r = r.recorded()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, ev := range r.x.events {
		line, err := show.JSON(r.in.id, ev)
		if err == nil {
			err = enc.Encode(line)
		}
		if err != nil {
			r.e.tb.Fatalf("export event %d: %v", ev.Meta().ID, err)
		}
	}
	return b.Bytes()
}

// Statuses returns the values of a custom status that a watching client could have seen, over all executions of the instance, latest
// last. If it is set several times in one turn, only the last value is included. A cleared status is the zero value. A value that does
// not decode fails the test.
func Statuses[T any](of Recorded, s pawl.Status[T]) []T {
	r := of.recorded()
	r.e.tb.Helper()
	return decodeAll(r.e, "status", r.statuses(s.Name()), func(p history.Payload) (v T, err error) {
		if p.Type == "" { // cleared
			return v, nil
		}
		return author.Value(s).Decode(p)
	})
}

// statuses returns the values of the status with the name.
func (r *Record) statuses(name string) (values []history.Payload) {
	var seen, version uint64
	for _, change := range r.in.statuses {
		version += change.Sets
		all, err := eventcodec.SplitStatus(change.Payload, version)
		if err != nil {
			r.e.tb.Fatalf("status, version %d: %v", version, err)
		}
		for _, at := range all {
			if at.Name == name && at.Version > seen {
				seen, values = at.Version, append(values, at.Payload)
			}
		}
	}
	return values
}

// Unread returns, in order, the events of the handle that the instance had been sent but had not read when it ended. It returns nil while
// the instance has not ended. Events that arrived after the end are not included. An event that does not decode fails the test.
func Unread[T any](of Recorded, event pawl.Event[T]) []T {
	r := of.recorded()
	r.e.tb.Helper()
	var all []history.Payload
	for _, ev := range r.in.unread {
		if ev.Name == event.Name() {
			all = append(all, ev.Payload)
		}
	}
	return decodeAll(r.e, "unread event "+event.Name(), all, author.Value(event).Decode)
}

// SentTo returns, in order, the events of the handle that instances have sent to an instance that did not exist.
func SentTo[T any](e *Env, instance string, event pawl.Event[T]) []T {
	e.world.tb.Helper()
	var all []history.Payload
	for _, s := range e.world.outside.sent {
		if ev, ok := s.ev.(*history.EventSent); ok && s.to == instance && ev.Name == event.Name() {
			all = append(all, ev.Payload)
		}
	}
	return decodeAll(e.world, "event "+event.Name(), all, author.Value(event).Decode)
}

func decodeAll[T any](e *world, what string, all []history.Payload, decode func(history.Payload) (T, error)) []T {
	e.tb.Helper()
	values := make([]T, len(all))
	for i, p := range all {
		v, err := decode(p)
		if err != nil {
			e.tb.Fatalf("%s, number %d: %v", what, i+1, err)
		}
		values[i] = v
	}
	return values
}
