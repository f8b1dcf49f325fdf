package replay

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/pkg/history"
)

// Program is the untyped body of an orchestration. It runs as the root strand; the execution ends when it returns.
type Program func(*Code) Ending

// Ending is the outcome of a program.
type Ending struct {
	Result    history.Payload  // the result, if the program returned no error
	Failure   *history.Failure // the error that the program returned, or nil
	Cancelled bool             // the failure is, or wraps, a cancellation
}

// Limits bound one execution. A zero field means its default. Limits may be changed at any time, because on replay the decisions and
// refusals of the history apply.
type Limits struct {
	Payload     int    // size of one payload in bytes; default 512 KiB
	Events      uint64 // number of events in one history; default 100,000
	WarnEvents  uint64 // number of events at which a warning is logged, once; default 10,000
	Outstanding int    // activities and children that may be outstanding at a time; default 10,000
	Depth       uint64 // depth of children, where 1 is a child of an instance without a parent; default 100
}

// DefaultDepth is the default limit on the depth of children.
const DefaultDepth = 100

// MaxPayload is the default limit on the size of one payload without an object store, in bytes.
const MaxPayload = sealing.MaxInline

func (l Limits) withDefaults(c *sealing.Codec) Limits {
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

// Options configure an execution. The zero value logs nothing and has the default limits.
type Options struct {
	Logger *slog.Logger
	Limits Limits
	// Codec opens the payloads that the code receives and seals those of its decisions. If it is nil, payloads are not sealed.
	Codec *sealing.Codec
	// Load reads the objects of payloads that are in the object store. If it is nil, these payloads cannot be opened.
	Load sealing.Load
	// Strict makes a payload that encodes differently on replay a Divergence.
	Strict bool
	// PayloadChanged, if set, is called for every payload that encodes differently on replay, with the name of its activity, child or
	// event. For the result and for the input of the next execution, the name is empty. It runs inside Replay and must not call the
	// execution.
	PayloadChanged func(eventID uint64, name string)
}

// Errors of calls on an execution that cannot be used, or cannot be used in this way.
var (
	ErrEvicted    = errors.New("replay: the execution was evicted")
	ErrNotStarted = errors.New("replay: the first input of an execution must be Started")
	ErrBusy       = errors.New("replay: the execution is in the middle of a step")
	ErrSealed     = errors.New("replay: a payload cannot be opened")                       // by this process, which lacks the key or the setting
	ErrObject     = errors.New("replay: an object of a payload cannot be read or written") // by any process
	ErrGivenUp    = errors.New("replay: the execution was given up in the middle of a step")
)

// Execution is one generation of an instance, in memory. Its own methods and Take, Len, SetRoom, ExtendTimer, NextTimer, Outstanding, Children
// and Awaited are for its owner, one call at a time. The other methods of Code are for the program.
type Execution struct {
	Code

	program Program
	main    *strand // runs the program
	ending  *Ending // what the program returned; nil before that
	pending bool    // the execution waits at its limit, and the program has not begun

	left *left // set when the execution has ended
}

// left is the state that remains of an execution that has ended.
type left struct {
	unread    []*history.EventReceived
	continued *history.ContinuedAsNew // nil unless the execution continued as new
	carried   []history.Event         // inputs for the next execution; see Carried
}

// value returns *l, or the zero value before the end.
func (l *left) value() left {
	if l == nil {
		return left{}
	}
	return *l
}

// Code is the part of an execution that its program uses. Only the program may call these methods, on the strand that it runs on.
// Anywhere else they return a *Misuse, or panic with one if they have no error result. GiveUp is the exception.
type Code struct {
	record
	outstanding
	mailboxes

	root     *Scope
	scopes   uint64 // number of scopes created so far
	polls    list[*poll]
	observed bool                    // the input of the step is Observed, so polls complete at once
	next     *history.ContinuedAsNew // set by ContinueAsNew
}

// record is the recorded part of the execution and the state derived from it. The decisions of a program are made here.
type record struct {
	scheduler

	started *history.Started // with opened payloads; the zero value before Started
	now     int64            // Unix ms; never decreases
	seeds   seeds
	last    uint64          // id of the last event that was recorded or matched
	fresh   []history.Event // recorded since the last Take
	past    past
	room    int             // bytes that further decisions of the step may use
	patches map[string]bool // results of Patched, by name
	status  history.Payload
	sets    uint64 // how often this execution has set the status
	attrs   string // attributes as last set by this execution, encoded; empty means none was set
	firings *Firings
	excess  *history.Failure
	warned  bool
	err     error // set when the execution is broken or evicted
	stored  stored
}

// scheduler runs the strands, one at a time. current is atomic only so that misuse on another goroutine is detected without a data race.
type scheduler struct {
	id        effectid.Identity
	own       effectid.Identity // identity given to New; id differs from it during the replay of an imported history
	opts      Options
	replaying atomic.Bool

	current   atomic.Pointer[strand]
	strands   list[*strand] // strands that have not ended, in order of creation
	runnable  []*strand
	awaiting  list[*strand] // strands in Await, in the order in which they began to wait
	moved     bool          // a strand in Await has continued in this pass
	made      uint64        // number of strands created so far
	unwinding bool          // every call of the program ends its strand
	givenUp   atomic.Bool   // see GiveUp
}

// outstanding is the work that was scheduled but not answered.
type outstanding struct {
	open   map[uint64]*work
	wanted int // number of activities and children in open that the code still requires
	timers timerHeap
}

// mailboxes holds the received events and updates, and the waits for them.
type mailboxes struct {
	boxes   boxes
	places  uint64             // number of waits so far
	updates map[string]*update // open updates, by key

	validators map[string]Validator // validators of updates, by name
	queries    map[string]Query     // query handlers, by name
}

// New prepares an execution of program. Nothing runs before Replay or Apply.
func New(id effectid.Identity, program Program, opts Options) *Execution {
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

// ExtendTimer gives a timer that the last step has decided its full duration from now (Unix ms), if it is the timeout of an attempt or the
// bound of detached work. The step computed it from its own Now, which is in the past if its input is old; only the owner has a clock.
func (x *outstanding) ExtendTimer(timer *history.TimerScheduled, now int64) {
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

// Take returns the events recorded since the last Take, inputs and decisions in order, with consecutive ids. It does not include the
// events of Replay.
func (x *record) Take() []history.Event {
	taken := x.fresh
	x.fresh = nil
	return taken
}

// Ended reports whether the execution has recorded its end.
func (x *Execution) Ended() bool { return x.left != nil }

// Len returns the number of events so far, including those not yet taken.
func (x *record) Len() uint64 { return x.last }

// Outstanding returns the ids of the activities whose results are still required, ascending.
func (x *outstanding) Outstanding() []uint64 { return x.wantedOf(activityWork) }

// Children returns the ids of the children whose ends are still required, ascending.
func (x *outstanding) Children() []uint64 { return x.wantedOf(childWork) }

// ChildEffect returns the effect id of a child listed by Children.
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

// NextTimer returns the event id and the time (Unix ms) of the timer that is due first. ok is false if no timer is set.
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

// Evict unwinds a parked execution and frees its strands. The author's deferred functions run and cannot schedule anything; a panic in
// one of them is returned. A deferred function that blocks also blocks Evict. Evicting an execution that is already evicted or has ended
// has no effect.
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

// GiveUp unwinds the code of a step that the owner has abandoned, at its next call of a method, as Evict does. The call that runs the
// step then returns ErrGivenUp. GiveUp may be called at any time and from any goroutine. Code that never calls a method again cannot be
// ended.
func (x *scheduler) GiveUp() { x.givenUp.Store(true) }

// usable returns the error for which the execution cannot take a step, or nil.
func (x *record) usable() error {
	if x.err != nil {
		return x.err
	}
	if x.current.Load() != nil {
		return fmt.Errorf("%s: %w", x.id.Instance, ErrBusy)
	}
	return nil
}

// Identity returns the identity of the execution.
func (x *record) Identity() effectid.Identity { return x.id }

// Name returns the name of the orchestration, from Started. It is empty before that.
func (x *record) Name() string { return x.started.Name }

// Version returns the version that Started recorded.
func (x *record) Version() string { return x.started.Version }

// Parent returns the parent of the instance, from Started, or nil if it has none.
func (x *record) Parent() *history.Parent { return x.started.Parent }

// Headers returns the headers of the start.
func (x *record) Headers() history.Headers { return x.started.Headers }

// Input returns the payload that the execution was started with.
func (x *record) Input() history.Payload { return x.started.Payload }

// Length counts the inputs taken and the work scheduled so far. Unlike Len, it is the same on replay at the same point of the code,
// because it does not count cancellations, which are matched as a set.
func (x *record) Length() uint64 { return x.seeds.position }

// Now returns the time of the step: the latest time of an input so far, in UTC with millisecond precision. It does not change while the
// code runs.
func (x *record) Now() time.Time {
	x.leaveIfGivenUp() // the code may loop until Now passes some time
	return time.UnixMilli(x.now).UTC()
}

// Logger returns the logger of the options, silent during replay.
func (x *record) Logger() *slog.Logger {
	return slog.New(&quietHandler{inner: x.opts.Logger.Handler(), replaying: &x.replaying})
}
