package core

import (
	"slices"
)

// waiters are the clients that wait for the end of an instance. They ask again every five
// seconds, so one that has not asked for longer is dropped.
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
	w.keep(id, func(x waiter) bool { return x.reply != reply })
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

// keep forgets the others of an instance.
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

// take removes the waiters of an instance and gives their reply subjects.
func (w *waiters) take(id string) []string {
	ws := w.byID[id]
	delete(w.byID, id)
	w.n -= len(ws)
	out := make([]string, len(ws))
	for i, x := range ws {
		out[i] = x.reply
	}
	return out
}

func (w *waiters) sweep(now int64) {
	if now-w.last < waiterKept {
		return
	}
	w.last = now
	if len(w.byID) == 0 {
		return
	}
	for id := range w.byID {
		w.keep(id, func(x waiter) bool { return now-x.heard <= waiterKept })
	}
	if len(w.byID) == 0 {
		w.byID = make(map[string][]waiter) // a map keeps the room of what was in it
	}
}

// await remembers the client of the message among those that wait.
func (o *Owner) await(among *waiters, m *Message) { among.add(m.ID, m.Body.(string), o.clock.now()) }

// sweepWaiters drops the clients that ask no more, also where no other one comes.
func (c *commits) sweepWaiters() {
	now := c.owner.clock.now()
	c.waiters.sweep(now)
	c.watchers.sweep(now)
	c.updaters.sweep(now)
}
