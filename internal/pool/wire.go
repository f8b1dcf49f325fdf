package pool

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/wire"
	"github.com/pawlrun/pawl/pkg/history"
)

// Found is the answer of a member that has an orchestration.
type Found struct {
	At       string // address of the member
	Version  string // the requested version, or the newest that the member has
	Declared history.Declared
}

func (f *Found) fields(c *wire.Codec) {
	c.String(&f.At)
	c.String(&f.Version)
	b := eventcodec.EncodeDeclared(f.Declared)
	if c.Bytes(&b); c.Reading() && c.Err() == nil {
		var err error
		f.Declared, err = eventcodec.DecodeDeclared(b)
		c.Keep(err)
	}
}

// Encode encodes the answer.
func (f Found) Encode() []byte { return wire.Encode(f.fields) }

// Request is a turn to decide, or a query to answer.
type Request struct {
	Turn  *Turn
	Query *Query
	Size  int // in bytes; set by DecodeRequest
}

// Turn is a turn to decide.
type Turn struct {
	Partition int
	ID        string     // random
	After     string     // id of the turn after which the member may have the code in memory; empty: none
	Given     core.Given // without program, parent, history and seal
}

// Query is a query to answer from a replica of an execution, with its current history.
type Query struct {
	Partition int
	Identity  effectid.Identity
	Name      string // name of the orchestration
	Version   string
	Query     string
	Payload   history.Payload
}

// Encode encodes the request, without the seal with which the ids of elements end.
func (r Request) Encode(seal string) []byte {
	return wire.Encode(func(c *wire.Codec) { r.fields(c, seal) })
}

// DecodeRequest decodes a request.
func DecodeRequest(b []byte) (r Request, err error) {
	err = wire.Decode(b, func(c *wire.Codec) { r.fields(c, "") })
	if err == nil && (r.Turn == nil) == (r.Query == nil) {
		err = errors.New("a request must be either a turn or a query")
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
		eventcodec.PayloadFields(c, &q.Payload)
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
			if c.Reading() {
				u.ID = id
			}
			event(c, &u.Ev)
		})
	})
	events(c, &g.Local)
	events(c, &g.Overdue)
	c.Int(&g.Now)
	c.Int(&g.Until)
	c.Bool(&g.Part)
	c.Bool(&g.More)
	c.Bool(&g.CatchingUp)
}

func identity(c *wire.Codec, id *effectid.Identity) {
	c.String(&id.Instance)
	eventcodec.PositionFields(c, &id.Origin)
	c.Uint(&id.Execution)
}

// event is a field that contains an encoded event, or nil.
func event(c *wire.Codec, ev *history.Event) {
	var b []byte
	var err error
	if !c.Reading() && *ev != nil {
		b, err = eventcodec.Encode(*ev)
		c.Keep(err)
	}
	if c.Bytes(&b); c.Reading() && len(b) > 0 && c.Err() == nil {
		*ev, err = eventcodec.Decode(0, b)
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
	Missing string // why the member cannot decide or answer; of the other fields only Busy may be set
	Blocked bool   // the code blocks; no other field is set

	Events   [][]byte // encoded
	Popped   int      // number of inputs that the turn has taken
	Dropped  int
	Overdue  []history.Event
	Due      int64
	Late     []message.Late
	Replies  []history.Parent // parents whose starts found that the instance exists
	Front    [][]byte         // elements, without the seal
	Status   *core.StatusChange
	Unread   []string
	Answers  []rejected // to updates that are not recorded in the history
	Attrs    string
	Heavy    bool
	Early    bool
	Diverged bool
	Sealed   bool // the error is replay.ErrSealed
	Object   bool // the error is replay.ErrObject
	Error    string
	Awaited  replay.Awaited // what the code waits for

	Query *QueryAnswer

	TooLarge int // size in bytes of a turn that exceeds a commit; of the other fields only Fronts is set
	Fronts   int // the length that Front would have

	Busy bool // with Missing: the member has too many requests, or is stopping
}

const maxFronts = 1 << 17 // more than the elements of any inbox

// rejected is the rejection of an update that the turn takes without recording it. Input is the index of the update in the inputs.
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
		eventcodec.PayloadFields(c, &s.Payload)
		c.Uint(&s.Sets)
	})
	wire.List(c, &a.Unread, (*wire.Codec).String)
	wire.List(c, &a.Answers, func(c *wire.Codec, u *rejected) {
		c.Record(func(c *wire.Codec) {
			c.Count(&u.Input)
			c.Int(&u.At)
			eventcodec.FailureFields(c, &u.Failure)
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
		eventcodec.PayloadFields(c, &q.Result)
		wire.Optional(c, &q.Failure, eventcodec.FailureFields)
	})
	c.Count(&a.TooLarge)
	c.Count(&a.Fronts)
	c.Bool(&a.Busy)
	wire.List(c, &a.Awaited.Updates, (*wire.Codec).String)
}

func late(c *wire.Codec, l *message.Late) {
	c.Record(func(c *wire.Codec) {
		c.Uint(&l.Activity)
		c.String(&l.Worker)
		c.Int(&l.At)
	})
}

// Encode encodes the answer.
func (a *Answer) Encode() []byte { return wire.Encode(a.fields) }

// DecodeAnswer decodes an answer.
func DecodeAnswer(b []byte) (*Answer, error) {
	a := new(Answer)
	if err := wire.Decode(b, a.fields); err != nil {
		return nil, fmt.Errorf("answer of a member: %w", err)
	}
	return a, nil
}

// AnswerOf returns the answer for a turn that a member has decided. It contains no Firings, because all processes have the code of schedules and
// decide those turns themselves.
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
			if history.Event(up.Update) == u.Ev && up.Update.ID == 0 && up.Answer.Failure != nil { // otherwise an event records the answer
				a.Answers = append(a.Answers, rejected{Input: i, At: up.Answer.At, Failure: *up.Answer.Failure})
			}
		}
	}
	if d.Err != nil {
		a.Error, a.Sealed, a.Object = d.Err.Error(), errors.Is(d.Err, replay.ErrSealed), errors.Is(d.Err, replay.ErrObject)
	}
	return a
}

// Decided converts an answer to the decided turn. state is the state before the turn, and is advanced to the one after it.
func (a *Answer) Decided(g *core.Given, state *fold.State) *core.Decided {
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
		ev, err := eventcodec.Decode(d.Fold.Len+1, b)
		if err != nil {
			return err
		}
		if !d.RecordEncoded(ev, b) {
			return d.Err
		}
	}
	for _, b := range a.Front {
		el, err := eventcodec.ParseElement(b)
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
