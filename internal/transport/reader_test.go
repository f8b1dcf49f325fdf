package transport

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pkg/history"
)

// publish sends events to instance "a", which is in the only partition, and returns their names.
func publish(t testing.TB, c *Conn, from, n int) []string {
	t.Helper()
	var names []string
	for i := range n {
		name := fmt.Sprintf("e%d", from+i)
		in := event("a", name, "1")
		in.ID = name // safe to repeat, so it is retried while the connection is being restored
		_, err := c.PublishInput(soon(t), in)
		ok(t, err)
		names = append(names, name)
	}
	return names
}

// readAfter attaches, reads n inputs and stops.
func readAfter(t testing.TB, c *Conn, after history.Position, n int) ([]message.Input, *Gap) {
	t.Helper()
	r, err := c.Attach(soon(t), 0, after)
	ok(t, err)
	defer r.Stop()
	return read(t, r, n), r.Gap()
}

func same(t *testing.T, got []message.Input, want []string) {
	t.Helper()
	if !slices.Equal(names(got), want) {
		t.Fatalf("read %v, want %v", names(got), want)
	}
}

func TestReaderContinuesAfterTheStoredPosition(t *testing.T) {
	c := newHarness(t).open(Options{Partitions: 1})
	want := publish(t, c, 0, 5)
	first, _ := readAfter(t, c, history.Position{}, 5)
	same(t, first, want)
	rest, gap := readAfter(t, c, first[1].Pos, 3)
	same(t, rest, want[2:])
	if gap != nil {
		t.Fatal(gap)
	}
}

func TestReaderWaitsForInputs(t *testing.T) {
	c := newHarness(t).open(Options{Partitions: 1})
	r, err := c.Attach(soon(t), 0, history.Position{})
	ok(t, err)
	defer r.Stop()
	same(t, read(t, r, 0), nil)
	want := publish(t, c, 0, 3)
	same(t, read(t, r, 3), want)
}

func TestSlowOwnerLosesNoInputsAndThrottlesTheServer(t *testing.T) {
	c := newHarness(t).open(Options{Partitions: 1, PublishTimeout: time.Minute})
	const n = 5000
	left := make(chan error, n)
	for range n {
		c.PublishInputAsync(event("a", "x", "1"), func(_ uint64, err error) { left <- err })
	}
	for range n {
		ok(t, get(t, left, "an acknowledgement"))
	}
	r, err := c.Attach(soon(t), 0, history.Position{})
	ok(t, err)
	defer r.Stop()
	eventually(t, "a full batch", func() bool { return c.Stats().Received == maxBatch })
	for i, in := range read(t, r, n) {
		if in.Pos.Seq != uint64(i+1) {
			t.Fatalf("input %d has sequence %d", i, in.Pos.Seq)
		}
	}
}

func TestReaderRequestsFewerLargeInputs(t *testing.T) {
	r := &Reader{requested: maxBatch, size: MaxPayload}
	r.fetch = &fetch{ended: true}
	r.refill(200)
	if r.requested != maxBatch-200 || r.fetch.wanted != 0 {
		t.Fatalf("requested %d, want %d", r.requested, r.fetch.wanted)
	}
	r.refill(50)
	if want := readAhead / MaxPayload; r.requested != want || r.fetch.wanted != want-(maxBatch-250) {
		t.Fatalf("requested %d, want %d", r.requested, r.fetch.wanted)
	}
}

func TestRecreatedStreamIsReadFromItsBeginning(t *testing.T) {
	c := newHarness(t).open(Options{Partitions: 1})
	publish(t, c, 0, 10)
	old, _ := readAfter(t, c, history.Position{}, 10)
	applied := old[9].Pos
	ok(t, c.js.DeleteStream(soon(t), c.inputs.Name))

	var r *Reader
	var err error
	poll.Until(t, time.Minute, "the stream is created again", func() bool { // the files of the deleted one may not be removed yet
		r, err = c.Attach(soon(t), 0, applied)
		return err == nil || !Unavailable(err)
	})
	ok(t, err)
	defer r.Stop()
	want := publish(t, c, 100, 3)
	got := read(t, r, 3)
	same(t, got, want)
	if got[0].Pos.Seq != 1 {
		t.Fatalf("want restarted sequences, got %d", got[0].Pos.Seq)
	}
	// Also if the new stream has grown past the old position before a reader starts.
	want = append(want, publish(t, c, 103, 10)...)
	got, _ = readAfter(t, c, applied, 13)
	same(t, got, want)
}

func TestStreamThatLostItsTailIsReadByTime(t *testing.T) {
	c := newHarness(t).open(Options{Partitions: 1})
	publish(t, c, 0, 10)
	all, _ := readAfter(t, c, history.Position{}, 10)
	// The server restarts in its state before the last four messages.
	lost := history.Position{Seq: all[9].Pos.Seq + 4, Time: all[9].Pos.Time + 1}
	want := publish(t, c, 10, 2)
	got, gap := readAfter(t, c, lost, 2)
	same(t, got, want)
	if gap != nil {
		t.Fatal(gap)
	}
	// The lost sequences are assigned again, so the anchor has another time.
	want = append(want, publish(t, c, 12, 4)...)
	got, _ = readAfter(t, c, lost, 6)
	same(t, got, want)
}

func TestDeletedAnchorSkipsAndRepeatsNoInput(t *testing.T) {
	c := newHarness(t).open(Options{Partitions: 1})
	publish(t, c, 0, 8)
	all, _ := readAfter(t, c, history.Position{}, 8)
	stream, err := c.js.Stream(soon(t), c.inputs.Name)
	ok(t, err)
	for _, seq := range []uint64{3, 4, 5, 6} {
		ok(t, stream.DeleteMsg(soon(t), seq))
	}
	got, _ := readAfter(t, c, all[3].Pos, 2)
	same(t, got, []string{"e6", "e7"})
}

func TestGapIsReported(t *testing.T) {
	c := newHarness(t).open(Options{Partitions: 1})
	publish(t, c, 0, 10)
	all, _ := readAfter(t, c, history.Position{}, 10)
	purge := func(upTo uint64) {
		var answer struct{}
		ok(t, c.api(soon(t), "STREAM.PURGE."+c.inputs.Name, map[string]any{"seq": upTo}, &answer))
	}
	purge(5)
	got, gap := readAfter(t, c, all[3].Pos, 6) // 1 to 4 are gone, and were read
	same(t, got, []string{"e4", "e5", "e6", "e7", "e8", "e9"})
	if gap != nil {
		t.Fatal(gap)
	}
	_, gap = readAfter(t, c, all[1].Pos, 6) // 3 and 4 were not
	if gap == nil || gap.First != 5 || gap.After != all[1].Pos {
		t.Fatalf("gap %+v", gap)
	}
	purge(11) // everything
	want := publish(t, c, 10, 1)
	got, gap = readAfter(t, c, all[9].Pos, 1)
	same(t, got, want)
	if gap != nil {
		t.Fatal(gap)
	}
	if c.Stats().Gaps != 1 {
		t.Fatalf("counted %d gaps", c.Stats().Gaps)
	}
}

func TestReaderEndsWhenItsStreamIsDeleted(t *testing.T) {
	c := newHarness(t).open(Options{Partitions: 1})
	r, err := c.Attach(soon(t), 0, history.Position{})
	ok(t, err)
	publish(t, c, 0, 1)
	read(t, r, 1) // so that the server has its request; otherwise only silence would reveal the loss
	ok(t, c.js.DeleteStream(soon(t), c.inputs.Name))
	get(t, r.Done(), "the end")
	if !errors.Is(r.Err(), ErrDetached) {
		t.Fatal(r.Err())
	}
	r.Stop()
}

func TestReaderEndsAtADisconnectAndTheNextContinues(t *testing.T) {
	s := newHarness(t)
	c := s.open(Options{Partitions: 1})
	want := publish(t, c, 0, 3)
	r, err := c.Attach(soon(t), 0, history.Position{})
	ok(t, err)
	got := read(t, r, 2+1)
	s.stop()
	get(t, r.Done(), "the end")
	if !errors.Is(r.Err(), ErrDetached) {
		t.Fatal(r.Err())
	}
	s.start()
	eventually(t, "the connection", c.nc.IsConnected)
	want = append(want, publish(t, c, 3, 2)...)
	same(t, append(got, readDistinct(t, c, got[2].Pos, 2)...), want)
}

// readDistinct attaches and reads inputs of n different ids. A publish with an unknown outcome is repeated with its id, for example one that
// was sent while the previous disconnect was still being handled; the stream then has it twice, and the store accepts one.
func readDistinct(t *testing.T, c *Conn, after history.Position, n int) []message.Input {
	t.Helper()
	r, err := c.Attach(soon(t), 0, after)
	ok(t, err)
	defer r.Stop()
	var all []message.Input
	for last := after.Seq; len(all) < n; {
		for _, in := range read(t, r, 1) { // at least one
			if in.Pos.Seq <= last {
				t.Fatalf("sequence %d after %d", in.Pos.Seq, last)
			}
			last = in.Pos.Seq
			if !slices.ContainsFunc(all, func(seen message.Input) bool { return seen.ID == in.ID }) {
				all = append(all, in)
			}
		}
	}
	return all
}

func TestStopEndsReaderWithUnreceivedInputs(t *testing.T) {
	c := newHarness(t).open(Options{Partitions: 1})
	publish(t, c, 0, 20)
	r, err := c.Attach(soon(t), 0, history.Position{})
	ok(t, err)
	eventually(t, "the first inputs", func() bool { return c.Stats().Received > 0 })
	r.Stop()
	r.Stop()
	if !errors.Is(r.Err(), ErrClosed) {
		t.Fatal(r.Err())
	}
	eventually(t, "the consumer to be gone", func() bool {
		stream, err := c.js.Stream(soon(t), c.inputs.Name)
		return err == nil && stream.CachedInfo().State.Consumers == 0
	})
}

func TestTailRequiresThatEveryInputWasReceived(t *testing.T) {
	c := newHarness(t).open(Options{Partitions: 2})
	var mine, other string
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		if c.PartitionOf(id) == 0 {
			mine = id
		} else {
			other = id
		}
	}
	send := func(id string) {
		_, err := c.PublishInput(soon(t), event(id, "x", "1"))
		ok(t, err)
	}
	r, err := c.Attach(soon(t), 0, history.Position{})
	ok(t, err)
	defer r.Stop()
	tail := func() (history.Position, bool) {
		pos, there, err := r.Tail(soon(t))
		ok(t, err)
		return pos, there
	}
	if _, ok := tail(); ok {
		t.Fatal("an empty stream has no position")
	}
	send(other)
	if pos, ok := tail(); !ok || pos.Seq != 1 || pos.Time == 0 {
		t.Fatalf("%+v %v, want the message of the other partition", pos, ok)
	}
	send(mine)
	send(other)
	if pos, ok := tail(); ok {
		t.Fatalf("%+v, but message 2 was not received", pos)
	}
	read(t, r, 1)
	eventually(t, "the tail", func() bool { pos, ok := tail(); return ok && pos.Seq == 3 })
	// The position is suitable to continue from.
	pos, _ := tail()
	stream, err := c.js.Stream(soon(t), c.inputs.Name)
	ok(t, err)
	if there, err := c.anchored(soon(t), stream.CachedInfo().State, pos); !there || err != nil {
		t.Fatalf("%+v is not a position of the stream: %v", pos, err)
	}
	send(mine)
	got, gap := readAfter(t, c, pos, 1)
	if got[0].Pos.Seq != 4 || gap != nil {
		t.Fatalf("%+v %v", got[0].Pos, gap)
	}
}

// A paused consumer sends heartbeats but no messages, like a consumer whose server has a replica of the stream that does not follow the
// leader.
func TestReaderWhoseConsumerStallsEndsAndTheNextContinues(t *testing.T) {
	c := newHarness(t).open(Options{Partitions: 1})
	r, err := c.Attach(soon(t), 0, history.Position{})
	ok(t, err)
	defer r.Stop()
	publish(t, c, 0, 1)
	first := read(t, r, 1)
	eventually(t, "the tail of a reader that has everything", func() bool { // which the reader records just after the test has received it
		_, whole, err := r.Tail(soon(t))
		ok(t, err)
		return whole
	})
	_, err = c.js.PauseConsumer(soon(t), c.inputs.Name, r.consumer, time.Now().Add(time.Hour))
	ok(t, err)
	want := publish(t, c, 1, 1)
	for range 2 {
		if _, whole, err := r.Tail(soon(t)); err != nil || whole {
			t.Fatalf("the tail of a reader that lacks a message: %v, %v", whole, err)
		}
	}
	get(t, r.Done(), "the end of the reader")
	if !errors.Is(r.Err(), ErrDetached) || !errors.Is(r.Err(), errStalled) {
		t.Fatal(r.Err())
	}
	rest, _ := readAfter(t, c, first[0].Pos, 1)
	same(t, rest, want)
}

func TestTrimKeepsItsAnchorAndEverythingInTheWindow(t *testing.T) {
	c := newHarness(t).open(Options{Partitions: 1})
	publish(t, c, 0, 10)
	all, _ := readAfter(t, c, history.Position{}, 10)
	trim := func(lowest history.Position, window time.Duration) uint64 {
		n, err := c.Trim(soon(t), lowest, window)
		ok(t, err)
		return n
	}
	if n := trim(history.Position{}, 0); n != 0 {
		t.Fatalf("trimmed %d below the zero position", n)
	}
	if n := trim(all[7].Pos, time.Hour); n != 0 {
		t.Fatalf("trimmed %d inside the window", n)
	}
	if n := trim(all[7].Pos, 0); n != 7 {
		t.Fatalf("trimmed %d, want the 7 before the anchor", n)
	}
	if n := trim(all[7].Pos, 0); n != 0 {
		t.Fatalf("trimmed %d again", n)
	}
	if n := trim(all[3].Pos, 0); n != 0 {
		t.Fatalf("trimmed %d messages although the stream begins later", n)
	}
	got, gap := readAfter(t, c, all[7].Pos, 2)
	same(t, got, []string{"e8", "e9"})
	if gap != nil {
		t.Fatal(gap)
	}
}

func TestTrimCutsAtTheWindowWhenTheAnchorIsYounger(t *testing.T) {
	c := newHarness(t).open(Options{Partitions: 1})
	publish(t, c, 0, 20)
	all, _ := readAfter(t, c, history.Position{}, 20)
	stream, err := c.js.Stream(soon(t), c.inputs.Name)
	ok(t, err)
	for _, cut := range []int{0, 3, 11, 19} { // found by binary search, including at both ends
		seq, err := c.firstLater(soon(t), stream.CachedInfo().State, all[cut].Pos.Time)
		ok(t, err)
		if want := all[cut].Pos.Seq + 1; seq != want {
			t.Fatalf("after message %d: %d, want %d", cut, seq, want)
		}
	}
	if seq, err := c.firstLater(soon(t), stream.CachedInfo().State, 0); err != nil || seq != 1 {
		t.Fatal(seq, err)
	}
}

func TestStaleTrimDoesNotTruncateANewStream(t *testing.T) {
	c := newHarness(t).open(Options{Partitions: 1})
	publish(t, c, 0, 10)
	all, _ := readAfter(t, c, history.Position{}, 10)
	ok(t, c.js.DeleteStream(soon(t), c.inputs.Name))
	poll.Until(t, time.Minute, "the stream is recreated", func() bool { return c.mend(soon(t), c.inputs) == nil }) // the directory of the deleted one may not be removed yet
	for _, grown := range []int{5, 15} {
		publish(t, c, 0, grown)
		n, err := c.Trim(soon(t), all[9].Pos, 0)
		if n != 0 || !errors.Is(err, ErrMoved) {
			t.Fatalf("trimmed %d: %v", n, err)
		}
	}
	readAfter(t, c, history.Position{}, 20)
}
