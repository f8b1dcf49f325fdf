package history

import (
	"errors"
	"fmt"
	"math"

	"github.com/pawlrun/pawl/internal/wire"
)

// Version is the newest encoding that this build reads. An event is written in the oldest encoding that can express it: 1, or 2 if it
// records a limit, because a build without limits would give a waiter a lease.
//
// An event is one msgpack array: version, kind, time, then the fields of its kind in a fixed order. New fields are only ever
// appended; readers take missing fields as zero and skip unknown ones. The version changes only when that is not enough.
const Version = 2

// The errors of decoding. Both are wrapped with the name of what was being decoded.
var (
	// ErrNewerVersion is the error of an event that a newer build wrote. Run that build, or a newer one.
	ErrNewerVersion = errors.New("written by a newer version of Pawl")
	// ErrCorrupt is the error of bytes that are not a valid event.
	ErrCorrupt = errors.New("corrupt history")
)

// Encode returns the bytes of an event.
func Encode(e Event) ([]byte, error) {
	c := wire.NewWriter()
	version, kind := encoding(e), uint64(e.Kind())
	c.Uint(&version)
	c.Uint(&kind)
	c.Int(&e.Meta().At)
	c.Required()
	e.fields(c)
	b, err := c.Written()
	if err != nil {
		return nil, fmt.Errorf("history: encode %T: %w", e, err)
	}
	return b, nil
}

// encoding returns the version of the encoding that an event is written in.
func encoding(e Event) uint64 {
	switch e := e.(type) {
	case *ActivityScheduled:
		if e.Limit != nil {
			return 2
		}
	case *Started:
		if e.Limit != nil {
			return 2
		}
	}
	return 1
}

var errHead = errors.New("no version or no kind")

// Decode reads the event with the given id. It never panics: the error matches ErrNewerVersion if a newer build wrote the event, and
// ErrCorrupt if b is not an event.
func Decode(id uint64, b []byte) (Event, error) {
	c, err := wire.NewReader(b)
	if err != nil {
		return nil, fmt.Errorf("event %d: %w: %w", id, ErrCorrupt, err)
	}
	var version, kind uint64
	h := Head{ID: id}
	c.Uint(&version)
	c.Uint(&kind)
	c.Int(&h.At)
	newer := c.Err() == nil && version > Version
	if version == 0 || kind == 0 {
		c.Keep(errHead)
	}
	var e Event
	if !newer && kind <= math.MaxUint8 && int(kind) < len(kinds) && kinds[kind] != nil {
		e = kinds[kind]()
		e.fields(c)
	}
	err = c.Read()
	switch {
	case newer:
		return nil, fmt.Errorf("event %d: encoding %d, this build reads up to %d: %w", id, version, Version, ErrNewerVersion)
	case err != nil:
		return nil, fmt.Errorf("event %d: %w: %w", id, ErrCorrupt, err)
	case e == nil:
		return nil, fmt.Errorf("event %d: unknown kind %d: %w", id, kind, ErrNewerVersion)
	}
	*e.Meta() = h
	return e, nil
}

// kinds contains the constructor of an empty event of each kind.
var kinds = [...]func() Event{
	KindStarted:                 func() Event { return &Started{} },
	KindEventReceived:           func() Event { return &EventReceived{} },
	KindCancelRequested:         func() Event { return &CancelRequested{} },
	KindActivityScheduled:       func() Event { return &ActivityScheduled{} },
	KindActivityCompleted:       func() Event { return &ActivityCompleted{} },
	KindActivityFailed:          func() Event { return &ActivityFailed{} },
	KindActivityCancelRequested: func() Event { return &ActivityCancelRequested{} },
	KindTimerScheduled:          func() Event { return &TimerScheduled{} },
	KindTimerFired:              func() Event { return &TimerFired{} },
	KindTimerCancelled:          func() Event { return &TimerCancelled{} },
	KindCompleted:               func() Event { return &Completed{} },
	KindFailed:                  func() Event { return &Failed{} },
	KindCancelled:               func() Event { return &Cancelled{} },
	KindSideEffectRecorded:      func() Event { return &SideEffectRecorded{} },
	KindContinuedAsNew:          func() Event { return &ContinuedAsNew{} },
	KindChildScheduled:          func() Event { return &ChildScheduled{} },
	KindChildCompleted:          func() Event { return &ChildCompleted{} },
	KindChildFailed:             func() Event { return &ChildFailed{} },
	KindChildCancelRequested:    func() Event { return &ChildCancelRequested{} },
	KindEventSent:               func() Event { return &EventSent{} },
	KindPatchMarked:             func() Event { return &PatchMarked{} },
	KindPurgeRequested:          func() Event { return &PurgeRequested{} },
	KindGranted:                 func() Event { return &Granted{} },
	KindObserved:                func() Event { return &Observed{} },
	KindRefused:                 func() Event { return &Refused{} },
	KindUpdateReceived:          func() Event { return &UpdateReceived{} },
	KindUpdateAnswered:          func() Event { return &UpdateAnswered{} },
	KindOperatorRequested:       func() Event { return &OperatorRequested{} },
	KindPaused:                  func() Event { return &Paused{} },
	KindResumed:                 func() Event { return &Resumed{} },
	KindRewound:                 func() Event { return &Rewound{} },
	KindBroadcast:               func() Event { return &Broadcast{} },
}

func (e *Started) fields(c *wire.Codec) {
	p, n := Parent{}, CancelNote{}
	if e.Parent != nil {
		p = *e.Parent
	}
	if e.Cancel != nil {
		n = *e.Cancel
	}
	c.String(&e.Name)
	c.String(&e.Version)
	payload(c, &e.Payload)
	e.Origin.WireFields(c)
	c.Uint(&e.Execution)
	c.String(&e.By)
	c.Uint(&e.StatusVersion)
	c.String(&p.Instance)
	p.Origin.WireFields(c)
	c.Uint(&p.Execution)
	c.Uint(&p.Event)
	c.String(&p.Effect)
	c.String(&p.HeldLimits)
	limitField(c, &e.Limit)
	payload(c, &e.CustomStatus)
	c.Uint(&p.Depth)
	c.String(&p.AncestorMarks)
	c.Int(&n.At)
	wire.Number(c, &n.Reason)
	c.String(&n.By)
	c.String(&n.Text)
	c.String((*string)(&e.Headers))
	c.String(&e.Attributes)
	c.Int(&e.StartAt)
	c.Int(&e.Timeout)
	c.Int(&e.Deadline)
	wire.Number(c, &e.Reuse)
	c.String(&e.MsgID)
	wire.ListOf(c, &e.Recorded, maxRecorded, func(c *wire.Codec, r *Recorded) { c.Record(r.fields) })
	if c.Reading() && p.Instance != "" {
		e.Parent = &p
	}
	if c.Reading() && n.At != 0 {
		e.Cancel = &n
	}
}

func (e *EventReceived) fields(c *wire.Codec) {
	c.String(&e.Name)
	payload(c, &e.Payload)
	c.String(&e.MsgID)
	c.String(&e.By)
	c.String((*string)(&e.Headers))
}

func (e *CancelRequested) fields(c *wire.Codec) {
	c.String(&e.By)
	c.String(&e.Text)
	wire.Number(c, &e.Reason)
	c.String(&e.Of)
}

func (e *ActivityScheduled) fields(c *wire.Codec) {
	c.String(&e.Name)
	c.String(&e.Queue)
	payload(c, &e.Payload)
	c.String(&e.Effect)
	wire.Number(c, &e.Attempt)
	c.String(&e.First)
	limitField(c, &e.Limit)
}

func (e *ActivityCompleted) fields(c *wire.Codec) {
	c.Uint(&e.Scheduled)
	payload(c, &e.Result)
	c.String(&e.Worker)
	wire.Number(c, &e.Claims)
	wire.Number(c, &e.RanMS)
}

func (e *ActivityFailed) fields(c *wire.Codec) {
	c.Uint(&e.Scheduled)
	failure(c, &e.Failure)
	c.String(&e.Worker)
	wire.Number(c, &e.Claims)
	wire.Number(c, &e.RanMS)
}

func (e *ActivityCancelRequested) fields(c *wire.Codec) {
	c.Uint(&e.Scheduled)
	wire.Number(c, &e.Reason)
	c.String(&e.By)
	c.String(&e.Text)
}

func (e *TimerScheduled) fields(c *wire.Codec) {
	c.Int(&e.FireAt)
	c.Uint(&e.RetainsSlotOf)
	c.Uint(&e.AttemptTimeoutOf)
}

func (e *TimerFired) fields(c *wire.Codec)     { c.Uint(&e.Timer) }
func (e *TimerCancelled) fields(c *wire.Codec) { c.Uint(&e.Timer) }
func (e *Completed) fields(c *wire.Codec)      { payload(c, &e.Result) }
func (e *Granted) fields(c *wire.Codec)        { c.Uint(&e.Scheduled) }
func (e *PatchMarked) fields(c *wire.Codec)    { c.String(&e.Name) }
func (*Observed) fields(*wire.Codec)           {}

func (e *Failed) fields(c *wire.Codec) {
	failure(c, &e.Failure)
	c.Bool(&e.Forced)
}

func (e *Cancelled) fields(c *wire.Codec) {
	failure(c, &e.Failure)
	c.String(&e.By)
	c.String(&e.Text)
	c.Bool(&e.Forced)
}

func (e *SideEffectRecorded) fields(c *wire.Codec) { outcome(c, &e.Result, &e.Failure) }

func (e *ContinuedAsNew) fields(c *wire.Codec) {
	payload(c, &e.Payload)
	c.String(&e.Version)
}

func (e *ChildScheduled) fields(c *wire.Codec) {
	c.String(&e.Name)
	c.String(&e.Version)
	c.String(&e.Instance)
	payload(c, &e.Payload)
	c.String(&e.Effect)
	c.Bool(&e.Abandon)
	c.Bool(&e.Detached)
	c.Bool(&e.InDetachedScope)
}

func (e *ChildCompleted) fields(c *wire.Codec) {
	c.Uint(&e.Scheduled)
	c.String(&e.Effect)
	payload(c, &e.Result)
}

func (e *ChildFailed) fields(c *wire.Codec) {
	c.Uint(&e.Scheduled)
	c.String(&e.Effect)
	failure(c, &e.Failure)
}

func (e *ChildCancelRequested) fields(c *wire.Codec) {
	c.Uint(&e.Scheduled)
	wire.Number(c, &e.Reason)
	c.String(&e.By)
	c.String(&e.Text)
}

func (e *EventSent) fields(c *wire.Codec) {
	var s SentStart
	if e.Start != nil {
		s = *e.Start
	}
	c.String(&e.Instance)
	c.String(&e.Name)
	payload(c, &e.Payload)
	c.String(&e.Effect)
	c.String(&s.Name)
	c.String(&s.Version)
	payload(c, &s.Payload)
	if c.Reading() && s.Name != "" {
		e.Start = &s
	}
}

func (e *Refused) fields(c *wire.Codec) {
	wire.Number(c, &e.Of)
	c.String(&e.Name)
	failure(c, &e.Failure)
}

func (e *PurgeRequested) fields(c *wire.Codec) {
	c.String(&e.By)
	c.String(&e.Text)
	c.Bool(&e.Force)
	c.String(&e.Reply)
	c.String(&e.Of)
}

// limitField takes seven fields. All of them are zero if there is no limit.
func limitField(c *wire.Codec, l **Limit) {
	switch {
	case !c.Reading():
		var v Limit
		if *l != nil {
			v = **l
		}
		v.fields(c)
	case c.More():
		v := &Limit{}
		if v.fields(c); *v != (Limit{}) {
			*l = v
		}
	}
}

// fields describes a limit. Its declaration is encoded as a byte string, because the limiter stores it in that form.
func (l *Limit) fields(c *wire.Codec) {
	declared := l.Declared.Encode()
	c.String(&l.Name)
	c.String(&l.Ticket)
	c.Bool(&l.Waiting)
	c.Bool(&l.Retain)
	c.String(&l.HeldByAncestor)
	c.Int(&l.WaitingSince)
	c.Bytes(&declared)
	if c.Reading() {
		var err error
		l.Declared, err = DecodeDeclared(declared)
		c.Keep(err)
	}
}

// Encode returns the bytes of a declaration; nil if it is empty.
func (d Declared) Encode() []byte {
	if d == (Declared{}) {
		return nil
	}
	c := wire.NewWriter()
	d.fields(c)
	b, err := c.Written()
	if err != nil { // numbers and strings can be encoded
		panic("history: encode declared limits: " + err.Error())
	}
	return b
}

// DecodeDeclared reads the output of Encode. The error matches ErrCorrupt.
func DecodeDeclared(b []byte) (Declared, error) {
	if len(b) == 0 {
		return Declared{}, nil
	}
	var d Declared
	c, err := wire.NewReader(b)
	if err == nil {
		d.fields(c)
		err = c.Read()
	}
	if err != nil {
		return Declared{}, fmt.Errorf("declared limits: %w: %w", ErrCorrupt, err)
	}
	return d, nil
}

func (d *Declared) fields(c *wire.Codec) {
	c.String(&d.Group)
	policyField(c, &d.Action)
	policyField(c, &d.GroupPolicy)
}

// policyField takes ten fields: whether there is a policy, and its nine fields.
func policyField(c *wire.Codec, p **Policy) {
	var v Policy
	there := *p != nil
	if there {
		v = **p
	}
	c.Bool(&there)
	v.declared(c)
	if c.Reading() && there {
		*p = &v
	}
}

// symbolJSON stands for TypeJSON, which almost every event would otherwise repeat.
const symbolJSON = 2

// payload takes two fields: type and data.
func payload(c *wire.Codec, p *Payload) {
	c.Symbol(&p.Type, TypeJSON, symbolJSON)
	c.Bytes(&p.Data)
}

// outcome takes four fields: the result, whether there is a failure instead, and that failure.
func outcome(c *wire.Codec, result *Payload, f **Failure) {
	var v Failure
	failed := *f != nil
	if failed {
		v = **f
	}
	payload(c, result)
	c.Bool(&failed)
	failure(c, &v)
	if c.Reading() && failed {
		*f = &v
	}
}

func failure(c *wire.Codec, f *Failure) {
	c.Record(func(c *wire.Codec) {
		c.String(&f.Code)
		c.String(&f.Message)
		payload(c, &f.Data)
		c.Bool(&f.Permanent)
		c.String(&f.Stack)
		wire.List(c, &f.Also, (*wire.Codec).String)
	})
}
