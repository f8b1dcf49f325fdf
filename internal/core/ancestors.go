package core

import "github.com/pawlrun/pawl/pkg/cancel"

// noteCancelled notes the children that a turn has cancelled.
func (a *commits) noteCancelled(debts []*pendingMessage) {
	var marks []string
	for _, o := range debts {
		if o.cancelMark != "" {
			marks = append(marks, o.cancelMark)
		}
	}
	if len(marks) > 0 {
		a.owner.emit(Effect{Kind: NoteCancelled, Body: marks})
	}
}

// refuseBelow ends an instance before its code begins, because an ancestor was cancelled.
func (a *turns) refuseBelow(in *instance) {
	a.owner.met[CountChildRefused]++
	a.cancelByName(in, cancel.Requested, "", "an ancestor of this instance was cancelled before it began", 0)
}
