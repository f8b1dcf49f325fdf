package replay

import (
	"cmp"
	"fmt"

	"github.com/pawlrun/pawl/pkg/history"
)

// Send sends an event to an instance, this one or another. It is recorded once, under one effect id, by which the receiver
// recognizes a repeat. Its outcome is not reported. The error is that of a scope that is over, or a *history.Failure of a
// payload over the limit.
func (x *Code) Send(instance, name string, payload history.Payload, in *Scope) error {
	if err := x.Over(in); err != nil {
		return err
	}
	_, refused, _ := decide(&x.record, &history.EventSent{Instance: instance, Name: name, Payload: payload}, x.tooLarge(payload, "event "+name))
	x.exit()
	return refusal(refused)
}

// Broadcast sends one message to many instances, as Send sends an event to one.
func (x *Code) Broadcast(b *history.Broadcast, in *Scope) error {
	if err := x.Over(in); err != nil {
		return err
	}
	_, refused, _ := decide(&x.record, b, tooLargeInline(&x.record, b.Payload, "event "+b.Name))
	x.exit()
	return refusal(refused)
}

// refusal is the error of a refused decision, nil for none.
func refusal(f *history.Failure) error {
	if f == nil {
		return nil
	}
	return f
}

// togetherRoom is by how much a start and its event must be smaller than two payloads at the limit: they are one message,
// with its headers.
const togetherRoom = 64 << 10

// SendOrStart is Send of an event that starts the instance if the id is unused. Start and event are one message, so
// together they must be smaller than two payloads at the limit by 64 KiB.
func (x *Code) SendOrStart(instance, name string, payload history.Payload, start history.SentStart, in *Scope) error {
	if err := x.Over(in); err != nil {
		return err
	}
	f := cmp.Or(x.tooLarge(payload, "event "+name), x.tooLarge(start.Payload, "the input of orchestration "+start.Name),
		x.tooLargeTogether(name, payload, start))
	made := &history.EventSent{Instance: instance, Name: name, Payload: payload, Start: &start}
	ev, refused, ok := decide(&x.record, made, f)
	if ok && ev != made { // it was met
		x.samePayload(ev, ev.Start.Payload, start.Payload)
	}
	x.exit()
	return refusal(refused)
}

func (x *record) tooLargeTogether(event string, payload history.Payload, start history.SentStart) *history.Failure {
	limit, sum := max(2*x.opts.Limits.Payload-togetherRoom, x.opts.Limits.Payload), len(payload.Data)+len(start.Payload.Data)
	if sum <= limit {
		return nil
	}
	return &history.Failure{
		Code: history.CodeTooLarge, Permanent: true,
		Message: fmt.Sprintf("event %s and the input of orchestration %s have %d bytes together, and the limit is %d", event, start.Name, sum, limit),
	}
}

// decide makes a decision with an effect outside the instance: live it records made, with its effect id; on replay it
// returns the event that the history has for it. limited is a limit that it exceeds now, if any: then it is refused. ok is
// false if it was refused, exceeded the history, or is not the one that the history has.
func decide[E history.Event](x *record, made E, limited *history.Failure) (ev E, refused *history.Failure, ok bool) {
	if refused = x.refuse(made, limited); refused != nil {
		return ev, refused, false
	}
	switch {
	case x.past.active:
		ev, ok = x.meet(made.Kind(), subject(made), made).(E)
		if !ok || !x.samePayload(ev, payloadOf(ev), payloadOf(made)) {
			return ev, nil, false
		}
	case x.overdrawn():
		x.exceed()
		return ev, nil, false
	default:
		ev = made
		x.append(ev)
		x.room -= sizeOf(ev)
		x.stamp(ev)
	}
	x.seeds.advance()
	return ev, nil, true
}

// stamp sets the effect id of a decision, which its event id is part of.
func (x *record) stamp(ev history.Event) {
	switch ev := ev.(type) {
	case *history.ActivityScheduled:
		ev.Effect = history.ActivityEffect(x.id, ev)
	case *history.ChildScheduled:
		what := string(history.AppendText(history.AppendText(nil, subject(ev)), ev.Version))
		ev.Effect = history.EffectID(x.id, ev.ID, history.KindChildScheduled, what, ev.Payload)
	case *history.EventSent:
		what := subject(ev)
		if s := ev.Start; s != nil {
			b := history.AppendText(nil, what)
			for _, part := range []string{s.Version, s.Payload.Type, string(s.Payload.Data)} {
				b = history.AppendText(b, part)
			}
			what = string(b)
		}
		ev.Effect = history.EffectID(x.id, ev.ID, history.KindEventSent, what, ev.Payload)
	}
}
