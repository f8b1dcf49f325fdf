package transport

import (
	"fmt"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/wire"
)

// typeDone is the content type of the body of a Done.
const typeDone = "application/msgpack"

// maxDone is the maximum size of the body of a Done in bytes: a payload, and the other fields of a failure.
const maxDone = 2 * MaxPayload

func doneFields(d *message.Done) func(*wire.Codec) {
	return func(c *wire.Codec) {
		c.Uint(&d.Scheduled)
		c.String(&d.Effect)
		eventcodec.PayloadFields(c, &d.Result)
		wire.Optional(c, &d.Failure, eventcodec.FailureFields)
	}
}

func encodeDone(d *message.Done) ([]byte, error) {
	b := wire.Encode(doneFields(d))
	return b, checkDoneSize(b)
}

func checkDoneSize(b []byte) error {
	if len(b) > maxDone {
		return fmt.Errorf("%w: done of %d bytes, at most %d are allowed", ErrTooLarge, len(b), maxDone)
	}
	return nil
}

func decodeDone(b []byte) (*message.Done, error) {
	if err := checkDoneSize(b); err != nil {
		return nil, err
	}
	d := new(message.Done)
	if err := decode("done", b, doneFields(d)); err != nil {
		return nil, err
	}
	return d, checkDone(d)
}

func checkDone(d *message.Done) error {
	if d.Scheduled == 0 {
		return fmt.Errorf("%w: done without the event that it answers", ErrMalformed)
	}
	if err := checkEffect(d.Effect); err != nil {
		return err
	}
	p := d.Result
	if d.Failure != nil && len(d.Failure.Data.Data) > len(p.Data) {
		p = d.Failure.Data
	}
	if err := checkSize(p.Type, len(p.Data)); err != nil {
		return fmt.Errorf("end of child %d: %w", d.Scheduled, err)
	}
	return nil
}
