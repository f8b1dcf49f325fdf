package replay

import "github.com/pawlrun/pawl/pkg/history"

// Send sends an event to an instance, this one or another. It is recorded once, under
// one effect id, by which the receiver knows a repeat. What becomes of it there is not
// told. The error is that of a scope that is over, or a *history.Failure of a payload
// over the limit.
func (x *Execution) Send(instance, name string, payload history.Payload, in *Scope) error {
	if _, err := x.enter(); err != nil {
		return err
	}
	if over := x.over(in); over != nil {
		return over
	}
	if f := x.tooLarge(payload, "event "+name); f != nil && !x.decided(history.KindEventSent, name) {
		return f
	}
	decide(x, &history.EventSent{Instance: instance, Name: name, Payload: payload})
	x.exit()
	return nil
}

// decide carries out a decision that asks something of the world: live it records made, with
// its effect id; on replay it gives the event that history has for it. ok is false if
// that was one decision too many, or not the one that history has.
func decide[E history.Event](x *Execution, made E) (ev E, ok bool) {
	switch {
	case x.past.active:
		ev, ok = x.meet(made.Kind(), subject(made), made).(E)
		if !ok || !x.samePayload(ev, payloadOf(ev), payloadOf(made)) {
			return ev, false
		}
	case x.overdrawn():
		x.exceed()
		return ev, false
	default:
		ev = made
		x.append(ev)
		x.stamp(ev)
	}
	x.seeds.advance()
	return ev, true
}

// stamp gives a decision its effect id, which its event id is part of.
func (x *Execution) stamp(ev history.Event) {
	switch ev := ev.(type) {
	case *history.ActivityScheduled:
		ev.Effect = EffectID(x.id, ev.ID, history.KindActivityScheduled, subject(ev), ev.Payload)
	case *history.ChildScheduled:
		what := string(appendText(appendText(nil, subject(ev)), ev.Version))
		ev.Effect = EffectID(x.id, ev.ID, history.KindChildScheduled, what, ev.Payload)
	case *history.EventSent:
		ev.Effect = EffectID(x.id, ev.ID, history.KindEventSent, subject(ev), ev.Payload)
	}
}
