package shard

import (
	"fmt"
	"io"
	"sync"

	"github.com/pawlrun/pawl/internal/core"
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

func (t *trace) message(partition int, m *core.Message, p core.Phase) {
	switch {
	case t == nil:
	case p == core.Absent:
		t.write(partition, " "+m.String())
	default:
		t.write(partition, fmt.Sprintf(" %s (%s)", m, p))
	}
}

func (t *trace) effect(partition int, e *core.Effect) {
	if t != nil {
		t.write(partition, "   "+e.String())
	}
}

func (t *trace) write(partition int, line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = fmt.Fprintf(t.w, "p%d%s\n", partition, line)
}
