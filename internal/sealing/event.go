package sealing

import (
	"errors"
	"fmt"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/wire"
	"github.com/pawlrun/pawl/pkg/history"
)

// typeFailure is the type of the payload that contains the secret parts of a failure.
const typeFailure = "pawl/failure"

// hidden replaces the message of a sealed failure.
const hidden = "encrypted"

// SealFailure returns the failure with its message, stack and data sealed. Its codes stay readable. A Codec that does not encrypt returns
// the failure unchanged; nil is returned as nil.
func (c *Codec) SealFailure(place []byte, f *history.Failure) *history.Failure {
	if c == nil || c.keys == nil || f == nil || f.Data.Type == history.TypeSealed {
		return f
	}
	inner := history.Failure{Message: f.Message, Stack: f.Stack, Data: f.Data}
	sealed := *f
	sealed.Message, sealed.Stack = hidden, ""
	sealed.Data = c.Seal(place, history.Payload{Type: typeFailure, Data: wire.Encode(func(c *wire.Codec) { eventcodec.FailureFields(c, &inner) })})
	return &sealed
}

// OpenFailure returns the failure as it was before SealFailure. Errors are those of Open, with the failure unchanged.
func (c *Codec) OpenFailure(f *history.Failure) (*history.Failure, error) {
	if f == nil || f.Data.Type != history.TypeSealed {
		return f, nil
	}
	p, err := c.Open(f.Data)
	if err != nil {
		return f, err
	}
	opened := *f
	if opened.Data = p; p.Type != typeFailure {
		return &opened, nil
	}
	var inner history.Failure
	if err := wire.Decode(p.Data, func(c *wire.Codec) { eventcodec.FailureFields(c, &inner) }); err != nil {
		return f, ErrDamaged
	}
	opened.Message, opened.Stack, opened.Data = inner.Message, inner.Stack, inner.Data
	return &opened, nil
}

// SealEvent seals the payloads and the failure of a decision, and returns the objects that must be stored before the decision is
// recorded. The owners of these objects are the instances that the decision sends them to, and the given ones, whose histories contain
// the decision. The payload of a broadcast is never an object, because the object would have thousands of owners.
func (c *Codec) SealEvent(place []byte, e history.Event, owners ...string) (objects []Object) {
	if c == nil {
		return nil
	}
	visit(e, func(p *history.Payload) {
		if e.Kind() == history.KindBroadcast {
			*p = c.Seal(place, *p)
			return
		}
		sealed, o := c.sealStored(ByOrchestrator, place, append(receivers(e), owners...), *p)
		if *p = sealed; o != nil {
			objects = append(objects, *o)
		}
	}, func(f *history.Failure) { *f = *c.SealFailure(place, f) })
	return objects
}

// receivers returns the instances that a decision sends its payloads to.
func receivers(e history.Event) []string {
	switch e := e.(type) {
	case *history.ChildScheduled:
		return []string{e.Instance}
	case *history.EventSent:
		return []string{e.Instance}
	default:
		return nil
	}
}

// OpenEvent opens the payloads of an event with the given function, such as Open, and its failure. It returns the first error, and leaves
// payloads and failures that cannot be opened unchanged.
func (c *Codec) OpenEvent(open func(history.Payload) (history.Payload, error), e history.Event) (err error) {
	note := func(failed error) {
		if err == nil {
			err = failed
		}
	}
	visit(e, func(p *history.Payload) {
		opened, failed := open(*p)
		*p = opened
		note(failed)
	}, func(f *history.Failure) {
		opened, failed := c.OpenFailure(f)
		*f = *opened
		note(failed)
	})
	return err
}

// References returns the names of the objects that an event refers to.
func References(e history.Event) (names []string) {
	visit(e, func(p *history.Payload) {
		if name := Name(*p); name != "" {
			names = append(names, name)
		}
	}, func(*history.Failure) {})
	return names
}

// ErrNotPortable matches the error of a history with a payload that is in the object store of a fleet, or is too large without one.
var ErrNotPortable = errors.New("pawlcodec: history has a payload that needs an object store")

// CheckPortable returns ErrNotPortable if an event refers to an object, which only its own fleet can read and only until the instance is
// removed, or has a payload that is too large to be recorded without a store.
func CheckPortable(e history.Event) (err error) {
	visit(e, func(p *history.Payload) {
		switch r, stored := referenceOf(*p); {
		case stored:
			err = fmt.Errorf("%w: event %d refers to object %s", ErrNotPortable, e.Meta().ID, r.name)
		case p.Type == history.TypeSealed && len(p.Data) > maxOpened+maxSealing, p.Type != history.TypeSealed && len(p.Data) > MaxInline:
			err = fmt.Errorf("%w: event %d has %d bytes, at most %d are allowed", ErrNotPortable, e.Meta().ID, len(p.Data), MaxInline)
		}
	}, func(*history.Failure) {})
	return err
}

// visit calls the functions for the payloads and the failure of an event. A failure behind a pointer is copied first.
func visit(e history.Event, payload func(*history.Payload), failure func(*history.Failure)) {
	pointer := func(f **history.Failure) {
		if *f != nil {
			c := **f
			failure(&c)
			*f = &c
		}
	}
	switch e := e.(type) {
	case *history.Started:
		payload(&e.Payload)
		payload(&e.CustomStatus)
	case *history.EventReceived:
		payload(&e.Payload)
	case *history.ActivityScheduled:
		payload(&e.Payload)
	case *history.ActivityCompleted:
		payload(&e.Result)
	case *history.ActivityFailed:
		failure(&e.Failure)
	case *history.ChildScheduled:
		payload(&e.Payload)
	case *history.ChildCompleted:
		payload(&e.Result)
	case *history.ChildFailed:
		failure(&e.Failure)
	case *history.EventSent:
		payload(&e.Payload)
		if e.Start != nil {
			s := *e.Start
			payload(&s.Payload)
			e.Start = &s
		}
	case *history.Broadcast:
		payload(&e.Payload)
	case *history.SideEffectRecorded:
		payload(&e.Result)
		pointer(&e.Failure)
	case *history.UpdateReceived:
		payload(&e.Payload)
	case *history.UpdateAnswered:
		payload(&e.Result)
		pointer(&e.Failure)
	case *history.Completed:
		payload(&e.Result)
	case *history.Failed:
		failure(&e.Failure)
	case *history.Cancelled:
		failure(&e.Failure)
	case *history.ContinuedAsNew:
		payload(&e.Payload)
	default: // no payload and no failure
	}
}
