package transport

import (
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/message"
)

// Local connects the orchestrator and the workers of one process: tasks and doorbells between them do not go through NATS. It is only a
// shortcut; any of them may also take the regular path.
//
//	the turn is decided ──▶ Reserve: a free slot, a token ──▶ the commit creates the lease, claimed with the token
//	                           │                                 ├── committed ──▶ Run: the handler runs
//	                           │ no handler, no free slot        ├── no reply: sent again, with the same token
//	                           ▼                                 └── fenced, conflict, rejected, tenure over ──▶ Drop: the slot is free,
//	              lease unclaimed, task published                      and a lease of an earlier attempt is released
//
// The lease protects such a task like a task from NATS, with the same checks at its renewal and ack. Crash points of the process, in
// order: before the commit nothing is written, and the next owner decides the turn again; after the commit the claim is that of a dead
// worker, which expires after its TTL and is dispatched again; after the ack the completion is in the inbox, which has a wakeup.
//
// A nil Local connects nothing. Its methods are safe for concurrent use.
type Local struct {
	mu     sync.RWMutex
	takers map[localQueue]*func(activity, instance string) *Reservation
	owners map[localPartition]*func([]message.Doorbell)
}

type localQueue struct{ namespace, queue string }

type localPartition struct {
	namespace string
	partition int
}

// NewLocal returns a Local, to be set as Config.Local of an orchestrator and of workers.
func NewLocal() *Local {
	return &Local{takers: make(map[localQueue]*func(string, string) *Reservation), owners: make(map[localPartition]*func([]message.Doorbell))}
}

// Reservation is a slot of a worker in this process for one activity. Exactly one of Run and Drop must be called; neither blocks.
type Reservation struct {
	Token  string // token of the claim
	Worker string
	TTL    time.Duration

	Run  func(Task) // starts the task: its lease exists, and is claimed with the token
	Drop func(Task) // gives up the slot; if the lease exists, it is released. Only the fields that identify the lease are set
}

// ServeLocal offers the slots of a queue to the orchestrator of this process, until stop, which waits for running calls. A worker calls it
// once per queue. reserve must not block; it returns nil without a free slot.
func (c *taskStream) ServeLocal(queue string, reserve func(activity, instance string) *Reservation) (stop func()) {
	l := c.opts.Local
	if l == nil {
		return func() {}
	}
	return register(l, l.takers, localQueue{c.opts.Namespace, queue}, reserve)
}

// Reserve reserves a slot of a worker in this process for an activity; nil: there is no free slot.
func (c *taskStream) Reserve(queue, activity, instance string) *Reservation {
	l := c.opts.Local
	if l == nil {
		return nil
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if taker := l.takers[localQueue{c.opts.Namespace, queue}]; taker != nil {
		return (*taker)(activity, instance)
	}
	return nil
}

// serveDoorbells passes doorbells from workers of this process to fn, until stop, which waits for running calls.
func (l *Local) serveDoorbells(namespace string, partition int, fn func([]message.Doorbell)) (stop func()) {
	if l == nil {
		return func() {}
	}
	return register(l, l.owners, localPartition{namespace, partition}, fn)
}

// sendDoorbells passes doorbells to the owner of a partition, and reports whether that owner is in this process.
func (l *Local) sendDoorbells(namespace string, partition int, doorbells []message.Doorbell) bool {
	if l == nil {
		return false
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	owner := l.owners[localPartition{namespace, partition}]
	if owner != nil {
		(*owner)(doorbells)
	}
	return owner != nil
}

// register sets an entry of a map of l, and returns the function that removes it. A later entry with the same key replaces it.
func register[K comparable, F any](l *Local, to map[K]*F, key K, f F) (remove func()) {
	entry := &f
	l.mu.Lock()
	to[key] = entry
	l.mu.Unlock()
	return func() {
		l.mu.Lock()
		if to[key] == entry {
			delete(to, key)
		}
		l.mu.Unlock()
	}
}
