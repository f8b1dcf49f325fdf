package shard

import (
	"sync"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/replay"
)

// mail is a message to the owner, with work that the shell does before the owner handles it.
type mail struct {
	core.Message
	turned  *turnRun              // a turn that has ended; its code returns to the residents
	guest   *guestTurn            // a turn that another member has decided; dropped if it is no longer expected
	awaited chan<- replay.Awaited // receives what the code of an instance waits for, and is closed: empty if that is unknown. It is buffered
}

// mailbox carries messages to the goroutine of the partition. post never blocks, because it runs on the goroutines that deliver the
// answers of Redis and NATS. A mailbox is safe for concurrent use.
type mailbox struct {
	wake chan struct{}

	mu     sync.Mutex
	posted []mail
	spare  []mail
	closed bool
}

func newMailbox() *mailbox { return &mailbox{wake: make(chan struct{}, 1)} }

// post appends m. It returns false if the mailbox is closed.
func (b *mailbox) post(m mail) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.posted = append(b.posted, m)
	if len(b.posted) == 1 {
		signal(b.wake)
	}
	return true
}

// signal sends to a channel with a buffer of one, unless a signal is already waiting there.
func signal(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// each takes all posted items and calls f with each, in order. f must not retain its argument.
func (b *mailbox) each(f func(*mail)) {
	b.mu.Lock()
	now := b.posted
	b.posted = b.spare[:0]
	b.mu.Unlock()
	for i := range now {
		f(&now[i])
		now[i] = mail{}
	}
	b.mu.Lock()
	b.spare = now
	b.mu.Unlock()
}

func (b *mailbox) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
}
