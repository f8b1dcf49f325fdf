package core

import "slices"

// waiters are clients that wait for an instance. They repeat their request every five seconds; a client that
// has not repeated it for waiterTTL is dropped.
type waiters struct {
	byID  map[string][]waiter
	n     int   // number of all waiters
	swept int64 // time of the last sweep, Unix ms
}

type waiter struct {
	reply    string
	lastSeen int64 // Unix ms
}

const (
	waiterTTL             = 15_000 // ms
	maxWaitersPerInstance = 100    // the oldest is dropped for another one
	maxWaiters            = 20_000 // per partition; another one is not remembered, and repeats its request
)

func newWaiters() waiters { return waiters{byID: make(map[string][]waiter)} }

// add remembers a client, or that it has repeated its request.
func (w *waiters) add(id, reply string, now int64) {
	w.sweep(now)
	w.keep(id, func(x waiter) bool { return x.reply != reply })
	ws := w.byID[id]
	if len(ws) == maxWaitersPerInstance {
		ws = slices.Delete(ws, 0, 1)
		w.n--
	}
	if w.n >= maxWaiters {
		return
	}
	w.byID[id] = append(ws, waiter{reply: reply, lastSeen: now})
	w.n++
}

// keep drops the waiters of an instance for which which returns false.
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

// take removes the waiters of an instance and returns their reply subjects.
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

// sweep drops the waiters that have not repeated their request.
func (w *waiters) sweep(now int64) {
	if now-w.swept < waiterTTL {
		return
	}
	w.swept = now
	if len(w.byID) == 0 {
		return
	}
	for id := range w.byID {
		w.keep(id, func(x waiter) bool { return now-x.lastSeen <= waiterTTL })
	}
	if len(w.byID) == 0 {
		w.byID = make(map[string][]waiter) // an emptied map does not shrink
	}
}

// await adds the client of the message to w.
func (o *Owner) await(w *waiters, m *Message) { w.add(m.ID, m.Body.(string), o.clock.now()) }

// sweepWaiters drops the waiters that have not repeated their request, even if no other client arrives.
func (c *commits) sweepWaiters() {
	now := c.owner.clock.now()
	c.waiters.sweep(now)
	c.watchers.sweep(now)
	c.updaters.sweep(now)
}
