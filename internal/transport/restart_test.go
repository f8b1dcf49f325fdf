package transport

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pawlrun/pawl/pkg/history"
)

// tracker reads a partition like an owner: from reader to reader, continuing at the position that it keeps.
type tracker struct {
	applied history.Position
	seen    map[string]bool
	jumped  bool // a sequence was skipped or read twice
}

func (k *tracker) read(ctx context.Context, c *Conn, upTo int) {
	for len(k.seen) < upTo && ctx.Err() == nil {
		r, err := c.Attach(ctx, 0, k.applied)
		if err != nil {
			continue // the server is restarting
		}
		k.drain(ctx, r, upTo)
		r.Stop()
	}
}

func (k *tracker) drain(ctx context.Context, r *Reader, upTo int) {
	for len(k.seen) < upTo {
		select {
		case batch := <-r.Batches():
			for _, in := range batch {
				k.jumped = k.jumped || in.Pos.Seq != k.applied.Seq+1
				k.applied = in.Pos
				k.seen[in.ID] = true
			}
		case <-r.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

func TestEveryAcknowledgedInputIsReadOnceAcrossRestarts(t *testing.T) {
	s := newHarness(t)
	c := s.open(Options{Partitions: 1})
	const n, restarts = 400, 3
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	sent, restart := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(restart)
		for i := range n {
			in := event("a", "x", "1")
			in.ID = fmt.Sprint("m", i)
			if _, err := c.PublishInput(ctx, in); err != nil {
				sent <- fmt.Errorf("input %d: %w", i, err)
				return
			}
			if i%(n/(restarts+1)) == 1 && i > 1 {
				restart <- struct{}{}
			}
		}
		sent <- nil
	}()
	k := &tracker{seen: make(map[string]bool)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		k.read(ctx, c, n)
	}()
	for range restart {
		s.stop()
		s.start()
	}
	ok(t, get(t, sent, "the publisher"))
	get(t, read, "the reader")
	if len(k.seen) != n || k.jumped {
		t.Fatalf("read %d of %d, skipped or repeated a sequence: %v", len(k.seen), n, k.jumped)
	}
}
