// Package eventcodec encodes and decodes events, inbox elements, declared limits, custom statuses and answers to updates, as Redis stores
// them and messages carry them.
package eventcodec

import (
	"errors"
	"fmt"
	"math"

	"github.com/pawlrun/pawl/internal/wire"
	"github.com/pawlrun/pawl/pkg/history"
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
func Encode(e history.Event) ([]byte, error) {
	c := wire.NewWriter()
	version, number := encoding(e), uint64(e.Kind())
	c.Uint(&version)
	c.Uint(&number)
	c.Int(&e.Meta().At)
	c.Required()
	kinds[number].fields(c, e)
	b, err := c.Written()
	if err != nil {
		return nil, fmt.Errorf("history: encode %T: %w", e, err)
	}
	return b, nil
}

// encoding returns the version of the encoding that an event is written in.
func encoding(e history.Event) uint64 {
	switch e := e.(type) {
	case *history.ActivityScheduled:
		if e.Limit != nil {
			return 2
		}
	case *history.Started:
		if e.Limit != nil {
			return 2
		}
	}
	return 1
}

var errHead = errors.New("no version or no kind")

// Decode reads the event with the given id. It never panics: the error matches ErrNewerVersion if a newer build wrote the event, and
// ErrCorrupt if b is not an event.
func Decode(id uint64, b []byte) (history.Event, error) {
	c, err := wire.NewReader(b)
	if err != nil {
		return nil, fmt.Errorf("event %d: %w: %w", id, ErrCorrupt, err)
	}
	var version, number uint64
	h := history.Head{ID: id}
	c.Uint(&version)
	c.Uint(&number)
	c.Int(&h.At)
	newer := c.Err() == nil && version > Version
	if version == 0 || number == 0 {
		c.Keep(errHead)
	}
	var e history.Event
	if !newer && number <= math.MaxUint8 && int(number) < len(kinds) && kinds[number].empty != nil {
		e = kinds[number].empty()
		kinds[number].fields(c, e)
	}
	err = c.Read()
	switch {
	case newer:
		return nil, fmt.Errorf("event %d: encoding %d, this build reads up to %d: %w", id, version, Version, ErrNewerVersion)
	case err != nil:
		return nil, fmt.Errorf("event %d: %w: %w", id, ErrCorrupt, err)
	case e == nil:
		return nil, fmt.Errorf("event %d: unknown kind %d: %w", id, number, ErrNewerVersion)
	}
	*e.Meta() = h
	return e, nil
}

// kind is what the encoding needs of an event type.
type kind struct {
	empty  func() history.Event
	fields func(*wire.Codec, history.Event)
}

// kindOf returns the kind of a type whose encoding fields describes, both for writing and for reading.
func kindOf[T any, E interface {
	*T
	history.Event
}](fields func(*wire.Codec, E),
) kind {
	return kind{
		empty:  func() history.Event { return E(new(T)) },
		fields: func(c *wire.Codec, e history.Event) { fields(c, e.(E)) }, //nolint:forcetypeassert // the kind of an event determines its type
	}
}

// kinds contains the event types by kind.
var kinds = [...]kind{
	history.KindStarted:                 kindOf(started),
	history.KindEventReceived:           kindOf(eventReceived),
	history.KindCancelRequested:         kindOf(cancelRequested),
	history.KindActivityScheduled:       kindOf(activityScheduled),
	history.KindActivityCompleted:       kindOf(activityCompleted),
	history.KindActivityFailed:          kindOf(activityFailed),
	history.KindActivityCancelRequested: kindOf(activityCancelRequested),
	history.KindTimerScheduled:          kindOf(timerScheduled),
	history.KindTimerFired:              kindOf(timerFired),
	history.KindTimerCancelled:          kindOf(timerCancelled),
	history.KindCompleted:               kindOf(completed),
	history.KindFailed:                  kindOf(failed),
	history.KindCancelled:               kindOf(cancelled),
	history.KindSideEffectRecorded:      kindOf(sideEffectRecorded),
	history.KindContinuedAsNew:          kindOf(continuedAsNew),
	history.KindChildScheduled:          kindOf(childScheduled),
	history.KindChildCompleted:          kindOf(childCompleted),
	history.KindChildFailed:             kindOf(childFailed),
	history.KindChildCancelRequested:    kindOf(childCancelRequested),
	history.KindEventSent:               kindOf(eventSent),
	history.KindPatchMarked:             kindOf(patchMarked),
	history.KindPurgeRequested:          kindOf(purgeRequested),
	history.KindGranted:                 kindOf(granted),
	history.KindObserved:                kindOf(observed),
	history.KindRefused:                 kindOf(refused),
	history.KindUpdateReceived:          kindOf(updateReceived),
	history.KindUpdateAnswered:          kindOf(updateAnswered),
	history.KindOperatorRequested:       kindOf(operatorRequested),
	history.KindPaused:                  kindOf(paused),
	history.KindResumed:                 kindOf(resumed),
	history.KindRewound:                 kindOf(rewound),
	history.KindBroadcast:               kindOf(broadcast),
}

func started(c *wire.Codec, e *history.Started) {
	p, n := history.Parent{}, history.CancelNote{}
	if e.Parent != nil {
		p = *e.Parent
	}
	if e.Cancel != nil {
		n = *e.Cancel
	}
	c.String(&e.Name)
	c.String(&e.Version)
	payload(c, &e.Payload)
	PositionFields(c, &e.Origin)
	c.Uint(&e.Execution)
	c.String(&e.By)
	c.Uint(&e.StatusVersion)
	c.String(&p.Instance)
	PositionFields(c, &p.Origin)
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
	wire.ListOf(c, &e.Recorded, MaxRecorded, func(c *wire.Codec, r *history.Recorded) { c.Record(func(c *wire.Codec) { recordedFields(c, r) }) })
	if c.Reading() && p.Instance != "" {
		e.Parent = &p
	}
	if c.Reading() && n.At != 0 {
		e.Cancel = &n
	}
}

func eventReceived(c *wire.Codec, e *history.EventReceived) {
	c.String(&e.Name)
	payload(c, &e.Payload)
	c.String(&e.MsgID)
	c.String(&e.By)
	c.String((*string)(&e.Headers))
}

func cancelRequested(c *wire.Codec, e *history.CancelRequested) {
	c.String(&e.By)
	c.String(&e.Text)
	wire.Number(c, &e.Reason)
	c.String(&e.Of)
}

func activityScheduled(c *wire.Codec, e *history.ActivityScheduled) {
	c.String(&e.Name)
	c.String(&e.Queue)
	payload(c, &e.Payload)
	c.String(&e.Effect)
	wire.Number(c, &e.Attempt)
	c.String(&e.First)
	limitField(c, &e.Limit)
}

func activityCompleted(c *wire.Codec, e *history.ActivityCompleted) {
	c.Uint(&e.Scheduled)
	payload(c, &e.Result)
	c.String(&e.Worker)
	wire.Number(c, &e.Claims)
	wire.Number(c, &e.RanMS)
}

func activityFailed(c *wire.Codec, e *history.ActivityFailed) {
	c.Uint(&e.Scheduled)
	failure(c, &e.Failure)
	c.String(&e.Worker)
	wire.Number(c, &e.Claims)
	wire.Number(c, &e.RanMS)
}

func activityCancelRequested(c *wire.Codec, e *history.ActivityCancelRequested) {
	c.Uint(&e.Scheduled)
	wire.Number(c, &e.Reason)
	c.String(&e.By)
	c.String(&e.Text)
}

func timerScheduled(c *wire.Codec, e *history.TimerScheduled) {
	c.Int(&e.FireAt)
	c.Uint(&e.RetainsSlotOf)
	c.Uint(&e.AttemptTimeoutOf)
}

func timerFired(c *wire.Codec, e *history.TimerFired) { c.Uint(&e.Timer) }

func timerCancelled(c *wire.Codec, e *history.TimerCancelled) { c.Uint(&e.Timer) }

func completed(c *wire.Codec, e *history.Completed) { payload(c, &e.Result) }

func granted(c *wire.Codec, e *history.Granted) { c.Uint(&e.Scheduled) }

func patchMarked(c *wire.Codec, e *history.PatchMarked) { c.String(&e.Name) }

func observed(*wire.Codec, *history.Observed) {}

func failed(c *wire.Codec, e *history.Failed) {
	failure(c, &e.Failure)
	c.Bool(&e.Forced)
}

func cancelled(c *wire.Codec, e *history.Cancelled) {
	failure(c, &e.Failure)
	c.String(&e.By)
	c.String(&e.Text)
	c.Bool(&e.Forced)
}

func sideEffectRecorded(c *wire.Codec, e *history.SideEffectRecorded) {
	outcome(c, &e.Result, &e.Failure)
}

func continuedAsNew(c *wire.Codec, e *history.ContinuedAsNew) {
	payload(c, &e.Payload)
	c.String(&e.Version)
}

func childScheduled(c *wire.Codec, e *history.ChildScheduled) {
	c.String(&e.Name)
	c.String(&e.Version)
	c.String(&e.Instance)
	payload(c, &e.Payload)
	c.String(&e.Effect)
	c.Bool(&e.Abandon)
	c.Bool(&e.Detached)
	c.Bool(&e.InDetachedScope)
}

func childCompleted(c *wire.Codec, e *history.ChildCompleted) {
	c.Uint(&e.Scheduled)
	c.String(&e.Effect)
	payload(c, &e.Result)
}

func childFailed(c *wire.Codec, e *history.ChildFailed) {
	c.Uint(&e.Scheduled)
	c.String(&e.Effect)
	failure(c, &e.Failure)
}

func childCancelRequested(c *wire.Codec, e *history.ChildCancelRequested) {
	c.Uint(&e.Scheduled)
	wire.Number(c, &e.Reason)
	c.String(&e.By)
	c.String(&e.Text)
}

func eventSent(c *wire.Codec, e *history.EventSent) {
	var s history.SentStart
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

func refused(c *wire.Codec, e *history.Refused) {
	wire.Number(c, &e.Of)
	c.String(&e.Name)
	failure(c, &e.Failure)
}

func purgeRequested(c *wire.Codec, e *history.PurgeRequested) {
	c.String(&e.By)
	c.String(&e.Text)
	c.Bool(&e.Force)
	c.String(&e.Reply)
	c.String(&e.Of)
}

// MaxRecorded is the maximum number of places at which the executions of an imported instance were recorded.
const MaxRecorded = 100

// limitField takes seven fields. All of them are zero if there is no limit.
func limitField(c *wire.Codec, l **history.Limit) {
	switch {
	case !c.Reading():
		var v history.Limit
		if *l != nil {
			v = **l
		}
		limitFields(c, &v)
	case c.More():
		v := &history.Limit{}
		if limitFields(c, v); *v != (history.Limit{}) {
			*l = v
		}
	}
}

// fields describes a limit. Its declaration is encoded as a byte string, because the limiter stores it in that form.
func limitFields(c *wire.Codec, l *history.Limit) {
	declared := EncodeDeclared(l.Declared)
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

// EncodeDeclared returns the bytes of a declaration; nil if it is empty.
func EncodeDeclared(d history.Declared) []byte {
	if d == (history.Declared{}) {
		return nil
	}
	c := wire.NewWriter()
	declaredFields(c, &d)
	b, err := c.Written()
	if err != nil { // numbers and strings can be encoded
		panic("history: encode declared limits: " + err.Error())
	}
	return b
}

// DecodeDeclared reads the output of EncodeDeclared. The error matches ErrCorrupt.
func DecodeDeclared(b []byte) (history.Declared, error) {
	if len(b) == 0 {
		return history.Declared{}, nil
	}
	var d history.Declared
	c, err := wire.NewReader(b)
	if err == nil {
		declaredFields(c, &d)
		err = c.Read()
	}
	if err != nil {
		return history.Declared{}, fmt.Errorf("declared limits: %w: %w", ErrCorrupt, err)
	}
	return d, nil
}

func declaredFields(c *wire.Codec, d *history.Declared) {
	c.String(&d.Group)
	policyField(c, &d.Action)
	policyField(c, &d.GroupPolicy)
}

// policyField takes ten fields: whether there is a policy, and its nine fields.
func policyField(c *wire.Codec, p **history.Policy) {
	var v history.Policy
	there := *p != nil
	if there {
		v = **p
	}
	c.Bool(&there)
	declared(c, &v)
	if c.Reading() && there {
		*p = &v
	}
}

// symbolJSON stands for TypeJSON, which almost every event would otherwise repeat.
const symbolJSON = 2

// payload takes two fields: type and data.
func payload(c *wire.Codec, p *history.Payload) {
	c.Symbol(&p.Type, history.TypeJSON, symbolJSON)
	c.Bytes(&p.Data)
}

// outcome takes four fields: the result, whether there is a failure instead, and that failure.
func outcome(c *wire.Codec, result *history.Payload, f **history.Failure) {
	var v history.Failure
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

func failure(c *wire.Codec, f *history.Failure) {
	c.Record(func(c *wire.Codec) {
		c.String(&f.Code)
		c.String(&f.Message)
		payload(c, &f.Data)
		c.Bool(&f.Permanent)
		c.String(&f.Stack)
		wire.List(c, &f.Also, (*wire.Codec).String)
	})
}

func updateReceived(c *wire.Codec, e *history.UpdateReceived) {
	c.String(&e.Name)
	c.String(&e.UpdateID)
	payload(c, &e.Payload)
	c.String(&e.By)
	c.String(&e.Reply)
	c.Int(&e.Deadline)
}

func updateAnswered(c *wire.Codec, e *history.UpdateAnswered) {
	c.Uint(&e.Update)
	outcome(c, &e.Result, &e.Failure)
}

func operatorRequested(c *wire.Codec, e *history.OperatorRequested) {
	wire.Number(c, &e.Verb)
	c.String(&e.By)
	c.String(&e.Text)
	c.String(&e.Reply)
	c.Bool(&e.Stop)
	c.Bool(&e.Start)
	c.Uint(&e.To)
	c.String(&e.Of)
}

func paused(c *wire.Codec, e *history.Paused) {
	c.String(&e.By)
	c.String(&e.Text)
	c.Bool(&e.Stop)
}

func resumed(c *wire.Codec, e *history.Resumed) {
	c.String(&e.By)
	c.String(&e.Text)
	c.Bool(&e.Stopped)
	wire.List(c, &e.Answered, (*wire.Codec).Uint)
}

func rewound(c *wire.Codec, e *history.Rewound) {
	c.Uint(&e.Execution)
	c.Uint(&e.From)
	c.String(&e.By)
	c.String(&e.Text)
	wire.List(c, &e.Answered, (*wire.Codec).Uint)
}

func broadcast(c *wire.Codec, e *history.Broadcast) {
	c.String(&e.Verb)
	wire.List(c, &e.Instances, (*wire.Codec).String)
	c.String(&e.Text)
	c.String(&e.Name)
	payload(c, &e.Payload)
	c.Bool(&e.Stop)
	c.Bool(&e.Start)
	c.Uint(&e.To)
	c.Bool(&e.Force)
	c.String(&e.Of)
}

func recordedFields(c *wire.Codec, r *history.Recorded) {
	c.Uint(&r.Execution)
	c.String(&r.Instance)
	PositionFields(c, &r.Origin)
}
