package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/memstore"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// Requests of operators take effect once, and do not rerun work whose result is in the history.

// noRepeatedCall checks that a call with a result is not scheduled again, neither after a pause nor after a rewind.
func noRepeatedCall(events []history.Event) string {
	call, done := map[uint64]string{}, map[string]bool{}
	mark := func(calls []uint64) {
		for _, id := range calls {
			done[call[id]] = true
		}
	}
	for _, ev := range events {
		switch e := ev.(type) {
		case *history.ActivityScheduled:
			if done[e.CallKey()] {
				return fmt.Sprintf("event %d schedules what has completed", e.ID)
			}
			call[e.ID] = e.CallKey()
		case *history.ActivityCompleted:
			mark([]uint64{e.Scheduled})
		case *history.Resumed:
			mark(e.Answered)
		case *history.Rewound:
			mark(e.Answered)
		}
	}
	return ""
}

// resumed checks that a resumption keeps every result.
func resumed(w *World, inbox []memstore.Element, past *fold.State, events []history.Event) {
	for _, ev := range events {
		if re, ok := ev.(*history.Resumed); ok && re.Stopped {
			answered(w, inbox, past, re.Answered)
		}
	}
}

// answered checks that an event names exactly the activities whose results are unread.
func answered(w *World, inbox []memstore.Element, past *fold.State, named []uint64) {
	for _, id := range past.Outstanding() {
		effect := past.Activity(id).Effect
		has := slices.ContainsFunc(inbox, func(e memstore.Element) bool { return e.Kind == "done" && e.Tag == effect })
		switch {
		case has && !slices.Contains(named, id):
			w.Broken = fmt.Sprintf("activity %d has a result that is unread, and is to run again", id)
		case !has && slices.Contains(named, id):
			w.Broken = fmt.Sprintf("activity %d is not to run again, and its result is lost", id)
		}
	}
}

// beginsRewound reports an execution that was rewound, and has had no turn since.
func beginsRewound(in *memstore.Instance) bool {
	return len(in.Inbox) > 0 && strings.HasPrefix(in.Inbox[0].ID, record.RewoundMark)
}

// requested reports a request for a paused instance that has not taken effect.
func requested(in *memstore.Instance) bool {
	return slices.ContainsFunc(in.Inbox, func(e memstore.Element) bool {
		switch ev := inputOf(e).(type) {
		case *history.OperatorRequested:
			var seq uint64
			_, err := fmt.Sscanf(e.ID, "s%d.", &seq)
			return err == nil && in.Data.Control.Seq < seq
		case *history.PurgeRequested:
			return ev.Force
		case *history.CancelRequested:
			return true
		default:
			return false
		}
	})
}

// rewound checks that a rewind keeps every result, and records the undone cancellations.
func rewound(w *World, before *memstore.Instance, wanted *record.Rewind) {
	in := w.Store.Get(wanted.Instance)
	if in.Head == before.Head {
		return
	}
	past, _, _ := foldHistory(in.History())
	var kept []uint64
	if re, ok := inputOf(in.Inbox[0]).(*history.Rewound); ok {
		kept = re.Answered
	}
	answered(w, in.Inbox, past, kept)
	_, events, _ := foldHistory(before.History())
	for _, ev := range events[min(wanted.Keep, uint64(len(events))):] {
		if c, ok := ev.(*history.CancelRequested); ok {
			w.Removed[inputID(c)] = true
		}
	}
}
