package pawltest

import (
	"cmp"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
)

// Pause has the instance take no turn until it is resumed; its activities go on. Like that of every request of an operator, its refusal, for
// example of an instance that has ended, fails the test.
func (m Moment) Pause(by, text string) { m.operate(history.VerbPause, by, text, message.Operate{}) }

// Stop is Pause with the activities of the instance stopped: Resume begins them again.
func (m Moment) Stop(by, text string) {
	m.operate(history.VerbPause, by, text, message.Operate{Stop: true})
}

// Resume ends a pause.
func (m Moment) Resume(by, text string) { m.operate(history.VerbResume, by, text, message.Operate{}) }

// Terminate ends the instance without its code.
func (m Moment) Terminate(by, text string) {
	m.operate(history.VerbTerminate, by, text, message.Operate{})
}

// Rewind has another execution continue from the events of the history up to one.
func (m Moment) Rewind(to uint64, by, text string) {
	m.operate(history.VerbRewind, by, text, message.Operate{To: to})
}

// Retry has an instance that has failed or was cancelled, which may be after Run, continue before what failed it.
func (m Moment) Retry(by, text string) { m.operate(history.VerbRetry, by, text, message.Operate{}) }

// Purge removes an instance that has ended; force: also one that runs, which is cancelled. Its record stays in the Env.
func (m Moment) Purge(force bool) {
	m.input(&message.OutInput{Kind: message.KindPurge, Force: force, By: "test"})
}

// ID gives what is sent at the moment an id, as a client does that may send it again: a repeat is not taken a second time.
func (m Moment) ID(id string) Moment {
	m.id = id
	return m
}

func (m Moment) operate(v history.Verb, by, text string, o message.Operate) {
	m.input(&message.OutInput{Kind: message.KindOperate, Name: v.String(), By: by, Text: text, Operate: o, Reply: "test"})
}

// With gives the instance under test an attribute at its start.
func (e *Env) With(a pawl.AttributeValue) {
	e.world.tb.Helper()
	e.StartWith(func(in *message.OutInput) {
		as, err := history.ParseAttributes(in.Attrs)
		if err = cmp.Or(a.Err, err); err == nil {
			as, err = as.With(a.Attribute)
		}
		if err != nil {
			e.world.tb.Fatal(err)
		}
		in.Attrs = as.String()
	})
}

// Attributes are the attributes of the instance, as text by name: those that a list would show now.
func (r Record) Attributes() map[string]string {
	r.e.tb.Helper()
	d := r.e.part.Store.Get(r.recorded().in.id).Data
	if d == nil {
		return nil
	}
	as, err := history.ParseAttributes(d.Attributes)
	if err != nil {
		r.e.tb.Fatal(err)
	}
	all := make(map[string]string, len(as))
	for _, a := range as {
		all[a.Name] = a.Value
	}
	return all
}
