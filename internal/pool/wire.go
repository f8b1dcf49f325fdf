package pool

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/wire"
	"github.com/pawlrun/pawl/pkg/history"
)

// Found is the answer of a member that has an orchestration.
type Found struct {
	At       string // the member's own subject
	Version  string // that was looked for, or its newest
	Declared history.Declared
}

func (f *Found) fields(c *wire.Codec) {
	c.String(&f.At)
	c.String(&f.Version)
	b := f.Declared.Encode()
	if c.Bytes(&b); c.Reading() && c.Err() == nil {
		var err error
		f.Declared, err = history.DecodeDeclared(b)
		c.Keep(err)
	}
}

// Encode writes the answer.
func (f Found) Encode() []byte { return wire.Encode(f.fields) }

// Request is a turn to decide, or a query to answer.
type Request struct {
	Turn  *Turn
	Query *Query
	Size  int // of a request that was read, in bytes
}

// Turn is a turn to decide.
type Turn struct {
	Partition int
	ID        string     // of the turn, at random
	After     string     // the turn behind which the code may be in memory; empty: none
	Given     core.Given // without a program, a parent, a history and a seal
}

// Query is a query to answer from a replica. The history is that of an execution, as long as it is.
type Query struct {
	Partition int
	Identity  history.Identity
	Name      string // of the orchestration
	Version   string
	Query     string
	Payload   history.Payload
}

// Encode writes the request; seal is what the ids of elements end with here.
func (r Request) Encode(seal string) []byte {
	return wire.Encode(func(c *wire.Codec) { r.fields(c, seal) })
}

// DecodeRequest reads a request.
func DecodeRequest(b []byte) (r Request, err error) {
	err = wire.Decode(b, func(c *wire.Codec) { r.fields(c, "") })
	if err == nil && (r.Turn == nil) == (r.Query == nil) {
		err = errors.New("a request for one thing is needed")
	}
	r.Size = len(b)
	return r, err
}

func (r *Request) fields(c *wire.Codec, seal string) {
	wire.Optional(c, &r.Turn, func(c *wire.Codec, t *Turn) { t.fields(c, seal) })
	wire.Optional(c, &r.Query, func(c *wire.Codec, q *Query) {
		c.Count(&q.Partition)
		identity(c, &q.Identity)
		c.String(&q.Name)
		c.String(&q.Version)
		c.String(&q.Query)
		q.Payload.WireFields(c)
	})
}

func (t *Turn) fields(c *wire.Codec, seal string) {
	g := &t.Given
	c.Count(&t.Partition)
	c.String(&t.ID)
	c.String(&t.After)
	identity(c, &g.Identity)
	c.String(&g.Name)
	c.String(&g.Place.Version)
	c.String(&g.Place.Head)
	c.Uint(&g.Place.Length)
	wire.List(c, &g.Inputs, func(c *wire.Codec, u *core.Unread) {
		c.Record(func(c *wire.Codec) {
			id := strings.TrimSuffix(u.ID, seal)
			c.String(&id)
			u.ID = unless(c, u.ID, id)
			event(c, &u.Ev)
		})
	})
	events(c, &g.Local)
	events(c, &g.Overdue)
	c.Int(&g.Now)
	c.Int(&g.Until)
	c.Bool(&g.Part)
	c.Bool(&g.More)
	c.Bool(&g.Behind)
}

// unless returns what was read, or, if nothing is read, what there was.
func unless(c *wire.Codec, was, read string) string {
	if c.Reading() {
		return read
	}
	return was
}

func identity(c *wire.Codec, id *history.Identity) {
	c.String(&id.Instance)
	id.Origin.WireFields(c)
	c.Uint(&id.Execution)
}

// event is a field with an event in its encoding; nil is nil.
func event(c *wire.Codec, ev *history.Event) {
	var b []byte
	var err error
	if !c.Reading() && *ev != nil {
		b, err = history.Encode(*ev)
		c.Keep(err)
	}
	if c.Bytes(&b); c.Reading() && len(b) > 0 && c.Err() == nil {
		*ev, err = history.Decode(0, b)
		c.Keep(err)
	}
}

func events(c *wire.Codec, all *[]history.Event) {
	wire.List(c, all, func(c *wire.Codec, ev *history.Event) {
		if event(c, ev); c.Reading() && *ev == nil {
			c.Keep(errors.New("an event is missing"))
		}
	})
}

// Answer is the answer to a turn or a query.
type Answer struct {
	Missing string // why the member cannot decide or answer; nothing else is set but Busy
	Blocked bool   // the code has not come back; nothing else is set

	Events   [][]byte // encoded
	Popped   int      // inputs that the turn has taken
	Dropped  int
	Overdue  []history.Event
	Due      int64
	Late     []message.Reported
	Replies  []history.Parent // of starts that found the instance there
	Front    [][]byte         // elements, without the seal
	Status   *core.StatusChange
	Unread   []string
	Answers  []rejected // of updates that are not recorded
	Attrs    string
	Heavy    bool
	Early    bool
	Diverged bool
	Sealed   bool // the error is replay.ErrSealed
	Object   bool // the error is replay.ErrObject
	Error    string
	Awaited  replay.Awaited // what the code waits for

	Query *QueryAnswer

	TooLarge int // bytes that the turn would commit, if those are too many; nothing else is set but Fronts
	Fronts   int // what would be in Front

	Busy bool // with Missing: the member has too many requests, or leaves
}

const maxFronts = 1 << 17 // more than an inbox has

// rejected is the answer to an update that the turn takes and does not record, by its place in the inputs.
type rejected struct {
	Input   int
	At      int64
	Failure history.Failure
}

// QueryAnswer is the answer to a query.
type QueryAnswer struct {
	Events  uint64
	Result  history.Payload
	Failure *history.Failure
}

func (a *Answer) fields(c *wire.Codec) {
	c.String(&a.Missing)
	c.Bool(&a.Blocked)
	wire.List(c, &a.Events, (*wire.Codec).Bytes)
	c.Count(&a.Popped)
	c.Count(&a.Dropped)
	events(c, &a.Overdue)
	c.Int(&a.Due)
	wire.List(c, &a.Late, late)
	wire.List(c, &a.Replies, func(c *wire.Codec, p *history.Parent) {
		c.Record(func(c *wire.Codec) {
			c.String(&p.Instance)
			c.Uint(&p.Event)
			c.String(&p.Effect)
		})
	})
	wire.List(c, &a.Front, (*wire.Codec).Bytes)
	wire.Optional(c, &a.Status, func(c *wire.Codec, s *core.StatusChange) {
		s.Payload.WireFields(c)
		c.Uint(&s.Sets)
	})
	wire.List(c, &a.Unread, (*wire.Codec).String)
	wire.List(c, &a.Answers, func(c *wire.Codec, u *rejected) {
		c.Record(func(c *wire.Codec) {
			c.Count(&u.Input)
			c.Int(&u.At)
			u.Failure.WireFields(c)
		})
	})
	c.String(&a.Attrs)
	c.Bool(&a.Heavy)
	c.Bool(&a.Early)
	c.Bool(&a.Diverged)
	c.Bool(&a.Sealed)
	c.Bool(&a.Object)
	c.String(&a.Error)
	wire.List(c, &a.Awaited.Events, (*wire.Codec).String)
	wire.Optional(c, &a.Query, func(c *wire.Codec, q *QueryAnswer) {
		c.Uint(&q.Events)
		q.Result.WireFields(c)
		wire.Optional(c, &q.Failure, func(c *wire.Codec, f *history.Failure) { f.WireFields(c) })
	})
	c.Count(&a.TooLarge)
	c.Count(&a.Fronts)
	c.Bool(&a.Busy)
	wire.List(c, &a.Awaited.Updates, (*wire.Codec).String)
}

func late(c *wire.Codec, l *message.Reported) {
	c.Record(func(c *wire.Codec) {
		c.Uint(&l.Activity)
		c.String((*string)(&l.Report.Ending))
		c.Int(&l.Report.AfterMS)
		c.String(&l.Report.Worker)
		c.Int(&l.Report.At)
	})
}

// Encode writes the answer.
func (a *Answer) Encode() []byte { return wire.Encode(a.fields) }

// DecodeAnswer reads an answer.
func DecodeAnswer(b []byte) (*Answer, error) {
	a := new(Answer)
	if err := wire.Decode(b, a.fields); err != nil {
		return nil, fmt.Errorf("answer of a member: %w", err)
	}
	return a, nil
}

// AnswerOf is what a member answers of a turn that it has decided. Firings are not in it: every process has the code of schedules.
func AnswerOf(g *core.Given, d *core.Decided, awaited replay.Awaited) *Answer {
	if d.Err == nil && d.Size > record.CommitBytes {
		return &Answer{TooLarge: d.Size, Fronts: len(d.Front)}
	}
	a := &Answer{
		Missing: d.Missing, Events: d.Encoded, Popped: len(d.Pop), Dropped: d.Dropped, Overdue: d.Overdue, Due: d.Due, Late: d.Late, Front: d.Front, Status: d.Status,
		Unread: d.Unread, Attrs: d.Attributes, Heavy: d.Heavy, Early: d.Early, Diverged: d.Diverged, Awaited: awaited,
	}
	for _, r := range d.Replies {
		a.Replies = append(a.Replies, history.Parent{Instance: r.Instance, Event: r.Done.Scheduled, Effect: r.Done.Effect})
	}
	for i, u := range g.Inputs[:len(d.Pop)] {
		for _, up := range d.Answers {
			if history.Event(up.Update) == u.Ev && up.Update.ID == 0 && up.Answer.Failure != nil { // else an event has it
				a.Answers = append(a.Answers, rejected{Input: i, At: up.Answer.At, Failure: *up.Answer.Failure})
			}
		}
	}
	if d.Err != nil {
		a.Error, a.Sealed, a.Object = d.Err.Error(), errors.Is(d.Err, replay.ErrSealed), errors.Is(d.Err, replay.ErrObject)
	}
	return a
}

// Decided is the turn that was answered. The state becomes the one behind it.
func (a *Answer) Decided(g *core.Given, state *history.State) *core.Decided {
	d := &core.Decided{Missing: a.Missing}
	d.Fold = state
	switch {
	case a.Missing != "":
		return d
	case a.TooLarge > 0:
		d.Size, d.Front = max(a.TooLarge, record.CommitBytes+1), make([][]byte, min(a.Fronts, maxFronts))
		return d
	}
	if err := a.take(g, d); err != nil {
		d.Err = fmt.Errorf("the decision of another orchestrator: %w", err)
	}
	return d
}

func (a *Answer) take(g *core.Given, d *core.Decided) error {
	if a.Popped > len(g.Inputs) {
		return fmt.Errorf("%d of %d inputs are taken", a.Popped, len(g.Inputs))
	}
	for _, u := range g.Inputs[:a.Popped] {
		d.Pop = append(d.Pop, u.ID)
	}
	d.Dropped, d.Overdue, d.Due, d.Late, d.Status, d.Unread = a.Dropped, a.Overdue, a.Due, a.Late, a.Status, a.Unread
	d.Attributes, d.Heavy, d.Early, d.Diverged = a.Attrs, a.Heavy, a.Early, a.Diverged
	for _, r := range a.Replies {
		d.Replies = append(d.Replies, core.IDConflictReply(g.Identity.Instance, &r))
	}
	for _, u := range a.Answers {
		if u.Input >= a.Popped {
			return fmt.Errorf("update %d of %d inputs is answered", u.Input, a.Popped)
		}
		up, ok := g.Inputs[u.Input].Ev.(*history.UpdateReceived)
		if !ok {
			return fmt.Errorf("input %d is answered, and no update", u.Input)
		}
		d.Answer(up, u.At, &u.Failure)
	}
	for _, b := range a.Events {
		ev, err := history.Decode(d.Fold.Len+1, b)
		if err != nil {
			return err
		}
		if !d.RecordEncoded(ev, b) {
			return d.Err
		}
	}
	for _, b := range a.Front {
		el, err := history.ParseElement(b)
		if err != nil {
			return err
		}
		el.ID += g.Seal
		d.Front = append(d.Front, el.Encode())
		d.Size += len(d.Front[len(d.Front)-1])
	}
	switch {
	case a.Sealed:
		d.Err = fmt.Errorf("%w: %s", replay.ErrSealed, a.Error)
	case a.Object:
		d.Err = fmt.Errorf("%w: %s", replay.ErrObject, a.Error)
	case a.Error != "":
		d.Err = errors.New(a.Error)
	}
	return nil
}
