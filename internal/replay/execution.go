package replay

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pkg/history"
)

// Program is the untyped body of an orchestration. It runs as the root strand; the execution ends when it returns.
type Program func(*Code) Ending

// Ending is what a program returned.
type Ending struct {
	Result    history.Payload  // of a body that returned no error
	Failure   *history.Failure // of one that did
	Cancelled bool             // the failure is, or wraps, a cancellation
}

// Limits bound one execution. A zero field has its default. They may be changed at any time: on replay the decisions and
// refusals of the history apply.
type Limits struct {
	Payload     int    // bytes of one payload; default 512 KiB
	Events      uint64 // events of one history; default 100,000
	WarnEvents  uint64 // events at which a warning is logged once; default 10,000
	Outstanding int    // activities and children outstanding at one time; default 10,000
	Depth       uint64 // of children: 1 is a child of an instance without a parent; default 100
}

// DefaultDepth is the default limit of the depth of children.
const DefaultDepth = 100

// MaxPayload is the default limit of one payload without an object store, in bytes.
const MaxPayload = pawlcodec.MaxInline

func (l Limits) withDefaults(c *pawlcodec.Codec) Limits {
	if l.Payload == 0 {
		l.Payload = c.MaxPayload()
	}
	if l.Events == 0 {
		l.Events = 100_000
	}
	if l.WarnEvents == 0 {
		l.WarnEvents = 10_000
	}
	if l.Outstanding == 0 {
		l.Outstanding = 10_000
	}
	if l.Depth == 0 {
		l.Depth = DefaultDepth
	}
	return l
}

// Options are what an execution needs besides its identity and program. The zero
// value logs nothing and has the default limits.
type Options struct {
	Logger *slog.Logger
	Limits Limits
	// Codec opens the payloads that the code receives and seals those of its decisions; nil: they are not sealed.
	Codec *pawlcodec.Codec
	// Load reads the objects of payloads that are in the object store; nil: they cannot be opened.
	Load pawlcodec.Load
	// Strict makes a payload that encodes differently on replay a Divergence.
	Strict bool
	// PayloadChanged, if set, is called for every payload that encodes differently on
	// replay: with the name of the activity, child or event that it is for, or without one for
	// the result, or the input of the next execution. It runs inside Replay and must not
	// call the execution.
	PayloadChanged func(eventID uint64, name string)
}

// Errors of the calls on an execution that cannot be used, or not in this way.
var (
	ErrEvicted    = errors.New("replay: the execution was evicted")
	ErrNotStarted = errors.New("replay: the first input of an execution must be Started")
	ErrBusy       = errors.New("replay: the execution is in the middle of a step")
	ErrSealed     = errors.New("replay: a payload cannot be opened")                       // by this process: it lacks the key, or the setting
	ErrObject     = errors.New("replay: an object of a payload cannot be read or written") // by any process
	ErrGivenUp    = errors.New("replay: the execution was given up in the middle of a step")
)

// Execution is one generation of an instance, in memory. Its own methods are for its owner, one call at a time, as are Take, Len,
// SetRoom, PutOff, NextTimer, Outstanding, Children and Awaited. Those of Code are for the program.
type Execution struct {
	Code

	program Program
	main    *strand // runs the program
	ending  *Ending // of the program; nil: it has not returned
	pending bool    // it waits at its limit, and the program has not begun

	left *left // nil: it has not ended
}

// left is what an execution that has ended leaves behind.
type left struct {
	unread    []*history.EventReceived
	continued *history.ContinuedAsNew // nil: it has not continued as new
	carried   []history.Event         // of one that has
}

// value is what was left; nothing before the end.
func (l *left) value() left {
	if l == nil {
		return left{}
	}
	return *l
}

// Code is the part of an execution that its program uses. Only the program may call these methods, on the strand that it runs on;
// from anywhere else they return a *Misuse, or panic with one if they have no error to return. GiveUp is the exception.
type Code struct {
	record
	outstanding
	mailboxes

	root     *Scope
	scopes   uint64 // created so far
	polls    list[*poll]
	observed bool                    // the input of the step is Observed: a poll is complete at once
	next     *history.ContinuedAsNew // the code has called ContinueAsNew
}

// record is what has been recorded of the execution, and what follows from it. The decisions of a program are made here.
type record struct {
	scheduler

	started *history.Started // with opened payloads; the zero value before it
	now     int64            // Unix ms; never decreases
	seeds   seeds
	last    uint64          // events recorded or met so far
	fresh   []history.Event // recorded since the last Take
	past    past
	room    int             // bytes that further decisions of the step may take
	patches map[string]bool // results of Patched
	status  history.Payload
	sets    uint64 // of the status, by this execution
	attrs   string // the text of the attributes that this execution has set last; empty: none was set
	firings *Firings
	excess  *history.Failure
	warned  bool
	err     error // broken or evicted
	stored  stored
}

// scheduler runs the strands, one at a time. current is atomic only so that a misuse from another goroutine is detected without
// a data race.
type scheduler struct {
	id        history.Identity
	own       history.Identity // that it was made with; id is another one while it replays what an import has recorded
	opts      Options
	replaying atomic.Bool

	current   atomic.Pointer[strand]
	strands   list[*strand] // all that have not ended, in order of creation
	runnable  []*strand
	awaiting  list[*strand] // those in Await, in the order in which they began to wait
	moved     bool          // one of them has continued in this pass
	made      uint64        // strands created so far
	unwinding bool          // every call of the program leaves its strand
	givenUp   atomic.Bool   // see GiveUp
}

// outstanding is the work that was scheduled and not answered.
type outstanding struct {
	open   map[uint64]*work
	wanted int // activities and children in open that the code still requires
	timers timerHeap
}

// mailboxes are the received events and updates, and the waits for them.
type mailboxes struct {
	boxes   boxes
	places  uint64             // waits so far
	updates map[string]*update // received and not answered, by key

	validators map[string]Validator // of updates, by name
	queries    map[string]Query     // by name
}

// New prepares an execution of program. Nothing runs before Replay or Apply.
func New(id history.Identity, program Program, opts Options) *Execution {
	opts.Limits = opts.Limits.withDefaults(opts.Codec)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	x := &Execution{program: program}
	x.id, x.own, x.opts, x.room = id, id, opts, MaxRoom
	x.started = new(history.Started)
	x.root = newScope(&x.Code, nil)
	return x
}

// PutOff gives a timer that the last step has decided all of its time from now, Unix ms, if it is the timeout of an attempt or the bound of
// detached work. The step counts from its Now, which is old if its input is; the owner has a clock.
func (x *outstanding) PutOff(timer *history.TimerScheduled, now int64) {
	w := x.open[timer.ID]
	if w == nil || timer.At >= now {
		return
	}
	if _, ok := w.owner.(*bound); !ok && timer.AttemptTimeoutOf == 0 {
		return
	}
	timer.FireAt += min(now-timer.At, math.MaxInt64-timer.FireAt)
	w.fireAt = timer.FireAt
	x.timers.push(timerDue{fireAt: w.fireAt, id: w.id})
}

// Take returns the events recorded since the last Take, inputs and decisions in order, with consecutive ids. The events of
// Replay are not among them.
func (x *record) Take() []history.Event {
	taken := x.fresh
	x.fresh = nil
	return taken
}

// Ended reports whether the execution has its end event.
func (x *Execution) Ended() bool { return x.left != nil }

// Len is the number of events so far, including those not yet taken.
func (x *record) Len() uint64 { return x.last }

// Outstanding returns the ids of the activities whose results are required, ascending.
func (x *outstanding) Outstanding() []uint64 { return x.wantedOf(activityWork) }

// Children returns the ids of the children whose ends are required, ascending.
func (x *outstanding) Children() []uint64 { return x.wantedOf(childWork) }

// ChildEffect returns the effect id of one of Children.
func (x *outstanding) ChildEffect(id uint64) string { return x.open[id].effect }

func (x *outstanding) wantedOf(kind workKind) []uint64 {
	ids := make([]uint64, 0, x.wanted)
	for id, w := range x.open {
		if w.kind == kind && w.withdrawn == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// NextTimer returns the timer that is due first: its event id and its time in Unix milliseconds. ok is false if no timer is
// set.
func (x *outstanding) NextTimer() (id uint64, fireAt int64, ok bool) {
	for len(x.timers) > 0 {
		first := x.timers[0]
		if w := x.open[first.id]; w != nil && w.withdrawn == nil && w.fireAt == first.fireAt {
			return first.id, first.fireAt, true
		}
		x.timers.pop()
	}
	return 0, 0, false
}

// Evict unwinds a parked execution and frees its strands. The author's deferred functions run and cannot schedule anything;
// a panic in one of them is returned. A deferred function that blocks, blocks Evict. Evicting twice, or an execution that
// has ended, has no effect.
func (x *Execution) Evict() error {
	if x.current.Load() != nil {
		return fmt.Errorf("evict %s: %w", x.id.Instance, ErrBusy)
	}
	if x.left != nil || x.err != nil {
		return nil //nolint:nilerr // a broken execution has been unwound already
	}
	x.err = fmt.Errorf("%w (%s)", ErrEvicted, x.id.Instance)
	return x.unwind()
}

// GiveUp ends the code of a step that the owner has abandoned, at its next call of a method, as Evict does; the call that
// runs the step then returns ErrGivenUp. It may be called at any time and from any goroutine. Code that calls no method any
// more cannot be ended.
func (x *scheduler) GiveUp() { x.givenUp.Store(true) }

// usable returns why the execution cannot take a step, or nil.
func (x *record) usable() error {
	if x.err != nil {
		return x.err
	}
	if x.current.Load() != nil {
		return fmt.Errorf("%s: %w", x.id.Instance, ErrBusy)
	}
	return nil
}

// Identity returns the identity it was made with.
func (x *record) Identity() history.Identity { return x.id }

// Name is the name of the orchestration, from Started; empty before it.
func (x *record) Name() string { return x.started.Name }

// Version is the version that Started recorded.
func (x *record) Version() string { return x.started.Version }

// Parent is the parent of the instance, from Started; nil if there is none.
func (x *record) Parent() *history.Parent { return x.started.Parent }

// Headers are those of the start.
func (x *record) Headers() history.Headers { return x.started.Headers }

// Input is the payload that the execution was started with.
func (x *record) Input() history.Payload { return x.started.Payload }

// Length counts the inputs taken and the work scheduled so far. Unlike Len it is the same on replay at the same place of
// the code: cancellations, which are matched as a set, are not counted.
func (x *record) Length() uint64 { return x.seeds.position }

// Now is the time of the step: the latest time of an input so far, in UTC with millisecond precision. It does not change
// while the code runs.
func (x *record) Now() time.Time {
	x.leaveIfGivenUp() // code that waits for a time to pass
	return time.UnixMilli(x.now).UTC()
}

// Logger is the logger of the options, silent during replay.
func (x *record) Logger() *slog.Logger {
	return slog.New(&quietHandler{inner: x.opts.Logger.Handler(), replaying: &x.replaying})
}
