// Package tracing makes spans of history events. It links no tracing library: package pawlotel has a Tracer for OpenTelemetry.
//
// What a span is follows from its event, from the event that it settles, and from the start of the instance, and from nothing else: not
// from the process, nor from the time at which it is made. So a span that is made twice is the same, with the same id. Decision 71 has
// the table of spans, their ids, and the crash points.
package tracing

import (
	"cmp"
	"context"
	"time"

	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// Tracer receives spans that have ended. Its methods are called from several goroutines; Emit may block.
type Tracer interface {
	// Sample decides for a root span.
	Sample(trace [16]byte, span [8]byte) bool
	Emit(s *Span)
	// Flush exports what was emitted before it.
	Flush(ctx context.Context) error
}

// Span is one span, which has ended. Times are Unix nanoseconds.
type Span struct {
	Trace      [16]byte
	State      string // tracestate
	Parent     [8]byte
	Root       bool // it has no parent
	ID         [8]byte
	Name       string
	Kind       Kind
	Start, End int64
	Attributes []Attribute
	Link       *history.TraceContext // of the sender of an event; nil: none
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

// Attribute is a value of a span: a string, or a number.
type Attribute struct {
	Key  string
	Text string
	Int  int64 // if Text is empty
}

// Cancellation is an event of the span that it ended.
type Cancellation struct {
	At      int64 // Unix nanoseconds
	Reason  string
	By      string
	Text    string
	Latency time.Duration // since it was requested; 0: it was decided by the code
}

// Instance is what the spans of an execution have in common.
type Instance struct {
	id       history.Identity
	started  *history.Started
	from     history.TraceContext
	start    [8]byte
	cancelAt int64 // when its cancellation was requested, Unix ms; 0: it was not
}

// Of returns what the spans of an execution have in common. ok is false if it has no spans: no orchestrator with a tracer has received its
// start, or it was not sampled.
func Of(id string, s *history.Started) (in *Instance, ok bool) {
	if s == nil || s.Headers == "" {
		return nil, false
	}
	from, start, ok := s.Headers.Trace()
	if !ok {
		return nil, false
	}
	in = &Instance{id: history.Identity{Instance: id, Origin: s.Origin, Execution: s.Execution}, started: s, from: from, start: start}
	if s.Cancel != nil {
		in.cancelAt = s.Cancel.At
	}
	return in, true
}

// Events makes the spans of the events of a turn, in order, and emits them. requested is the cancellation of the execution behind the turn, nil
// if there is none; settled returns the schedule that an event ends.
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

// Recent makes the spans of an execution again whose events are not older than since, Unix ms, and its start span.
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

// made returns the span of event id, between two times in Unix ms.
func (in *Instance) made(name string, id uint64, start, end int64, more ...Attribute) *Span {
	s := in.base(name, history.EventSpan(in.id, id), start*msPerNs, end*msPerNs)
	s.Attributes = append(s.Attributes, Attribute{Key: "pawl.event", Int: num(id)})
	s.Attributes = append(s.Attributes, more...)
	return s
}

// span makes the span that an event ends; nil: none.
func (in *Instance) span(e history.Event, settled func(id uint64) history.Event) *Span {
	at := e.Meta().At
	switch e := e.(type) {
	case *history.EventReceived:
		s := in.made("receive "+e.Name, e.ID, at, at)
		s.Kind = Consumer
		if from, ok := history.ParseTraceparent(e.Headers.Get(history.HeaderTraceparent)); ok {
			s.Link = &from
		}
		return s
	case *history.EventSent:
		s := in.made("send "+e.Name, e.ID, at, at, Attribute{Key: "pawl.to", Text: e.Instance})
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
		if id, ok := history.Settles(e); ok {
			return in.call(e, settled(id))
		}
		return nil
	}
}

// latency is the time from the request of a cancellation.
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

func (in *Instance) ended(at int64, event uint64, failure string, why *Cancellation) *Span {
	s := in.made("orchestration "+in.started.Name, event, in.started.At, at, Attribute{Key: "pawl.version", Text: in.started.Version})
	s.Failure, s.Cancel = failure, why
	return s
}

// granted is the wait of a call, or of the instance itself, at a limit.
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
	return in.made("limit "+limit.Name, e.ID, cmp.Or(limit.WaitingSince, e.At), e.At, Attribute{Key: "pawl.limit", Text: limit.Name})
}

// call is an activity or a child, from its schedule to its end.
func (in *Instance) call(e, by history.Event) *Span {
	var s *Span
	switch by := by.(type) {
	case *history.ActivityScheduled:
		s = in.made("activity "+by.Name, by.ID, by.At, e.Meta().At, Attribute{Key: "pawl.activity", Text: by.Name}, Attribute{Key: "pawl.queue", Text: by.Queue},
			Attribute{Key: "pawl.attempt", Int: int64(by.Attempt)})
	case *history.ChildScheduled:
		s = in.made("child "+by.Name, by.ID, by.At, e.Meta().At, Attribute{Key: "pawl.child", Text: by.Instance})
	default:
		return nil
	}
	at := s.End
	switch e := e.(type) {
	case *history.ActivityCompleted:
		s.Attributes = append(s.Attributes, Attribute{Key: "pawl.worker", Text: e.Worker}, Attribute{Key: "pawl.claims", Int: int64(e.Claims)})
	case *history.ActivityFailed:
		s.Failure = code(&e.Failure)
		s.Attributes = append(s.Attributes, Attribute{Key: "pawl.worker", Text: e.Worker}, Attribute{Key: "pawl.claims", Int: int64(e.Claims)})
	case *history.ChildFailed:
		s.Failure = code(&e.Failure)
	case *history.ActivityCancelRequested:
		s.Cancel = &Cancellation{At: at, Reason: e.Reason.String(), By: e.By, Text: e.Text, Latency: in.latency(e.At)}
	case *history.ChildCancelRequested:
		s.Cancel = &Cancellation{At: at, Reason: e.Reason.String(), By: e.By, Text: e.Text, Latency: in.latency(e.At)}
	}
	return s
}

// code names a failure. The message of the author may have anything in it, so only the codes of Pawl and of sentinels are in spans.
func code(f *history.Failure) string { return cmp.Or(f.Code, "error") }
