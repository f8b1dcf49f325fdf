package transport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// inputsConfig returns the configuration of INPUTS. The server never drops an accepted input; a full stream rejects publishes.
func inputsConfig(o Options, s subjects) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:             inputsStream(o.Namespace),
		Description:      "Pawl: inputs of namespace " + o.Namespace,
		Subjects:         s.inputs(),
		SubjectTransform: &jetstream.SubjectTransformConfig{Source: s.source(), Destination: s.transform(o.Partitions)},
		Retention:        jetstream.LimitsPolicy,
		Discard:          jetstream.DiscardNew,
		Storage:          jetstream.FileStorage,
		MaxBytes:         o.InputsMaxBytes,
		MaxMsgSize:       maxInput,
		Replicas:         o.Replicas,
		Duplicates:       100 * time.Millisecond, // the minimum that the server allows
	}
}

// tasksConfig returns the configuration of TASKS. It is in memory, because it is repaired from history.
func tasksConfig(o Options, s subjects) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        tasksStream(o.Namespace),
		Description: "Pawl: tasks of namespace " + o.Namespace,
		Subjects:    []string{s.taskAll()},
		Retention:   jetstream.WorkQueuePolicy,
		Discard:     jetstream.DiscardNew,
		Storage:     jetstream.MemoryStorage,
		MaxMsgSize:  maxTask,
		Replicas:    o.Replicas,
		Duplicates:  100 * time.Millisecond,
	}
}

// ensure creates the stream, or verifies and updates the existing one.
func (c *streams) ensure(ctx context.Context, want jetstream.StreamConfig) error {
	have, err := c.existing(ctx, want.Name)
	if errors.Is(err, ErrNoNamespace) {
		allowed, settle := c.whileAllowed(ctx, c.apiSubject("STREAM.CREATE."+want.Name))
		_, err = c.js.CreateStream(allowed, want)
		switch err = settle(err); {
		case err == nil:
			return nil
		case errors.Is(err, jetstream.ErrStreamNameAlreadyInUse): // another process was faster
			have, err = c.existing(ctx, want.Name)
		default:
			return fmt.Errorf("queue: create stream %s: %w", want.Name, c.explain(noSpace(err, want.MaxBytes)))
		}
	}
	if err != nil {
		return err
	}
	if err := verify(have, want); err != nil {
		return err
	}
	return c.update(ctx, have, want)
}

// update sets the subjects and the limits of this program on an existing stream. Other settings of its operator are kept: replicas,
// placement, a description. If orchestrators have different limits, the one that started last wins.
func (c *streams) update(ctx context.Context, have, want jetstream.StreamConfig) error {
	if slices.Equal(have.Subjects, want.Subjects) && sizeLimit(have.MaxBytes) == sizeLimit(want.MaxBytes) && have.MaxMsgSize == want.MaxMsgSize {
		return nil
	}
	c.log.Info("stream updated", "stream", have.Name, "max_bytes", want.MaxBytes, "max_bytes_before", have.MaxBytes)
	have.Subjects, have.MaxBytes, have.MaxMsgSize = want.Subjects, want.MaxBytes, want.MaxMsgSize
	allowed, settle := c.whileAllowed(ctx, c.apiSubject("STREAM.UPDATE."+have.Name))
	_, err := c.js.UpdateStream(allowed, have)
	if err = settle(err); err != nil {
		return fmt.Errorf("queue: update stream %s: %w", have.Name, c.explain(noSpace(err, want.MaxBytes)))
	}
	return nil
}

// sizeLimit returns a limit of a stream in bytes; 0 for none, which the server reports as -1.
func sizeLimit(n int64) int64 { return max(n, 0) }

// noSpace adds advice to the error of a server that cannot reserve the size of a stream.
func noSpace(err error, size int64) error {
	var api *jetstream.APIError
	if size <= 0 || !errors.As(err, &api) {
		return err
	}
	switch api.ErrorCode {
	case codeNoResources, codeStorageExceeded, codeNoPeers:
		return fmt.Errorf("%w: NATS cannot reserve %d bytes for it: lower --inputs-max-bytes, or raise the storage limit of the server or the account", err, size)
	default:
		return err
	}
}

// existing returns the configuration of a stream. The error is ErrNoNamespace if it does not exist.
func (c *streams) existing(ctx context.Context, name string) (jetstream.StreamConfig, error) {
	allowed, settle := c.whileAllowed(ctx, c.apiSubject("STREAM.INFO."+name))
	s, err := c.js.Stream(allowed, name)
	switch err = settle(err); {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return jetstream.StreamConfig{}, fmt.Errorf("%w (stream %s)", ErrNoNamespace, name)
	case err != nil:
		return jetstream.StreamConfig{}, fmt.Errorf("queue: read stream %s: %w", name, c.explain(err))
	}
	return s.CachedInfo().Config, nil
}

// mend recreates a stream if it is lost.
func (c *streams) mend(ctx context.Context, want jetstream.StreamConfig) error {
	c.mendMu.Lock()
	defer c.mendMu.Unlock()
	if _, err := c.existing(ctx, want.Name); !errors.Is(err, ErrNoNamespace) {
		return err
	}
	c.log.Warn("stream lost, creating it again", "stream", want.Name)
	return c.ensure(ctx, want)
}

// verify returns a *MismatchError if the existing stream differs in a setting that cannot be changed.
func verify(have, want jetstream.StreamConfig) error {
	differ := func(field, h, w string) error {
		return &MismatchError{Stream: have.Name, Field: field, Have: h, Want: w}
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

// partitionsOf returns the number of partitions from the stream's transform.
func partitionsOf(have jetstream.StreamConfig, s subjects) (int, error) {
	wrong := &MismatchError{Stream: have.Name, Field: "transform", Have: transformText(have), Want: s.source() + " to " + s.transform(DefaultPartitions)}
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
