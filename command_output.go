package pawl

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// holdout is how long output is waited for that only somebody outside the group can
// still write: all of the group's own is in the pipe by then.
const holdout = 250 * time.Millisecond

// excerpt keeps the beginning and the end of what is written to it.
type excerpt struct {
	head, tail []byte
	half       int
	at         int   // where the next byte of the tail goes, once it is full
	cut        int64 // bytes that were in the tail and no longer are
}

func newExcerpt(limit int) *excerpt {
	if limit <= 0 {
		limit = outputLimit
	}
	return &excerpt{half: max(limit/2, 1)}
}

// Write never fails.
func (x *excerpt) Write(b []byte) (int, error) {
	n := len(b)
	if room := x.half - len(x.head); room > 0 {
		k := min(room, len(b))
		x.head, b = append(x.head, b[:k]...), b[k:]
	}
	if more := len(b) - x.half; more > 0 { // the tail will be of these bytes alone
		x.cut += int64(len(x.tail) + more)
		x.tail, x.at, b = x.tail[:0], 0, b[more:]
	}
	if room := x.half - len(x.tail); room > 0 {
		k := min(room, len(b))
		x.tail, b = append(x.tail, b[:k]...), b[k:]
	}
	x.cut += int64(len(b))
	for len(b) > 0 {
		k := copy(x.tail[x.at:], b)
		x.at, b = (x.at+k)%x.half, b[k:]
	}
	return n, nil
}

func (x *excerpt) text() string {
	if x.cut == 0 {
		return string(x.head) + string(x.tail)
	}
	return fmt.Sprintf("%s\n[... %d bytes are left out ...]\n%s%s", x.head, x.cut, x.tail[x.at:], x.tail[:x.at])
}

// pipes carry what the program reads and writes. The ends of the program are closed
// here once it has them, so that the end of the last writer is seen.
type pipes struct {
	theirs []*os.File
	ours   []*os.File
	wg     sync.WaitGroup
	in     sync.WaitGroup
}

// reader gives the end that the program writes to; what it writes goes to w.
func (ps *pipes) reader(w io.Writer) (*os.File, error) {
	r, theirs, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	ps.theirs, ps.ours = append(ps.theirs, theirs), append(ps.ours, r)
	ps.wg.Go(func() { _, _ = io.Copy(w, r) }) // ends with the last writer, or at the deadline
	return theirs, nil
}

// writer gives the end that the program reads from, and writes to it what r has.
func (ps *pipes) writer(r io.Reader) (*os.File, error) {
	if f, ok := r.(*os.File); ok {
		return f, nil
	}
	theirs, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	ps.theirs, ps.ours = append(ps.theirs, theirs), append(ps.ours, w)
	ps.in.Go(func() {
		_, _ = io.Copy(w, r) // a program need not read what it is given
		_ = w.Close()
	})
	return theirs, nil
}

// handedOver closes the program's ends: it has its own.
func (ps *pipes) handedOver() {
	for _, f := range ps.theirs {
		_ = f.Close()
	}
}

// finish takes what is still in the pipes and closes them.
func (ps *pipes) finish() {
	for _, f := range ps.ours {
		if err := f.SetDeadline(time.Now().Add(holdout)); err != nil && !errors.Is(err, os.ErrClosed) {
			_ = f.Close() // a system whose pipes have no deadlines
		}
	}
	ps.wg.Wait()
	for _, f := range ps.ours {
		_ = f.Close()
	}
	ps.in.Wait()
}
