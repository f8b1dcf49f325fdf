// Package tracing derives spans from history events. It links no tracing library: package pawlotel contains a Tracer for OpenTelemetry.
//
// A span is a function of its event, the event that it settles, and the start of the instance. It does not depend on the process, nor on
// the time at which it is derived. So a span that is derived twice is identical and has the same id. Decision 71 contains
// the table of spans, their ids, and the crash points.
package tracing

import (
	"cmp"
	"context"
	"time"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// Tracer receives spans that have ended. Its methods are called concurrently; Emit may block.
type Tracer interface {
	// Sample decides whether to sample a trace, given its root span.
	Sample(trace [16]byte, span [8]byte) bool
	Emit(s *Span)
	// Flush exports all spans that were emitted before.
	Flush(ctx context.Context) error
}

// Span is a span that has ended. Times are Unix nanoseconds.
type Span struct {
	Trace      [16]byte
	State      string // tracestate
	Parent     [8]byte
	Root       bool // the span has no parent
	ID         [8]byte
	Name       string
	Kind       Kind
	Start, End int64
	Attributes []Attribute
	Link       *history.TraceContext // context of the sender of an event; nil: none
	Cancel     *Cancellation         // nil: none
	Failure    string                // code or message; empty: none
}

// Kind is the role of a span in a call.
type Kind uint8

// The kinds of spans.
const (
	Internal Kind = iota
	Producer
	Consumer
)

// Attribute is an attribute of a span, whose value is a string or a number.
type Attribute struct {
	Key  string
	Text string
	Int  int64 // the value if Text is empty
}

// Cancellation is the event of a span that was ended by a cancellation.
type Cancellation struct {
	At      int64 // Unix nanoseconds
	Reason  string
	By      string
	Text    string
	Latency time.Duration // since the request; 0: the code of the instance decided on the cancellation
}

// Instance contains the data that the spans of an execution share.
type Instance struct {
	id       effectid.Identity
	started  *history.Started
	from     history.TraceContext
	start    [8]byte // id of the start span
	cancelAt int64   // when its cancellation was requested, Unix ms; 0: never
}

// Of returns the Instance of an execution. ok is false if the execution has no spans, because its start was not sampled, or was received by an
// orchestrator without a tracer.
func Of(id string, s *history.Started) (in *Instance, ok bool) {
	if s == nil || s.Headers == "" {
		return nil, false
	}
	from, start, ok := s.Headers.Trace()
	if !ok {
		return nil, false
	}
	in = &Instance{id: effectid.Identity{Instance: id, Origin: s.Origin, Execution: s.Execution}, started: s, from: from, start: start}
	if s.Cancel != nil {
		in.cancelAt = s.Cancel.At
	}
	return in, true
}

// Events derives the spans of the events of a turn, and emits them in order. requested is the cancellation of the execution as of the end of
// the turn, or nil. settled returns the scheduling event with an id.
func (in *Instance) Events(events []history.Event, requested *history.CancelRequested, settled func(id uint64) history.Event, emit func(*Span)) {
	if requested != nil && len(events) > 0 && requested.ID < events[0].Meta().ID {
		in.cancelAt = requested.At
	}
	for _, e := range events {
		if s, ok := e.(*history.Started); ok && s.Execution == 1 {
			emit(in.StartSpan())
		}
		in.noteCancel(e)
		if s := in.span(e, settled); s != nil {
			emit(s)
		}
	}
}

// Recent derives the start span again, and the spans of all events that are not older than since, in Unix ms.
func (in *Instance) Recent(all []history.Event, since int64, emit func(*Span)) {
	emit(in.StartSpan())
	for i, e := range all {
		in.noteCancel(e)
		if e.Meta().At < since {
			continue
		}
		if s := in.span(e, func(id uint64) history.Event { return settledIn(all[:i], id) }); s != nil {
			emit(s)
		}
	}
}

func settledIn(events []history.Event, id uint64) history.Event {
	if id == 0 || id > uint64(len(events)) {
		return nil
	}
	return events[id-1]
}

// StartSpan returns the span of the start, which is the same for all executions of the instance.
func (in *Instance) StartSpan() *Span {
	s := in.base("start "+in.started.Name, in.start, in.started.Origin.Time, in.started.Origin.Time)
	s.Kind, s.Parent, s.Root = Consumer, in.from.Span, in.from.Span == in.start
	s.Attributes = s.Attributes[:2]
	return s
}

const msPerNs = int64(time.Millisecond)

func (in *Instance) base(name string, id [8]byte, start, end int64) *Span {
	return &Span{
		Trace: in.from.Trace, State: in.started.Headers.Get(history.HeaderTracestate), Parent: in.start, ID: id, Name: name,
		Start: start, End: max(start, end),
		Attributes: []Attribute{
			{Key: "pawl.instance", Text: in.id.Instance}, {Key: "pawl.orchestration", Text: in.started.Name}, {Key: "pawl.execution", Int: num(in.id.Execution)},
		},
	}
}

func num(n uint64) int64 { return int64(n) } //nolint:gosec // counts

// eventSpan returns the span of an event, between two times in Unix ms.
func (in *Instance) eventSpan(name string, id uint64, start, end int64, more ...Attribute) *Span {
	s := in.base(name, effectid.EventSpan(in.id, id), start*msPerNs, end*msPerNs)
	s.Attributes = append(s.Attributes, Attribute{Key: "pawl.event", Int: num(id)})
	s.Attributes = append(s.Attributes, more...)
	return s
}

// span returns the span that an event ends, or nil.
func (in *Instance) span(e history.Event, settled func(id uint64) history.Event) *Span {
	at := e.Meta().At
	switch e := e.(type) {
	case *history.EventReceived:
		s := in.eventSpan("receive "+e.Name, e.ID, at, at)
		s.Kind = Consumer
		if from, ok := history.ParseTraceparent(e.Headers.Get(history.HeaderTraceparent)); ok {
			s.Link = &from
		}
		return s
	case *history.EventSent:
		s := in.eventSpan("send "+e.Name, e.ID, at, at, Attribute{Key: "pawl.to", Text: e.Instance})
		s.Kind = Producer
		return s
	case *history.Granted:
		return in.granted(e, settled(e.Scheduled))
	case *history.Completed, *history.ContinuedAsNew:
		return in.ended(at, e.Meta().ID, "", nil)
	case *history.Failed:
		return in.ended(at, e.ID, code(&e.Failure), nil)
	case *history.Cancelled:
		return in.ended(at, e.ID, code(&e.Failure), &Cancellation{At: at * msPerNs, Reason: cancel.Requested.String(), By: e.By, Text: e.Text, Latency: in.latency(at)})
	default:
		if id, ok := fold.Settles(e); ok {
			return in.call(e, settled(id))
		}
		return nil
	}
}

// latency returns the time since the cancellation was requested.
func (in *Instance) latency(at int64) time.Duration {
	if in.cancelAt == 0 {
		return 0
	}
	return time.Duration(max(0, at-in.cancelAt)) * time.Millisecond
}

func (in *Instance) noteCancel(e history.Event) {
	if c, ok := e.(*history.CancelRequested); ok {
		in.cancelAt = c.At
	}
}

func (in *Instance) ended(at int64, event uint64, failure string, cancelled *Cancellation) *Span {
	s := in.eventSpan("orchestration "+in.started.Name, event, in.started.At, at, Attribute{Key: "pawl.version", Text: in.started.Version})
	s.Failure, s.Cancel = failure, cancelled
	return s
}

// granted returns the span of the wait of a call, or of the instance itself, at a limit.
func (in *Instance) granted(e *history.Granted, by history.Event) *Span {
	limit := in.started.Limit
	if a, ok := by.(*history.ActivityScheduled); ok {
		limit = a.Limit
	} else if e.Scheduled != 1 {
		return nil
	}
	if limit == nil {
		return nil
	}
	return in.eventSpan("limit "+limit.Name, e.ID, cmp.Or(limit.WaitingSince, e.At), e.At, Attribute{Key: "pawl.limit", Text: limit.Name})
}

// call returns the span of an activity or a child, from its schedule to its end.
func (in *Instance) call(e, by history.Event) *Span {
	var s *Span
	switch by := by.(type) {
	case *history.ActivityScheduled:
		s = in.eventSpan("activity "+by.Name, by.ID, by.At, e.Meta().At, Attribute{Key: "pawl.activity", Text: by.Name}, Attribute{Key: "pawl.queue", Text: by.Queue},
			Attribute{Key: "pawl.attempt", Int: int64(by.Attempt)})
	case *history.ChildScheduled:
		s = in.eventSpan("child "+by.Name, by.ID, by.At, e.Meta().At, Attribute{Key: "pawl.child", Text: by.Instance})
	default:
		return nil
	}
	ran := func(worker string, claims uint32) {
		s.Attributes = append(s.Attributes, Attribute{Key: "pawl.worker", Text: worker}, Attribute{Key: "pawl.claims", Int: int64(claims)})
	}
	cancelled := func(reason cancel.Reason, by, text string) {
		s.Cancel = &Cancellation{At: s.End, Reason: reason.String(), By: by, Text: text, Latency: in.latency(e.Meta().At)}
	}
	switch e := e.(type) {
	case *history.ActivityCompleted:
		ran(e.Worker, e.Claims)
	case *history.ActivityFailed:
		s.Failure = code(&e.Failure)
		ran(e.Worker, e.Claims)
	case *history.ChildFailed:
		s.Failure = code(&e.Failure)
	case *history.ActivityCancelRequested:
		cancelled(e.Reason, e.By, e.Text)
	case *history.ChildCancelRequested:
		cancelled(e.Reason, e.By, e.Text)
	}
	return s
}

// code returns the code of a failure. Messages of failures are not exported, because user code may put anything into them.
func code(f *history.Failure) string { return cmp.Or(f.Code, "error") }
