package pawltest

import (
	"strconv"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

// answers are the answers of instances to updates, from their commits.
type answers struct {
	ledger map[string]eventcodec.UpdateAnswer
	sent   int // number of updates sent without an id
}

func answerKey(instance, update string) string { return instance + "\n" + update }

// add stores the answers of a commit.
func (a *answers) add(id string, all []record.Answer) error {
	for _, u := range all {
		if len(u.Answer) == 0 {
			continue
		}
		answer, err := eventcodec.DecodeUpdateAnswer(u.Answer)
		if err != nil {
			return err
		}
		if a.ledger == nil {
			a.ledger = make(map[string]eventcodec.UpdateAnswer)
		}
		a.ledger[answerKey(id, u.Update)] = answer
	}
	return nil
}

// operated fails the test if an instance refused a request of an operator.
func (e *world) operated(a *core.ClientAnswer) {
	if p := a.Answer.Problem; p != nil && len(a.To) > 0 {
		e.failf(a.Answer.Instance, "refused: %s", p.Message)
	}
}

// Answer is the answer of an instance to an update.
type Answer[Out any] struct {
	m            Moment
	instance     string
	name, update string
	decode       func(history.Payload) (Out, error)
}

// UpdateOption is an option of Update and UpdateWithStart, like those of client.Update.
type UpdateOption struct{ apply func(*message.OutInput) }

// Deadline makes an update expire d after the moment unless the code has received it by then: Get then returns pawl.ErrUpdateExpired.
func Deadline(d time.Duration) UpdateOption {
	return UpdateOption{func(in *message.OutInput) { in.Deadline = d }}
}

// Update sends an update at the moment. It does not wait for the answer, which Get returns later. A value that does not encode fails the
// test.
func Update[In, Out any](m Moment, u pawl.Update[In, Out], in In, options ...UpdateOption) *Answer[Out] {
	m.e.tb.Helper()
	p := encode(m.e, "update", u, author.Input(u), in)
	return sendUpdate(m, u, &message.OutInput{Kind: message.KindUpdate, Name: u.Name(), Payload: p, By: "test"}, options)
}

// UpdateWithStart is Update with a message that also starts the instance named by To if it does not exist.
func UpdateWithStart[In, Out, UpdateIn, UpdateOut any](
	m Moment, o pawl.Orchestration[In, Out], in In, u pawl.Update[UpdateIn, UpdateOut], update UpdateIn, options ...UpdateOption,
) *Answer[UpdateOut] {
	m.e.tb.Helper()
	with := &message.OutEvent{Name: u.Name(), Payload: encode(m.e, "update", u, author.Input(u), update), Update: true}
	return sendUpdate(m, u, &message.OutInput{Kind: message.KindStart, Name: o.Name(), Payload: encode(m.e, "start", o, author.Input(o), in), By: "test", Event: with}, options)
}

// sendUpdate sends an update at the moment.
func sendUpdate[In, Out any](m Moment, u pawl.Update[In, Out], in *message.OutInput, options []UpdateOption) *Answer[Out] {
	for _, option := range options {
		option.apply(in)
	}
	if m.id == "" {
		m.e.answers.sent++
		m.id = "update-" + strconv.Itoa(m.e.answers.sent)
	}
	m.input(in)
	return &Answer[Out]{m: m, instance: m.target(), name: u.Name(), update: m.id, decode: author.Result(u).Decode}
}

// Get returns the answer: the result, or the *pawl.Failure of a rejection, with its sentinels, or pawl.ErrUpdateEnded if the instance
// ended without an answer. It fails the test if there is no answer yet.
func (a *Answer[Out]) Get() (Out, error) {
	e := a.m.e
	e.tb.Helper()
	var zero Out
	got, ok := e.answers.ledger[answerKey(a.instance, effectid.UpdateKey(a.name, a.update))]
	if !ok && e.ended(a.instance) {
		got, ok = eventcodec.UpdateAnswer{Failure: replay.EndedUpdate(a.name, a.update)}, true
	}
	switch {
	case !ok:
		e.failf(a.instance, "instance %s has not answered update %s %s", a.instance, a.name, a.update)
		return zero, nil
	case got.Failure != nil:
		return zero, &pawl.Failure{Failure: *got.Failure}
	default:
		return a.decode(got.Result)
	}
}

// Query sends a query to an execution in its state after the last turn. As in production, a replica answers it. The error is that of the
// handler. An orchestration without a handler for the query fails the test.
func Query[In, Out any](of Recorded, q pawl.Query[In, Out], in In) (out Out, err error) {
	r := of.recorded()
	r.e.tb.Helper()
	p := encode(r.e, "query", q, author.Input(q), in)
	var answer history.Payload
	var failure *history.Failure
	found, exec := false, r.x.fresh()
	if blocked := r.e.guard.run(func() {
		if err = exec.Replay(r.x.events); err == nil {
			answer, failure, found = exec.Query(q.Name(), p)
		}
	}); blocked != nil {
		exec.GiveUp()
		r.in.failf("query %s: %v", q.Name(), blocked)
	}
	has := exec.Queries()
	if evicted := exec.Evict(); err == nil {
		err = evicted
	}
	switch {
	case err != nil:
		r.in.failf("query %s: %v", q.Name(), err)
	case !found:
		r.in.failf("instance %s has no query %s, only %q", r.in.id, q.Name(), has)
	case failure != nil:
		return out, &pawl.Failure{Failure: *failure}
	}
	return author.Result(q).Decode(answer)
}
