package queue

import (
	"fmt"

	"github.com/pawlrun/pawl/internal/wire"
	"github.com/pawlrun/pawl/pkg/history"
)

// typeDone is the content type of a Done.
const typeDone = "application/msgpack"

// maxDone bounds the body of a Done, in bytes: a payload, and the other fields of a failure.
const maxDone = 2 * MaxPayload

func (d *Done) fields(c *wire.Codec) {
	c.Uint(&d.Scheduled)
	c.String(&d.Effect)
	d.Result.WireFields(c)
	wire.Optional(c, &d.Failure, func(c *wire.Codec, f *history.Failure) { f.WireFields(c) })
}

func (d *Done) encode() ([]byte, error) {
	b := wire.Encode(d.fields)
	return b, checkDoneSize(b)
}

func checkDoneSize(b []byte) error {
	if len(b) > maxDone {
		return fmt.Errorf("%w: a done of %d bytes, at most %d are allowed", ErrTooLarge, len(b), maxDone)
	}
	return nil
}

func decodeDone(b []byte) (*Done, error) {
	if err := checkDoneSize(b); err != nil {
		return nil, err
	}
	d := new(Done)
	if err := decode("done", b, d.fields); err != nil {
		return nil, err
	}
	return d, d.check()
}

func (d *Done) check() error {
	if d.Scheduled == 0 {
		return fmt.Errorf("%w: a done without the event that it answers", ErrMalformed)
	}
	if err := checkEffect(d.Effect); err != nil {
		return err
	}
	n := len(d.Result.Data)
	if d.Failure != nil {
		n = max(n, len(d.Failure.Data.Data))
	}
	if n > MaxPayload {
		return fmt.Errorf("%w: the end of child %d has %d bytes, at most %d are allowed", ErrTooLarge, d.Scheduled, n, MaxPayload)
	}
	return nil
}
