package core

// A poll is completed by the turn that has applied every unread input: see package replay. A history never records an open poll, so
// no wakeup would continue an instance that polls and has an empty inbox. Therefore:
//
//	a turn leaves a poll open only if it also leaves an input in the inbox, or a due timer, that a later turn applies
//
// This holds after every crash, because both have wakeups. A turn leaves inputs in the inbox when it is full (turnBytes), at a
// purge, and after a timer that waits for the horizon; it leaves the timers beyond turnTimers. If the owner has read only the head of the
// inbox (see record.Truncated), the turn leaves its last input, because no other may follow it. If an event was ingested between a
// read of the inbox and its answer, and the answer does not include it, the inbox is read once more before the turn: see instance.missed.
//
// An owner that has not ingested all inputs accepted before its tenure cannot determine which events have arrived. It discards turns whose
// code polls until it has caught up.

// takeInputs takes the inputs of the turn: all that are in memory, or all but the last if the inbox may contain more.
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

// waitToObserve discards a turn that polls before the owner has caught up.
func (t *turns) waitToObserve(in *instance) {
	t.owner.unload(in)
	in.observes = true
	t.owner.advance(in) // the owner may have caught up during the turn
}
