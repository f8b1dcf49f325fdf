package exec

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// drainTimeout bounds the wait for output that only a process outside the group can still write, because the group's own output is
// already in the pipe.
const drainTimeout = 250 * time.Millisecond

// excerpt is a writer that keeps the beginning and the end of its input.
type excerpt struct {
	head, tail []byte
	half       int
	next       int   // offset of the next byte in the tail, once the tail is full
	omitted    int64 // number of bytes in the tail that were overwritten
}

func newExcerpt(limit int) *excerpt {
	if limit <= 0 {
		limit = defaultOutputLimit
	}
	return &excerpt{half: max(limit/2, 1)}
}

// Write implements io.Writer. It never fails.
func (x *excerpt) Write(b []byte) (int, error) {
	n := len(b)
	if room := x.half - len(x.head); room > 0 {
		k := min(room, len(b))
		x.head, b = append(x.head, b[:k]...), b[k:]
	}
	if more := len(b) - x.half; more > 0 { // the new bytes fill the whole tail
		x.omitted += int64(len(x.tail) + more)
		x.tail, x.next, b = x.tail[:0], 0, b[more:]
	}
	if room := x.half - len(x.tail); room > 0 {
		k := min(room, len(b))
		x.tail, b = append(x.tail, b[:k]...), b[k:]
	}
	x.omitted += int64(len(b))
	for len(b) > 0 {
		k := copy(x.tail[x.next:], b)
		x.next, b = (x.next+k)%x.half, b[k:]
	}
	return n, nil
}

func (x *excerpt) text() string {
	if x.omitted == 0 {
		return string(x.head) + string(x.tail)
	}
	return fmt.Sprintf("%s\n[... %d bytes omitted ...]\n%s%s", x.head, x.omitted, x.tail[x.next:], x.tail[:x.next])
}

// pipes are the program's standard streams. This process closes the program's ends once the program has started, so that a reader
// receives EOF when the last writer has ended.
type pipes struct {
	remote []*os.File // the program's ends
	local  []*os.File // this process's ends
	output sync.WaitGroup
	input  sync.WaitGroup
}

// reader returns the end that the program writes to, and copies its output to w.
func (ps *pipes) reader(w io.Writer) (*os.File, error) {
	r, remote, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	ps.remote, ps.local = append(ps.remote, remote), append(ps.local, r)
	ps.output.Go(func() { _, _ = io.Copy(w, r) }) // ends when the last writer ends, or at the deadline
	return remote, nil
}

// writer returns the end that the program reads from, and copies r to it.
func (ps *pipes) writer(r io.Reader) (*os.File, error) {
	if f, ok := r.(*os.File); ok {
		return f, nil
	}
	remote, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	ps.remote, ps.local = append(ps.remote, remote), append(ps.local, w)
	ps.input.Go(func() {
		_, _ = io.Copy(w, r) // a program need not read its input
		_ = w.Close()
	})
	return remote, nil
}

// closeRemote closes the program's ends in this process.
func (ps *pipes) closeRemote() {
	for _, f := range ps.remote {
		_ = f.Close()
	}
}

// finish reads the rest of the output and closes the pipes.
func (ps *pipes) finish() {
	for _, f := range ps.local {
		if err := f.SetDeadline(time.Now().Add(drainTimeout)); err != nil && !errors.Is(err, os.ErrClosed) {
			_ = f.Close() // this platform's pipes have no deadlines
		}
	}
	ps.output.Wait()
	for _, f := range ps.local {
		_ = f.Close()
	}
	ps.input.Wait()
}
