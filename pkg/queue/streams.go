package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// inputsConfig is the INPUTS stream: nothing that was accepted is ever dropped by
// the server; when it is full, publishers are told.
func inputsConfig(o Options, s subjects) jetstream.StreamConfig {
	limit := o.InputsMaxBytes
	if limit == 0 {
		limit = -1
	}
	return jetstream.StreamConfig{
		Name:             inputsStream(o.Namespace),
		Description:      "Pawl: inputs of namespace " + o.Namespace,
		Subjects:         []string{s.toAll()},
		SubjectTransform: &jetstream.SubjectTransformConfig{Source: s.toAll(), Destination: s.transform(o.Partitions)},
		Retention:        jetstream.LimitsPolicy,
		Discard:          jetstream.DiscardNew,
		Storage:          jetstream.FileStorage,
		MaxBytes:         limit,
		Replicas:         o.Replicas,
		Duplicates:       100 * time.Millisecond, // the least that the server allows
	}
}

// tasksConfig is the TASKS stream: in memory, for it is repaired from history.
func tasksConfig(o Options, s subjects) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        tasksStream(o.Namespace),
		Description: "Pawl: tasks of namespace " + o.Namespace,
		Subjects:    []string{s.taskAll()},
		Retention:   jetstream.WorkQueuePolicy,
		Discard:     jetstream.DiscardNew,
		Storage:     jetstream.MemoryStorage,
		Replicas:    o.Replicas,
		Duplicates:  100 * time.Millisecond,
	}
}

// ensure creates the stream, or verifies the one that exists.
func (c *Conn) ensure(ctx context.Context, want jetstream.StreamConfig) error {
	have, err := c.existing(ctx, want.Name)
	if errors.Is(err, ErrNoNamespace) {
		switch _, err = c.js.CreateStream(ctx, want); {
		case err == nil:
			return nil
		case errors.Is(err, jetstream.ErrStreamNameAlreadyInUse): // somebody else was faster
			have, err = c.existing(ctx, want.Name)
		default:
			return fmt.Errorf("queue: create stream %s: %w", want.Name, c.explain(err))
		}
	}
	if err != nil {
		return err
	}
	return verify(have, want)
}

// existing is the configuration of a stream; ErrNoNamespace if there is none.
func (c *Conn) existing(ctx context.Context, name string) (jetstream.StreamConfig, error) {
	s, err := c.js.Stream(ctx, name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return jetstream.StreamConfig{}, fmt.Errorf("%w (stream %s)", ErrNoNamespace, name)
	case err != nil:
		return jetstream.StreamConfig{}, fmt.Errorf("queue: look at stream %s: %w", name, c.explain(err))
	}
	return s.CachedInfo().Config, nil
}

// mend creates a stream again if it was lost.
func (c *Conn) mend(ctx context.Context, want jetstream.StreamConfig) error {
	c.mendMu.Lock()
	defer c.mendMu.Unlock()
	if _, err := c.existing(ctx, want.Name); !errors.Is(err, ErrNoNamespace) {
		return err
	}
	c.log.Warn("stream lost, creating it again", "stream", want.Name)
	return c.ensure(ctx, want)
}

func verify(have, want jetstream.StreamConfig) error {
	differ := func(field, h, w string) error {
		return &MismatchError{Stream: have.Name, Field: field, Have: h, Want: w}
	}
	if h, w := strings.Join(have.Subjects, " "), strings.Join(want.Subjects, " "); h != w {
		return differ("subjects", h, w)
	}
	if h, w := transformText(have), transformText(want); h != w {
		return differ("transform", h, w)
	}
	if have.Retention != want.Retention {
		return differ("retention", have.Retention.String(), want.Retention.String())
	}
	if have.Discard != want.Discard {
		return differ("discard policy", have.Discard.String(), want.Discard.String())
	}
	if have.MaxAge != 0 {
		return differ("max age", have.MaxAge.String(), "0s")
	}
	return nil
}

func transformText(c jetstream.StreamConfig) string {
	if c.SubjectTransform == nil {
		return "none"
	}
	return c.SubjectTransform.Source + " to " + c.SubjectTransform.Destination
}

// partitionsOf reads the number of partitions off the stream's transform.
func partitionsOf(have jetstream.StreamConfig, s subjects) (int, error) {
	wrong := &MismatchError{Stream: have.Name, Field: "transform", Have: transformText(have), Want: s.toAll() + " to " + s.transform(DefaultPartitions)}
	if have.SubjectTransform == nil {
		return 0, wrong
	}
	_, rest, _ := strings.Cut(have.SubjectTransform.Destination, "{{partition(")
	digits, _, _ := strings.Cut(rest, ",")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || n > MaxPartitions || have.SubjectTransform.Destination != s.transform(n) {
		return 0, wrong
	}
	return n, nil
}
