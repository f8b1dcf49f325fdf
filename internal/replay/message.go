package replay

import (
	"cmp"
	"fmt"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/pkg/history"
)

// Send sends an event to an instance, this one or another. It is recorded once, under one effect id, by which the receiver recognizes a
// duplicate. Its outcome is not reported. The error is that of a scope that is over, or a *history.Failure for a payload over the limit.
func (x *Code) Send(instance, name string, payload history.Payload, in *Scope) error {
	if err := x.Over(in); err != nil {
		return err
	}
	_, refused, _ := decide(&x.record, &history.EventSent{Instance: instance, Name: name, Payload: payload}, x.tooLarge(payload, "event "+name))
	x.exit()
	return refusal(refused)
}

// Broadcast sends one message to many instances. It is recorded and refused like Send.
func (x *Code) Broadcast(b *history.Broadcast, in *Scope) error {
	if err := x.Over(in); err != nil {
		return err
	}
	_, refused, _ := decide(&x.record, b, tooLargeInline(&x.record, b.Payload, "event "+b.Name))
	x.exit()
	return refusal(refused)
}

// refusal converts the failure of a refused decision to an error, which is nil if there is none.
func refusal(f *history.Failure) error {
	if f == nil {
		return nil
	}
	return f
}

// togetherRoom is subtracted from the size of two maximum payloads to get the limit for a start with an event, because both and their
// headers are sent as one message.
const togetherRoom = 64 << 10

// SendOrStart is Send for an event that starts the instance if its id is unused. Start and event are one message, so together they must
// be smaller than two maximum payloads minus 64 KiB.
func (x *Code) SendOrStart(instance, name string, payload history.Payload, start history.SentStart, in *Scope) error {
	if err := x.Over(in); err != nil {
		return err
	}
	f := cmp.Or(x.tooLarge(payload, "event "+name), x.tooLarge(start.Payload, "the input of orchestration "+start.Name),
		x.tooLargeTogether(name, payload, start))
	sent := &history.EventSent{Instance: instance, Name: name, Payload: payload, Start: &start}
	ev, refused, ok := decide(&x.record, sent, f)
	if ok && ev != sent { // ev is the recorded event
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

// decide makes a decision that has an effect outside the instance. Live, it records made, with its effect id. On replay, it returns the
// recorded event that matches made. If limited is set, the decision exceeds a limit and is refused. ok is false if the decision was
// refused, exceeds the maximum length of the history, or does not match the history.
func decide[E history.Event](x *record, made E, limited *history.Failure) (ev E, refused *history.Failure, ok bool) {
	if refused = x.refuse(made, limited); refused != nil {
		return ev, refused, false
	}
	switch {
	case x.past.active:
		ev, ok = x.match(made).(E)
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

// stamp sets the effect id of a decision. It is computed last, because it includes the event id.
func (x *record) stamp(ev history.Event) {
	switch ev := ev.(type) {
	case *history.ActivityScheduled:
		ev.Effect = effectid.Activity(x.id, ev)
	case *history.ChildScheduled:
		what := string(effectid.AppendText(effectid.AppendText(nil, subject(ev)), ev.Version))
		ev.Effect = effectid.Of(x.id, ev.ID, history.KindChildScheduled, what, ev.Payload)
	case *history.EventSent:
		what := subject(ev)
		if s := ev.Start; s != nil {
			b := effectid.AppendText(nil, what)
			for _, part := range []string{s.Version, s.Payload.Type, string(s.Payload.Data)} {
				b = effectid.AppendText(b, part)
			}
			what = string(b)
		}
		ev.Effect = effectid.Of(x.id, ev.ID, history.KindEventSent, what, ev.Payload)
	}
}
