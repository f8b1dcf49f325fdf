package pawltest

import (
	"cmp"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/attribute"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
)

// Pause pauses the instance: it takes no turn until it is resumed, while its activities continue. If the instance refuses a request of an
// operator, for example because it has ended, the test fails.
func (m Moment) Pause(by, text string) { m.operate(history.VerbPause, by, text, message.Operate{}) }

// Stop is Pause that also stops the activities of the instance. Resume schedules them again.
func (m Moment) Stop(by, text string) {
	m.operate(history.VerbPause, by, text, message.Operate{Stop: true})
}

// Resume ends a pause.
func (m Moment) Resume(by, text string) { m.operate(history.VerbResume, by, text, message.Operate{}) }

// Terminate ends the instance without running its code.
func (m Moment) Terminate(by, text string) {
	m.operate(history.VerbTerminate, by, text, message.Operate{})
}

// Rewind continues the instance in a new execution that begins with the events of the current history up to event id to.
func (m Moment) Rewind(to uint64, by, text string) {
	m.operate(history.VerbRewind, by, text, message.Operate{To: to})
}

// Retry makes an instance that has failed or was cancelled, possibly after Run, continue from before its failure.
func (m Moment) Retry(by, text string) { m.operate(history.VerbRetry, by, text, message.Operate{}) }

// Purge removes an instance that has ended. With force, it also removes a running instance, which is cancelled. Its record stays in the
// Env.
func (m Moment) Purge(force bool) {
	m.input(&message.OutInput{Kind: message.KindPurge, Force: force, By: "test"})
}

// ID sets an id for the messages sent at the moment, like a client that may resend them: duplicates have no effect.
func (m Moment) ID(id string) Moment {
	m.id = id
	return m
}

func (m Moment) operate(v history.Verb, by, text string, o message.Operate) {
	m.input(&message.OutInput{Kind: message.KindOperate, Name: v.String(), By: by, Text: text, Operate: o, Reply: "test"})
}

// With sets an attribute of the instance under test at its start.
func (e *Env) With(a pawl.AttributeValue) {
	e.world.tb.Helper()
	e.StartWith(StartOption{func(in *message.OutInput) {
		x, err := author.AttributeOf(a)
		as, parseErr := attribute.Parse(in.Attrs)
		if err = cmp.Or(err, parseErr); err == nil {
			as, err = as.With(x)
		}
		if err != nil {
			e.world.tb.Fatal(err)
		}
		in.Attrs = as.String()
	}})
}

// Attributes returns the current attributes of the instance, as text by name.
func (r Record) Attributes() map[string]string {
	r.e.tb.Helper()
	d := r.e.part.Store.Get(r.recorded().in.id).Data
	if d == nil {
		return nil
	}
	as, err := attribute.Parse(d.Attributes)
	if err != nil {
		r.e.tb.Fatal(err)
	}
	all := make(map[string]string, len(as))
	for _, a := range as {
		all[a.Name] = a.Value
	}
	return all
}
