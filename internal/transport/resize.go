package transport

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Resize changes the number of partitions by which INPUTS files the inputs that it accepts from then on, and opens the namespace with it.
// Inputs that were accepted before remain filed as they are. Resize may be repeated. It needs the permissions of an orchestrator.
//
// The leader of the stream files an input when it accepts it, so a leader that is elected before it has received the change may still file
// some inputs by the previous number.
func Resize(ctx context.Context, nc *nats.Conn, o Options) (*Conn, error) {
	c, err := newConn(nc, o)
	if err != nil {
		return nil, err
	}
	want := &jetstream.SubjectTransformConfig{Source: c.subj.source(), Destination: c.subj.transform(o.Partitions)}
	err = c.await(ctx, "resize namespace", func(ctx context.Context) error {
		have, err := c.existing(ctx, inputsStream(o.Namespace))
		if err != nil {
			return err
		}
		if _, err = partitionsOf(have, c.subj); err != nil {
			return err
		}
		if have.SubjectTransform.Destination == want.Destination {
			return nil
		}
		have.SubjectTransform = want
		allowed, settle := c.whileAllowed(ctx, c.apiSubject("STREAM.UPDATE."+have.Name))
		_, err = c.js.UpdateStream(allowed, have)
		if err = settle(err); err != nil {
			return fmt.Errorf("queue: resize stream %s: %w", have.Name, c.explain(err))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return JoinToPublish(ctx, nc, o) // without TASKS, which is in memory: after a restart of the server it does not exist until an orchestrator starts
}
