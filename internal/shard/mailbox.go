package shard

import (
	"sync"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/replay"
)

// mail is a message to the owner, or to the shell around it.
type mail struct {
	core.Message
	turned  *turnRun              // whose code is taken back first
	guest   *guestTurn            // likewise
	awaited chan<- replay.Awaited // of a request for what the code of an instance waits for; has room, and is closed if that is not known
}

// mailbox carries messages to the goroutine of the partition. post never blocks, for it is called from the goroutines that carry the
// answers of Redis and NATS. It is safe for concurrent use.
type mailbox struct {
	wake chan struct{}

	mu     sync.Mutex
	posted []mail
	spare  []mail
	closed bool
}

func newMailbox() *mailbox { return &mailbox{wake: make(chan struct{}, 1)} }

// post hands m over. It returns false if no goroutine will read it any more.
func (b *mailbox) post(m mail) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.posted = append(b.posted, m)
	if len(b.posted) == 1 {
		select {
		case b.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// each calls f with what has been posted, in order. The message belongs to f for the call only.
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
