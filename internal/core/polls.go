package core

// Polls are completed by the turn that has applied every input at hand: see package replay. No history has a poll that
// is not complete, so nothing would bring an instance back that polls and has an empty inbox. Therefore
//
//	a turn leaves a poll behind only if it leaves an input in the inbox, or a timer that is due, and a later turn applies that
//
// which holds over every crash, for both are on the schedule. A turn leaves inputs where it takes no
// more (turnBytes), before a purge, and behind a timer that waits for inputs; it leaves timers beyond turnTimers. Where the owner has read only the head of the inbox (see record.Cut) the turn leaves the last
// input that it has, for there may be none behind it. An event that was ingested between a reading of the inbox and its answer, which
// does not show it, has the inbox read once more before the turn: see instance.missed.
//
// An owner that has not ingested yet what was in the stream when its tenure began does not know what has
// arrived. Turns whose code polls are forgotten until it does.

// takeInputs takes the inputs of the turn: all that are at hand, or all but the last if there may be more.
func (g *Given) takeInputs(in *instance) {
	g.Inputs = in.unread
	if !in.cut {
		return
	}
	for last := len(in.unread) - 1; last > 0; last-- {
		if !in.unread[last].ForOwner() {
			g.More, g.Inputs = true, in.unread[:last]
			return
		}
	}
}

// waitToObserve forgets a turn that polls too early, until the owner has caught up.
func (t *turns) waitToObserve(in *instance) {
	t.owner.unload(in)
	in.observes = true
	t.owner.advance(in) // the owner may have caught up meanwhile
}
