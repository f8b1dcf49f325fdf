package transport

import (
	"errors"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestAcceptedNamesTheLastInputOfThePartitionAndALaterTime(t *testing.T) {
	c := newHarness(t).open(Options{Partitions: 4})
	here, there := "a", "b"
	for c.PartitionOf(there) == c.PartitionOf(here) {
		there += "b"
	}
	p := c.PartitionOf(here)
	a, err := c.Accepted(soon(t), p, history.Position{})
	ok(t, err)
	if a.Last != (history.Position{}) || a.At.IsZero() {
		t.Errorf("of an empty stream: %+v", a)
	}
	_, err = c.PublishInput(soon(t), event(here, "x", "1"))
	ok(t, err)
	_, err = c.PublishInput(soon(t), event(there, "y", "1"))
	ok(t, err)
	r, err := c.Attach(soon(t), p, history.Position{})
	ok(t, err)
	defer r.Stop()
	last := read(t, r, 1)[0].Pos
	a, err = c.Accepted(soon(t), p, history.Position{})
	ok(t, err)
	if a.Last != last || a.At.UnixNano() <= last.Time {
		t.Errorf("%+v, and the last input is %+v", a, last)
	}
	stream, err := c.js.Stream(soon(t), c.inputs.Name)
	ok(t, err)
	ok(t, stream.Purge(soon(t)))
	if a, err = c.Accepted(soon(t), p, history.Position{}); err != nil || a.Last != (history.Position{}) {
		t.Errorf("of a purged stream: %+v, %v", a, err)
	}
	ok(t, c.js.DeleteStream(soon(t), c.inputs.Name))
	if _, err = c.Accepted(soon(t), p, history.Position{}); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("without a stream: %v", err)
	}
}

// The inputs after a position and all inputs are requested after each of many inputs, and in a stream that was recreated and has grown
// beyond the position.
func TestAcceptedAfterAPositionMatchesTheWholeStream(t *testing.T) {
	c := newHarness(t).open(Options{Partitions: 4})
	p, after := c.PartitionOf("a"), history.Position{}
	same := func() message.Accepted {
		t.Helper()
		got, err := c.Accepted(soon(t), p, after)
		ok(t, err)
		whole, err := c.Accepted(soon(t), p, history.Position{})
		ok(t, err)
		if got.Last != whole.Last && (got.Last != history.Position{} || whole.Last.Time > after.Time) || got.End != whole.End || got.At.After(whole.At) {
			t.Errorf("after %+v: %+v, over the whole stream: %+v", after, got, whole)
		}
		return got
	}
	for i := range 20 {
		_, err := c.PublishInput(soon(t), event(string(rune('a'+i%7)), "x", strconv.Itoa(i)))
		ok(t, err)
		if a := same(); i%3 != 0 {
			after = a.End
		}
	}
	ok(t, c.js.DeleteStream(soon(t), c.inputs.Name))
	r, err := c.Attach(soon(t), p, history.Position{}) // recreates the stream
	ok(t, err)
	defer r.Stop()
	_, err = c.PublishInput(soon(t), event("a", "x", "new"))
	ok(t, err)
	same()
	other := "b"
	for c.PartitionOf(other) == p {
		other += "b"
	}
	for i := range 25 {
		_, err := c.PublishInput(soon(t), event(other, "x", "n"+strconv.Itoa(i)))
		ok(t, err)
	}
	if now := same(); now.Last.Seq != 1 {
		t.Errorf("last of the new stream: %+v", now)
	}
}
