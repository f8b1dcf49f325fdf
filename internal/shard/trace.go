package shard

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/recording"
)

// trace writes the messages of all shards and their effects, one line each. A line consists of the partition and a message, or an indented
// effect of the latest message above with the same partition. The format is that of testdata/interactions. A trace is safe for concurrent
// use; a nil *trace writes nothing.
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

// begin records the beginning of a tenure.
func (t *trace) begin(partition int, now time.Time, cfg *core.Config, begin *core.TenureStart) {
	if t != nil {
		t.write(recording.Recorder{Partition: partition}.Begin(now, cfg, begin))
	}
}

// message writes a message that the owner is about to handle: one line to read, and one from which the message can be replayed.
func (t *trace) message(partition int, now time.Time, m *core.Message, owner *core.Owner) {
	if t == nil {
		return
	}
	in := ""
	if p := owner.PhaseOf(m.ID); p != core.Absent {
		in = fmt.Sprintf(" (%s)", p)
	}
	t.write(fmt.Sprintf("p%d %s%s\n%s", partition, m, in, recording.Recorder{Partition: partition}.Message(now, m)))
}

func (t *trace) effect(partition int, e *core.Effect) {
	if t != nil {
		t.write(fmt.Sprintf("p%d   %s", partition, e))
	}
}

func (t *trace) write(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = fmt.Fprintln(t.w, line)
}
