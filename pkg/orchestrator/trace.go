package orchestrator

import (
	"fmt"
	"io"
	"sync"
)

// trace writes the messages of all shards and their effects, one line each: the partition, and a message or, indented, an effect of
// the message above it that has the same partition. The lines are those of testdata/interactions. It is safe for concurrent use; nil
// writes nothing.
type trace struct {
	mu sync.Mutex
	w  io.Writer
}

func newTrace(w io.Writer) *trace {
	if w == nil {
		return nil
	}
	return &trace{w: w}
}

func (t *trace) message(partition int, m *message) {
	if t != nil {
		t.write(partition, " ", m)
	}
}

func (t *trace) effect(partition int, e *effect) {
	if t != nil {
		t.write(partition, "   ", e)
	}
}

func (t *trace) write(partition int, indent string, what fmt.Stringer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = fmt.Fprintf(t.w, "p%d%s%s\n", partition, indent, what)
}
