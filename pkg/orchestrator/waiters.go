package orchestrator

import (
	"slices"

	"github.com/pawlrun/pawl/pkg/queue"
)

// waiters are the clients that want to be told how an instance ends. They ask again every five
// seconds, so one that has not been heard of for longer is dropped.
type waiters struct {
	byID map[string][]waiter
	n    int // of them all
	last int64
}

type waiter struct {
	reply string
	heard int64 // Unix ms
}

const (
	waiterKept = 15_000 // ms
	waiterMost = 100    // of one instance
	waitersAll = 20_000 // of one partition; one more is not remembered, and asks again
)

func newWaiters() waiters { return waiters{byID: make(map[string][]waiter)} }

func (w *waiters) add(id, reply string, now int64) {
	w.sweep(now)
	w.drop(id, reply)
	ws := w.byID[id]
	if len(ws) == waiterMost {
		ws = slices.Delete(ws, 0, 1)
		w.n--
	}
	if w.n >= waitersAll {
		return
	}
	w.byID[id] = append(ws, waiter{reply: reply, heard: now})
	w.n++
}

// drop forgets one of them.
func (w *waiters) drop(id, reply string) {
	w.keep(id, func(x waiter) bool { return x.reply != reply })
}

func (w *waiters) keep(id string, which func(waiter) bool) {
	had := w.byID[id]
	ws := slices.DeleteFunc(had, func(x waiter) bool { return !which(x) })
	w.n -= len(had) - len(ws)
	if len(ws) == 0 {
		delete(w.byID, id)
	} else {
		w.byID[id] = ws
	}
}

func (w *waiters) take(id string) []waiter {
	ws := w.byID[id]
	delete(w.byID, id)
	w.n -= len(ws)
	return ws
}

func (w *waiters) sweep(now int64) {
	if now-w.last < waiterKept {
		return
	}
	w.last = now
	for id := range w.byID {
		w.keep(id, func(x waiter) bool { return now-x.heard <= waiterKept })
	}
}

func (a *actor) answerWaiters(in *instance) {
	ws := a.waiters.take(in.id)
	if in.rec != nil {
		a.tellAll(ws, func() queue.Answer { return ended(in.id, in.rec) })
	}
}

// tellAll tells all who wait, if anybody does.
func (a *actor) tellAll(ws []waiter, what func() queue.Answer) {
	if len(ws) == 0 {
		return
	}
	ans := what()
	for _, w := range ws {
		a.answer(w.reply, ans)
	}
}

func (a *actor) answer(reply string, ans queue.Answer) {
	if reply == "" {
		return
	}
	if err := a.conn.Answer(reply, ans); err != nil {
		a.log.Debug("an answer could not be sent; who waits asks again", "instance", ans.Instance, "error", err)
	}
}

// announce has the clients that wait for something in the partition request it again: they are known to the owner
// before this one, or to this one from before it was cut off.
func (a *actor) announce() {
	if err := a.conn.AnnounceOwner(a.st.Part); err != nil {
		a.log.Debug("owner could not be announced, waiting clients request again by themselves", "error", err)
	}
}
