package history

import (
	"errors"
	"fmt"
	"math"
)

// Version is the newest encoding that this build reads. It writes the oldest one that can express the event: 1, but 2 where a limit
// is recorded, because a build without limits would give a waiter a lease.
//
// An event is one msgpack array: version, kind, time, then the fields of its kind in a fixed order. A field is only ever added at
// the end; readers take what is missing as zero and skip what they do not know. The version changes only when that is not enough.
const Version = 2

// The errors of decoding. Both are wrapped with what was being read.
var (
	// ErrNewerVersion is an event that a newer build wrote. Run that build, or a newer one.
	ErrNewerVersion = errors.New("written by a newer version of Pawl")
	// ErrCorrupt is a sequence of bytes that is no event.
	ErrCorrupt = errors.New("corrupt history")
)

// Encode returns the bytes of an event.
func Encode(e Event) ([]byte, error) {
	c := newWriter()
	defer c.free()
	e.fields(c)
	b := c.bytes(3, func() {
		c.keep(c.enc.EncodeUint(encoding(e)))
		c.keep(c.enc.EncodeUint(uint64(e.Kind())))
		c.keep(c.enc.EncodeInt(e.Meta().At))
	})
	if c.err != nil {
		return nil, fmt.Errorf("history: encode %T: %w", e, c.err)
	}
	return b, nil
}

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

// Decode reads the event at place id. It never panics: what is not an event is ErrCorrupt, what a newer build wrote is
// ErrNewerVersion.
func Decode(id uint64, b []byte) (Event, error) {
	c, err := newReader(b)
	if err != nil {
		return nil, fmt.Errorf("event %d: %w: %w", id, ErrCorrupt, err)
	}
	defer c.free()
	var version, kind uint64
	h := Head{ID: id}
	c.uint(&version)
	c.uint(&kind)
	c.int(&h.At)
	if c.err == nil && version > Version {
		return nil, fmt.Errorf("event %d: encoding %d, this build reads up to %d: %w", id, version, Version, ErrNewerVersion)
	}
	if c.err == nil && (version == 0 || kind == 0) {
		c.keep(errHead)
	}
	var e Event
	if kind <= math.MaxUint8 && int(kind) < len(kinds) && kinds[kind] != nil {
		e = kinds[kind]()
		e.fields(c)
	}
	c.rest()
	if c.err != nil {
		return nil, fmt.Errorf("event %d: %w: %w", id, ErrCorrupt, c.err)
	}
	if e == nil {
		return nil, fmt.Errorf("event %d: unknown kind %d: %w", id, kind, ErrNewerVersion)
	}
	*e.Meta() = h
	return e, nil
}

// kinds makes an empty event of each kind.
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
}

func (e *Started) fields(c *codec) {
	p, n := Parent{}, CancelNote{}
	if e.Parent != nil {
		p = *e.Parent
	}
	if e.Cancel != nil {
		n = *e.Cancel
	}
	c.str(&e.Name)
	c.str(&e.Version)
	c.payload(&e.Payload)
	c.position(&e.Origin)
	c.uint(&e.Execution)
	c.str(&e.By)
	c.uint(&e.StatusVersion)
	c.str(&p.Instance)
	c.position(&p.Origin)
	c.uint(&p.Execution)
	c.uint(&p.Event)
	c.str(&p.Effect)
	c.str(&p.HeldLimits)
	c.limit(&e.Limit)
	c.payload(&e.CustomStatus)
	c.uint(&p.Depth)
	c.str(&p.AncestorMarks)
	c.int(&n.At)
	number(c, &n.Reason, math.MaxUint8)
	c.str(&n.By)
	c.str(&n.Text)
	if c.dec != nil && p.Instance != "" {
		e.Parent = &p
	}
	if c.dec != nil && n.At != 0 {
		e.Cancel = &n
	}
}

func (c *codec) position(p *Position) {
	c.uint(&p.Seq)
	c.int(&p.Time)
}

func (e *EventReceived) fields(c *codec) {
	c.str(&e.Name)
	c.payload(&e.Payload)
	c.str(&e.MsgID)
	c.str(&e.By)
}

func (e *CancelRequested) fields(c *codec) {
	c.str(&e.By)
	c.str(&e.Text)
	number(c, &e.Reason, math.MaxUint8)
	c.str(&e.Of)
}

func (e *ActivityScheduled) fields(c *codec) {
	c.str(&e.Name)
	c.str(&e.Queue)
	c.payload(&e.Payload)
	c.str(&e.Effect)
	c.uint32(&e.Attempt)
	c.str(&e.First)
	c.limit(&e.Limit)
}

func (e *ActivityCompleted) fields(c *codec) {
	c.uint(&e.Scheduled)
	c.payload(&e.Result)
	c.str(&e.Worker)
	c.uint32(&e.Claims)
}

func (e *ActivityFailed) fields(c *codec) {
	c.uint(&e.Scheduled)
	c.failure(&e.Failure)
	c.str(&e.Worker)
	c.uint32(&e.Claims)
}

func (e *ActivityCancelRequested) fields(c *codec) {
	c.uint(&e.Scheduled)
	number(c, &e.Reason, math.MaxUint8)
	c.str(&e.By)
	c.str(&e.Text)
}

func (e *TimerScheduled) fields(c *codec) {
	c.int(&e.FireAt)
	c.uint(&e.RetainsSlotOf)
	c.uint(&e.AttemptTimeoutOf)
}

func (e *TimerFired) fields(c *codec)     { c.uint(&e.Timer) }
func (e *TimerCancelled) fields(c *codec) { c.uint(&e.Timer) }
func (e *Completed) fields(c *codec)      { c.payload(&e.Result) }
func (e *Failed) fields(c *codec)         { c.failure(&e.Failure) }
func (e *Granted) fields(c *codec)        { c.uint(&e.Scheduled) }
func (e *PatchMarked) fields(c *codec)    { c.str(&e.Name) }
func (*Observed) fields(*codec)           {}

func (e *Cancelled) fields(c *codec) {
	c.failure(&e.Failure)
	c.str(&e.By)
	c.str(&e.Text)
}

func (e *SideEffectRecorded) fields(c *codec) {
	var f Failure
	failed := e.Failure != nil
	if failed {
		f = *e.Failure
	}
	c.payload(&e.Result)
	c.bool(&failed)
	c.failure(&f)
	if c.dec != nil && failed {
		e.Failure = &f
	}
}

func (e *ContinuedAsNew) fields(c *codec) {
	c.payload(&e.Payload)
	c.str(&e.Version)
}

func (e *ChildScheduled) fields(c *codec) {
	c.str(&e.Name)
	c.str(&e.Version)
	c.str(&e.Instance)
	c.payload(&e.Payload)
	c.str(&e.Effect)
	c.bool(&e.Abandon)
	c.bool(&e.Detached)
	c.bool(&e.InDetachedScope)
}

func (e *ChildCompleted) fields(c *codec) {
	c.uint(&e.Scheduled)
	c.str(&e.Effect)
	c.payload(&e.Result)
}

func (e *ChildFailed) fields(c *codec) {
	c.uint(&e.Scheduled)
	c.str(&e.Effect)
	c.failure(&e.Failure)
}

func (e *ChildCancelRequested) fields(c *codec) {
	c.uint(&e.Scheduled)
	number(c, &e.Reason, math.MaxUint8)
	c.str(&e.By)
	c.str(&e.Text)
}

func (e *EventSent) fields(c *codec) {
	var s SentStart
	if e.Start != nil {
		s = *e.Start
	}
	c.str(&e.Instance)
	c.str(&e.Name)
	c.payload(&e.Payload)
	c.str(&e.Effect)
	c.str(&s.Name)
	c.str(&s.Version)
	c.payload(&s.Payload)
	if c.dec != nil && s.Name != "" {
		e.Start = &s
	}
}

func (e *Refused) fields(c *codec) {
	number(c, &e.Of, math.MaxUint8)
	c.str(&e.Name)
	c.failure(&e.Failure)
}

func (e *PurgeRequested) fields(c *codec) {
	c.str(&e.By)
	c.str(&e.Text)
	c.bool(&e.Force)
	c.str(&e.Reply)
}

// limit takes seven places; zero is a placeholder.
func (c *codec) limit(l **Limit) {
	switch {
	case c.enc != nil:
		var v Limit
		if *l != nil {
			v = **l
		}
		v.fields(c)
	case c.places > 0:
		v := &Limit{}
		if v.fields(c); *v != (Limit{}) {
			*l = v
		}
	}
}

// fields describes a limit. The declaration is a byte string, because the limiter stores it, too.
func (l *Limit) fields(c *codec) {
	declared := l.Declared.Encode()
	c.str(&l.Name)
	c.str(&l.Ticket)
	c.bool(&l.Waiting)
	c.bool(&l.Retain)
	c.str(&l.HeldByAncestor)
	c.int(&l.WaitingSince)
	c.data(&declared)
	if c.dec != nil {
		var err error
		l.Declared, err = DecodeDeclared(declared)
		c.keep(err)
	}
}

// Encode returns the bytes of a declaration; none if it is empty.
func (d Declared) Encode() []byte {
	if d == (Declared{}) {
		return nil
	}
	c := newWriter()
	defer c.free()
	d.fields(c)
	return c.bytes(0, func() {})
}

// DecodeDeclared reads what Encode wrote. The error matches ErrCorrupt.
func DecodeDeclared(b []byte) (Declared, error) {
	if len(b) == 0 {
		return Declared{}, nil
	}
	c, err := newReader(b)
	if err != nil {
		return Declared{}, fmt.Errorf("declared limits: %w: %w", ErrCorrupt, err)
	}
	defer c.free()
	var d Declared
	d.fields(c)
	c.rest()
	if c.err != nil {
		return Declared{}, fmt.Errorf("declared limits: %w: %w", ErrCorrupt, c.err)
	}
	return d, nil
}

func (d *Declared) fields(c *codec) {
	c.str(&d.Group)
	c.policy(&d.Action)
	c.policy(&d.GroupPolicy)
}

// policy takes ten places: whether there is one, and its fields.
func (c *codec) policy(p **Policy) {
	var v Policy
	there := *p != nil
	if there {
		v = **p
	}
	c.bool(&there)
	c.uint32(&v.Concurrency)
	c.uint32(&v.Rate)
	c.int(&v.RateWindow)
	c.uint(&v.Quota)
	c.int(&v.QuotaWindow)
	c.str(&v.Key)
	c.uint32(&v.QueueLimit)
	c.int(&v.QueueTimeout)
	c.bool(&v.Reject)
	if c.dec != nil && there {
		*p = &v
	}
}
