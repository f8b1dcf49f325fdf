package queue

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/pkg/history"
)

func TestAcceptedNamesTheLastInputOfThePartitionAndALaterTime(t *testing.T) {
	c := newStand(t).open(Options{Partitions: 4})
	here, there := "a", "b"
	for c.PartitionOf(there) == c.PartitionOf(here) {
		there += "b"
	}
	p := c.PartitionOf(here)
	a, err := c.Accepted(soon(t), p)
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
	a, err = c.Accepted(soon(t), p)
	ok(t, err)
	if a.Last != last || a.At.UnixNano() <= last.Time {
		t.Errorf("%+v, and the last input is %+v", a, last)
	}
	stream, err := c.js.Stream(soon(t), c.inputs.Name)
	ok(t, err)
	ok(t, stream.Purge(soon(t)))
	if a, err = c.Accepted(soon(t), p); err != nil || a.Last != (history.Position{}) {
		t.Errorf("of a purged stream: %+v, %v", a, err)
	}
	ok(t, c.js.DeleteStream(soon(t), c.inputs.Name))
	if _, err = c.Accepted(soon(t), p); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("without a stream: %v", err)
	}
}
