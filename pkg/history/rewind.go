package history

// RewindPlan is the result of planning a rewind. A history is a sequence of steps, and each step is kept or undone as a whole:
//
//	kept:  1 … Keep                          undone: Keep+1 … end
//	 activities outstanding there             their results ──▶ put back into the inbox; failures are not: those activities run again
//	 children outstanding there               their results ──▶ put back; otherwise they are still awaited
//	 timers                                   keep their times
//	                                          events received ──▶ put back, in order
//	                                          children started ──▶ undone: cancelled, and their explicit ids freed
//	                                          events sent, detached starts: stay sent
type RewindPlan struct {
	Keep     uint64               // last event that is kept; 0: none, the instance starts again
	PutBack  []Event              // inputs that are put back into the inbox, in order
	Answered []*ActivityScheduled // activities outstanding after the kept events whose results are put back, or are in the inbox already
	Reruns   []*ActivityScheduled // activities that are scheduled again
	Awaited  []*ChildScheduled    // children outstanding after the kept events
	Undone   []*ChildScheduled    // children whose starts are not kept
}
