package orchestrator

import "sync"

// mailbox carries functions to the actor's goroutine. post never blocks, for it is
// called from the goroutines that carry Redis' and NATS' answers.
type mailbox struct {
	wake chan struct{}

	mu     sync.Mutex
	posted []func()
	spare  []func()
	closed bool
}

func newMailbox() *mailbox { return &mailbox{wake: make(chan struct{}, 1)} }

// post hands f over. It reports false if nobody will run it any more.
func (b *mailbox) post(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.posted = append(b.posted, f)
	if len(b.posted) == 1 {
		select {
		case b.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// run runs what has been posted.
func (b *mailbox) run() {
	b.mu.Lock()
	now := b.posted
	b.posted = b.spare[:0]
	b.mu.Unlock()
	for i, f := range now {
		f()
		now[i] = nil
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
