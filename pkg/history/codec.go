package history

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/pawlrun/pawl/pkg/cancel"
)

// Version is the newest encoding this build reads. It writes the oldest that says what there is to say: 1, but 2 where a
// gate is noted, for a build that knows of none would give a lease to who waits.
//
// An event is one msgpack array: version, kind, time, then the fields of its kind
// in a fixed order. A field is only ever added at the end; readers take what is
// missing as zero and skip what they do not know. The version changes only when
// that is not enough.
const Version = 2

// The errors of decoding. Both come wrapped with what was being read.
var (
	// ErrNewerVersion: the event was written by a newer build. Run that build, or a newer one.
	ErrNewerVersion = errors.New("written by a newer version of Pawl")
	// ErrCorrupt: the bytes are not an event.
	ErrCorrupt = errors.New("corrupt history")
)

// Encode gives the bytes of an event. It fails only for an event type it does not know.
func Encode(e Event) ([]byte, error) {
	w := newWriter()
	defer w.free()
	if e.Input() {
		w.input(e)
	} else {
		w.decision(e)
	}
	if w.err != nil {
		return nil, fmt.Errorf("history: encode %T: %w", e, w.err)
	}
	return bytes.Clone(w.buf.Bytes()), nil
}

// head begins the array of an event that has so many fields.
func (w *writer) head(e Event, fields int) {
	w.array(3 + fields)
	w.uint(encoding(e))
	w.uint(uint64(e.Kind()))
	w.int(e.Meta().At)
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

func (w *writer) input(e Event) {
	switch e := e.(type) {
	case *Started:
		w.head(e, startedFields(e))
		w.str(e.Name)
		w.str(e.Version)
		w.payload(e.Payload)
		w.uint(e.Origin.Seq)
		w.int(e.Origin.Time)
		w.uint(e.Execution)
		w.str(e.By)
		w.lineage(e)
	case *EventReceived:
		w.head(e, 5)
		w.str(e.Name)
		w.payload(e.Payload)
		w.str(e.MsgID)
		w.str(e.By)
	case *CancelRequested:
		if e.Reason == 0 && e.Of == "" { // a client's
			w.head(e, 2)
			w.str(e.By)
			w.str(e.Text)
			return
		}
		w.head(e, 4)
		w.str(e.By)
		w.str(e.Text)
		w.uint(uint64(e.Reason))
		w.str(e.Of)
	default:
		w.told(e)
	}
}

// told writes the inputs that are answers, and a purge.
func (w *writer) told(e Event) {
	switch e := e.(type) {
	case *ChildCompleted:
		w.head(e, 4)
		w.uint(e.Scheduled)
		w.str(e.Effect)
		w.payload(e.Result)
	case *ChildFailed:
		w.head(e, 3)
		w.uint(e.Scheduled)
		w.str(e.Effect)
		w.failure(e.Failure)
	case *PurgeRequested:
		w.head(e, 4)
		w.str(e.By)
		w.str(e.Text)
		w.bool(e.Force)
		w.str(e.Reply)
	case *ActivityCompleted:
		w.head(e, 5)
		w.uint(e.Scheduled)
		w.payload(e.Result)
		w.str(e.Worker)
		w.uint(uint64(e.Claims))
	case *ActivityFailed:
		w.head(e, 4)
		w.uint(e.Scheduled)
		w.failure(e.Failure)
		w.str(e.Worker)
		w.uint(uint64(e.Claims))
	case *TimerFired:
		w.head(e, 1)
		w.uint(e.Timer)
	case *Granted:
		w.head(e, 1)
		w.uint(e.Scheduled)
	case *Observed:
		w.head(e, 0)
	default:
		w.keep(errNoEncoding)
	}
}

func (w *writer) decision(e Event) {
	switch e := e.(type) {
	case *ActivityScheduled:
		more := 0
		switch {
		case e.Limit != nil:
			more = 1 + gateFields
		case e.First != "":
			more = 1
		}
		w.head(e, 6+more) // most have no more
		w.str(e.Name)
		w.str(e.Queue)
		w.payload(e.Payload)
		w.str(e.Effect)
		w.uint(uint64(e.Attempt))
		if more > 0 {
			w.str(e.First)
		}
		w.gate(e.Limit)
	case *ActivityCancelRequested:
		w.head(e, 4)
		w.uint(e.Scheduled)
		w.uint(uint64(e.Reason))
		w.str(e.By)
		w.str(e.Text)
	case *TimerScheduled:
		w.timer(e)
	case *TimerCancelled:
		w.head(e, 1)
		w.uint(e.Timer)
	case *Completed:
		w.head(e, 2)
		w.payload(e.Result)
	case *Failed:
		w.head(e, 1)
		w.failure(e.Failure)
	case *Cancelled:
		w.head(e, 3)
		w.failure(e.Failure)
		w.str(e.By)
		w.str(e.Text)
	case *SideEffectRecorded:
		w.head(e, 4)
		w.payload(e.Result)
		w.bool(e.Failure != nil)
		if e.Failure == nil {
			w.failure(Failure{})
		} else {
			w.failure(*e.Failure)
		}
	default:
		w.message(e)
	}
}

// message writes the decisions that concern other instances, and other executions.
func (w *writer) message(e Event) {
	switch e := e.(type) {
	case *ContinuedAsNew:
		w.head(e, 3)
		w.payload(e.Payload)
		w.str(e.Version)
	case *ChildScheduled:
		fields := 8
		if e.InDetachedScope {
			fields++
		}
		w.head(e, fields)
		w.str(e.Name)
		w.str(e.Version)
		w.str(e.Instance)
		w.payload(e.Payload)
		w.str(e.Effect)
		w.bool(e.Abandon)
		w.bool(e.Detached)
		if e.InDetachedScope {
			w.bool(e.InDetachedScope)
		}
	case *ChildCancelRequested:
		w.head(e, 4)
		w.uint(e.Scheduled)
		w.uint(uint64(e.Reason))
		w.str(e.By)
		w.str(e.Text)
	case *EventSent:
		fields := 5
		if e.Start != nil {
			fields = 9
		}
		w.head(e, fields)
		w.str(e.Instance)
		w.str(e.Name)
		w.payload(e.Payload)
		w.str(e.Effect)
		if s := e.Start; s != nil {
			w.str(s.Name)
			w.str(s.Version)
			w.payload(s.Payload)
		}
	case *PatchMarked:
		w.head(e, 1)
		w.str(e.Name)
	case *Refused:
		w.head(e, 3)
		w.uint(uint64(e.Of))
		w.str(e.Name)
		w.failure(e.Failure)
	default:
		w.keep(errNoEncoding)
	}
}

// startedFields is 8 for what a client starts: most starts have nothing behind that.
func startedFields(e *Started) int {
	switch {
	case e.Cancel != nil:
		return 16 + gateFields + 2 + 2 + 4
	case e.Parent != nil && e.Parent.Depth != 0:
		return 16 + gateFields + 2 + 2
	case e.CustomStatus.Type != "":
		return 16 + gateFields + 2
	case e.Limit != nil:
		return 16 + gateFields
	case e.Parent != nil && e.Parent.HeldLimits != "":
		return 16
	case e.Parent == nil && e.StatusVersion == 0:
		return 8
	default:
		return 15
	}
}

func (w *writer) timer(e *TimerScheduled) {
	fields := 1
	if e.RetainsSlotOf != 0 {
		fields = 2
	}
	if e.AttemptTimeoutOf != 0 {
		fields = 3
	}
	w.head(e, fields)
	w.int(e.FireAt)
	if fields > 1 {
		w.uint(e.RetainsSlotOf)
	}
	if fields > 2 {
		w.uint(e.AttemptTimeoutOf)
	}
}

func (w *writer) lineage(e *Started) {
	fields := startedFields(e)
	if fields == 8 {
		return
	}
	p := e.Parent
	if p == nil {
		p = &Parent{}
	}
	w.uint(e.StatusVersion)
	w.str(p.Instance)
	w.uint(p.Origin.Seq)
	w.int(p.Origin.Time)
	w.uint(p.Execution)
	w.uint(p.Event)
	w.str(p.Effect)
	if fields > 15 {
		w.str(p.HeldLimits)
	}
	if fields <= 16+gateFields {
		w.gate(e.Limit)
		return
	}
	w.gate(cmp.Or(e.Limit, &Limit{}))
	w.payload(e.CustomStatus)
	if fields == 16+gateFields+2 {
		return
	}
	w.uint(p.Depth)
	w.str(p.AncestorMarks)
	if c := e.Cancel; c != nil {
		w.int(c.At)
		w.uint(uint64(c.Reason))
		w.str(c.By)
		w.str(c.Text)
	}
}

var errNoEncoding = errors.New("this type has no encoding")

// Decode reads the event at place id. It never panics: what is not an event is
// ErrCorrupt, what a newer build wrote is ErrNewerVersion.
func Decode(id uint64, b []byte) (Event, error) {
	r, err := newReader(b)
	if err != nil {
		return nil, fmt.Errorf("event %d: %w: %w", id, ErrCorrupt, err)
	}
	defer r.free()
	version, number, at := r.uint(), r.uint(), r.int()
	if r.err == nil && version > Version {
		return nil, fmt.Errorf("event %d: encoding %d, this build reads up to %d: %w", id, version, Version, ErrNewerVersion)
	}
	if r.err == nil && (version == 0 || number == 0) {
		r.keep(errors.New("no version or no kind"))
	}
	var e Event
	if number <= math.MaxUint8 {
		e = r.body(Kind(number))
	}
	r.rest()
	if r.err != nil {
		return nil, fmt.Errorf("event %d: %w: %w", id, ErrCorrupt, r.err)
	}
	if e == nil {
		return nil, fmt.Errorf("event %d: unknown kind %d: %w", id, number, ErrNewerVersion)
	}
	h := e.Meta()
	h.ID, h.At = id, at
	return e, nil
}

// body reads the fields in the order in which Encode writes them; Go evaluates the
// calls in a composite literal from left to right.
func (r *reader) body(kind Kind) Event {
	switch kind {
	case KindStarted:
		return r.started()
	case KindEventReceived:
		return &EventReceived{Name: r.str(), Payload: r.payload(), MsgID: r.str(), By: r.str()}
	case KindCancelRequested:
		return &CancelRequested{By: r.str(), Text: r.str(), Reason: cancel.Reason(r.uint8()), Of: r.str()}
	case KindActivityScheduled:
		return &ActivityScheduled{Name: r.str(), Queue: r.str(), Payload: r.payload(), Effect: r.str(), Attempt: r.uint32(), First: r.str(), Limit: r.gate()}
	case KindActivityCompleted:
		return &ActivityCompleted{Scheduled: r.uint(), Result: r.payload(), Worker: r.str(), Claims: r.uint32()}
	case KindActivityFailed:
		return &ActivityFailed{Scheduled: r.uint(), Failure: r.failure(), Worker: r.str(), Claims: r.uint32()}
	case KindActivityCancelRequested:
		return &ActivityCancelRequested{Scheduled: r.uint(), Reason: cancel.Reason(r.uint8()), By: r.str(), Text: r.str()}
	case KindTimerScheduled:
		return &TimerScheduled{FireAt: r.int(), RetainsSlotOf: r.uint(), AttemptTimeoutOf: r.uint()}
	case KindTimerFired:
		return &TimerFired{Timer: r.uint()}
	case KindTimerCancelled:
		return &TimerCancelled{Timer: r.uint()}
	case KindCompleted:
		return &Completed{Result: r.payload()}
	case KindFailed:
		return &Failed{Failure: r.failure()}
	case KindCancelled:
		return &Cancelled{Failure: r.failure(), By: r.str(), Text: r.str()}
	case KindSideEffectRecorded:
		return r.sideEffect()
	default:
		return r.message(kind)
	}
}

func (r *reader) message(kind Kind) Event {
	switch kind {
	case KindContinuedAsNew:
		return &ContinuedAsNew{Payload: r.payload(), Version: r.str()}
	case KindChildScheduled:
		return &ChildScheduled{
			Name: r.str(), Version: r.str(), Instance: r.str(), Payload: r.payload(), Effect: r.str(), Abandon: r.bool(), Detached: r.bool(), InDetachedScope: r.bool(),
		}
	case KindChildCompleted:
		return &ChildCompleted{Scheduled: r.uint(), Effect: r.str(), Result: r.payload()}
	case KindChildFailed:
		return &ChildFailed{Scheduled: r.uint(), Effect: r.str(), Failure: r.failure()}
	case KindChildCancelRequested:
		return &ChildCancelRequested{Scheduled: r.uint(), Reason: cancel.Reason(r.uint8()), By: r.str(), Text: r.str()}
	case KindEventSent:
		return r.sent()
	case KindPatchMarked:
		return &PatchMarked{Name: r.str()}
	case KindGranted:
		return &Granted{Scheduled: r.uint()}
	case KindRefused:
		return &Refused{Of: Kind(r.uint8()), Name: r.str(), Failure: r.failure()}
	case KindObserved:
		return &Observed{}
	case KindPurgeRequested:
		return &PurgeRequested{By: r.str(), Text: r.str(), Force: r.bool(), Reply: r.str()}
	default:
		return nil
	}
}

func (r *reader) sent() Event {
	e := &EventSent{Instance: r.str(), Name: r.str(), Payload: r.payload(), Effect: r.str()}
	if s := (SentStart{Name: r.str(), Version: r.str(), Payload: r.payload()}); s.Name != "" {
		e.Start = &s
	}
	return e
}

func (r *reader) started() Event {
	e := &Started{
		Name: r.str(), Version: r.str(), Payload: r.payload(),
		Origin: Position{Seq: r.uint(), Time: r.int()}, Execution: r.uint(), By: r.str(), StatusVersion: r.uint(),
	}
	p := Parent{Instance: r.str(), Origin: Position{Seq: r.uint(), Time: r.int()}, Execution: r.uint(), Event: r.uint(), Effect: r.str(), HeldLimits: r.str()}
	e.Limit, e.CustomStatus = r.gate(), r.payload()
	if p.Depth, p.AncestorMarks = r.uint(), r.str(); p.Instance != "" {
		e.Parent = &p
	}
	c := CancelNote{At: r.int(), Reason: cancel.Reason(r.uint8()), By: r.str(), Text: r.str()}
	if c.At != 0 {
		e.Cancel = &c
	}
	return e
}

func (r *reader) sideEffect() Event {
	e := &SideEffectRecorded{Result: r.payload()}
	failed, f := r.bool(), r.failure()
	if failed {
		e.Failure = &f
	}
	return e
}
