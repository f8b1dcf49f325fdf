package transport

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/internal/wire"
)

// OBJECTS is the object store: a stream with a subject for each part of an object.
//
//	pawl.<ns>.object.<writer>.<digits>.owners   written first: the instances that may refer to the object, at most maxOwners
//	pawl.<ns>.object.<writer>.<digits>.<n>      parts of 512 KiB, from 0
//	pawl.<ns>.removing.<writer>.<digits>        a mark: the object is about to be removed
//
// Each subject accepts a single message, so an object never changes, and writing it again has no effect. Each writer has its own prefix, so
// that permissions can distinguish them; only orchestrators list, mark and remove objects. A reader needs the name, which is part of the
// reference. Decision 81 describes the protocol.

const (
	objectPart   = 512 << 10 // bytes; with its headers it fits into a message of the server (1 MiB by default)
	objectOwners = "owners"
	maxObject    = sealing.MaxStored + 64<<10

	// objectsInFlight is the maximum number of bytes of objects that a process reads concurrently. A larger object is read alone.
	objectsInFlight = 128 << 20
	// partTimeout bounds the time without progress of a read or a write.
	partTimeout = 2 * time.Second

	// FollowerLag is how long a reader normally retries a part that a server does not have, because that server may lag.
	FollowerLag = partTimeout

	// maxOwners is the maximum number of owners of an object: a sender or a child, the instance, and its parent.
	maxOwners = 8

	// MaxStoring is the maximum time for which a client or a worker tries to store an object. It is shorter than ObjectAge, so that no
	// object is removed while it is written.
	MaxStoring = 12 * time.Hour
	// ObjectAge is the age below which an object may belong to an input that no instance has received yet: its sender may still repeat it,
	// or it may wait up to a day for a start.
	ObjectAge = 48 * time.Hour
)

// Errors of objects.
var (
	ErrNoObject = errors.New("queue: the object store does not have it; restore the stream, or rewind or terminate the instance")
	ErrRemoving = errors.New("queue: the object store is about to remove it; it can be written again in at most two hours")
)

type objects struct {
	*link
	streams *streams
	reading *weighted // bytes of the bodies in memory
}

func newObjects(s *streams) *objects {
	return &objects{link: s.link, streams: s, reading: newWeighted(objectsInFlight)}
}

// objectsConfig returns the configuration of OBJECTS. It has no size limit unless one is configured, because NATS would reserve it.
func objectsConfig(o Options, s subjects) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:                 objectsStream(o.Namespace),
		Description:          "Pawl: large payloads of namespace " + o.Namespace,
		Subjects:             []string{s.object("*", "*"), s.removing("*.*")},
		Retention:            jetstream.LimitsPolicy,
		Discard:              jetstream.DiscardNew,
		DiscardNewPerSubject: true,
		MaxMsgsPerSubject:    1,
		Storage:              jetstream.FileStorage,
		MaxBytes:             o.ObjectsMaxBytes,
		MaxMsgSize:           objectPart + maxEnvelope,
		Replicas:             o.Replicas,
		Duplicates:           100 * time.Millisecond,
		AllowDirect:          true,
	}
}

// EnsureObjects creates the object store, or verifies an existing one.
func (c *objects) EnsureObjects(ctx context.Context) error {
	return c.await(ctx, "open object store", func(ctx context.Context) error { return c.streams.ensure(ctx, objectsConfig(c.opts, c.subj)) })
}

// PutObject stores an object, and returns when all of it is stored. The written parts of an object that fails are removed together with its
// owners. The error is ErrRemoving if a part already existed and the object is marked. A mark precedes the removal by at least an hour, so
// if a later mark is not seen here, references are checked once more before the removal.
func (c *objects) PutObject(ctx context.Context, o sealing.Object) (err error) {
	defer func() { c.transferred(&c.count.objectsStored, err) }()
	if len(o.Body) > maxObject {
		return fmt.Errorf("%w: an object of %d bytes, at most %d are allowed", ErrTooLarge, len(o.Body), maxObject)
	}
	if len(o.Owners) > maxOwners {
		return fmt.Errorf("queue: object %s has %d owners, at most %d are allowed", o.Name, len(o.Owners), maxOwners)
	}
	var again bool
	again, err = c.putPart(ctx, c.subj.objectPart(o.Name, objectOwners), wire.Encode(ownersFields(&o.Owners)))
	for n, body := 0, o.Body; err == nil && len(body) > 0; n++ {
		var there bool
		part := body[:min(len(body), objectPart)]
		there, err = c.putPart(ctx, c.subj.objectPart(o.Name, strconv.Itoa(n)), part)
		again, body = again || there, body[len(part):]
	}
	if err == nil && again && strings.HasPrefix(o.Name, sealing.ByOrchestrator+".") { // names by other writers are random
		err = c.unmarked(ctx, o.Name)
	}
	if err != nil {
		return fmt.Errorf("queue: store object %s: %w", o.Name, err)
	}
	return nil
}

// transferred counts a read or a write of an object.
func (c *objects) transferred(n *atomic.Uint64, err error) {
	switch {
	case err == nil:
		n.Add(1)
	case !errors.Is(err, context.Canceled) && !errors.Is(err, ErrRemoving):
		c.count.objectErrors.Add(1)
	}
}

// ObjectsSize returns the size of the object store in bytes, and the used share of its limit, from 0 to 1; 0 if it has no limit.
func (c *objects) ObjectsSize(ctx context.Context) (bytes uint64, used float64, err error) {
	info, err := c.streams.info(ctx, objectsStream(c.opts.Namespace))
	if err != nil {
		return 0, 0, fmt.Errorf("queue: state of the object store: %w", err)
	}
	return info.State.Bytes, fillOf(info), nil
}

func ownersFields(owners *[]string) func(*wire.Codec) {
	return func(w *wire.Codec) { wire.ListOf(w, owners, maxOwners, (*wire.Codec).String) }
}

// putPart publishes a message of the store, and repeats it until ctx ends or partTimeout has passed. there: the subject already had one.
func (c *objects) putPart(ctx context.Context, subject string, data []byte) (there bool, err error) {
	if !c.Connected() { // otherwise it would wait in the reconnect buffer
		return false, ErrDisconnected
	}
	ctx, cancel := context.WithTimeout(ctx, partTimeout)
	defer cancel()
	ctx, settle := c.whileAllowed(ctx, subject)
	_, err = repeated(ctx, createAgain, func(ctx context.Context) (*jetstream.PubAck, error) {
		return c.js.Publish(ctx, subject, data, jetstream.WithRetryAttempts(0))
	})
	err = settle(err)
	var api *jetstream.APIError
	switch {
	case errors.As(err, &api) && strings.Contains(api.Description, "maximum messages per subject exceeded"):
		return true, nil
	case errors.As(err, &api):
		return false, refusal(api)
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse):
		return false, ErrNoStream
	default:
		return false, err
	}
}

// GetObject reads an object of the given size. wait is how long a missing part is retried, up to FollowerLag. within bounds the transfer,
// once memory is available for it; 0: only progress is required. The error is ErrNoObject if the store does not have all of it.
func (c *objects) GetObject(ctx context.Context, name string, size int, wait, within time.Duration) (body []byte, err error) {
	defer func() { c.transferred(&c.count.objectsRead, err) }()
	if size > maxObject {
		return nil, fmt.Errorf("%w: an object of %d bytes, at most %d are allowed", ErrTooLarge, size, maxObject)
	}
	weight := min(int64(size), objectsInFlight)
	if err := c.reading.acquire(ctx, weight); err != nil {
		return nil, err
	}
	defer c.reading.release(weight)
	if within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, within)
		defer cancel()
	}
	for n := 0; len(body) < size; n++ {
		m, err := c.getPart(ctx, c.subj.objectPart(name, strconv.Itoa(n)), wait)
		if err != nil {
			return nil, err
		}
		if body == nil { // the size is only claimed until the first part has arrived
			body = make([]byte, 0, size)
		}
		if len(m.Data) != min(objectPart, size-len(body)) { // written by a foreign program: a million parts of one byte would take an hour
			return nil, fmt.Errorf("%w: it has another size", ErrNoObject)
		}
		body = append(body, m.Data...)
	}
	return body, nil
}

// LostObjects returns the names of the objects that the store does not have. Each is requested twice, because the first server may lag.
func (c *objects) LostObjects(ctx context.Context, names []string) ([]string, error) {
	for range 2 {
		var lost []string
		for _, name := range names {
			_, err := c.getPart(ctx, c.subj.objectPart(name, objectOwners), 0)
			if err != nil && !errors.Is(err, ErrNoObject) {
				return nil, err
			}
			if err != nil {
				lost = append(lost, name)
			}
		}
		names = lost
	}
	return names, nil
}

// getPart reads a message of the store from any server that has it. A missing message is requested again until wait has passed, because a
// follower may lag.
func (c *objects) getPart(ctx context.Context, part string, wait time.Duration) (*nats.Msg, error) {
	if !c.Connected() {
		return nil, ErrDisconnected
	}
	ctx, cancel := context.WithTimeout(ctx, partTimeout)
	defer cancel()
	subject := c.streams.apiSubject("DIRECT.GET." + objectsStream(c.opts.Namespace) + "." + part)
	ctx, settle := c.whileAllowed(ctx, subject)
	for until := time.Now().Add(wait); ; {
		m, err := c.streams.read(ctx, subject, nil)
		if err = settle(err); err != nil {
			if errors.Is(err, nats.ErrNoResponders) {
				err = ErrNoStream
			}
			return nil, c.explain(err)
		}
		if m.Header.Get("Status") == "" {
			return m, nil
		}
		if time.Now().Add(readAgain).After(until) {
			return nil, ErrNoObject
		}
		select {
		case <-ctx.Done():
			return nil, ErrNoObject
		case <-time.After(readAgain):
		}
	}
}
