package pawltest

import "github.com/pawlrun/pawl/pkg/history"

// What has arrived is decided by an instant here, as by a turn in production: a poll completes behind what was
// due at its instant when it began. That is what moments send, what instances have sent each other, and what
// activities have returned. What its own turn has decided comes later, as it would in production.

// polled gives an instance whose poll is complete, or nil.
func (e *Env) polled(moments bool) *instance {
	for _, in := range e.live {
		if in.polls && e.arrived(in, moments) {
			return in
		}
	}
	return nil
}

// arrived reports whether nothing is left that the poll of the instance must see.
func (e *Env) arrived(in *instance, moments bool) bool {
	if moments {
		if i := first(e.timed, func(t timed) int64 { return t.at }); i >= 0 && e.timed[i].at <= e.now {
			return false
		}
	}
	if len(e.mail) > 0 && e.mail[0].number <= in.behind {
		return false
	}
	for _, r := range e.runs {
		if r.due <= e.now && r.number <= in.behind {
			return false
		}
	}
	_, at, ok := in.timer()
	return !ok || at > e.now
}

// observe completes the polls of the instance.
func (in *instance) observe() {
	in.e.tb.Helper()
	in.turn(&history.Observed{})
}

// notePolls keeps, when the code begins to poll, what was under way before the turn in which it did.
func (in *instance) notePolls(before uint64) {
	polls := in.now().x.Polling()
	if polls && !in.polls {
		in.behind = before
	}
	in.polls = polls
}

// noteUnread keeps the events that nothing has read when the instance ends: those that it has received, and those
// that are at hand and come too late.
func (in *instance) noteUnread(received []*history.EventReceived) {
	in.unread = received
	for _, l := range in.e.inputs {
		if ev, ok := l.ev.(*history.EventReceived); ok && l.to == in.id {
			in.unread = append(in.unread, ev)
		}
	}
}
