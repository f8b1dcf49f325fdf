package replay

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pkg/history"
)

// Events have sealed payloads, as the owner stores them. The code receives opened ones, and those of its decisions are sealed when they
// are recorded, for the place that they have: a turn that is decided again has the same bytes, and so the same effect ids.

// place identifies an event of the execution, by its id, or a custom status, by its version.
func (x *record) place(of byte, n uint64) []byte {
	if x.opts.Codec == nil {
		return nil
	}
	return binary.BigEndian.AppendUint64(append(x.id.Append(nil), of), n)
}

const (
	eventPlace  = 'e'
	statusPlace = 's'
)

// unseal returns what the code receives for a payload. If its key is missing (ErrSealed), or its object cannot be read (ErrObject), the
// execution is broken, until it is loaded again. One that was damaged is received as it is, and does not decode.
func (x *record) unseal(p history.Payload) history.Payload {
	opened, err := x.opts.Codec.OpenWith(x.opts.Load, p)
	x.failSealed(err)
	if pawlcodec.Name(p) != "" {
		x.stored.held += len(opened.Data)
	}
	return opened
}

func (x *record) unsealFailure(f *history.Failure) *history.Failure {
	opened, err := x.opts.Codec.OpenFailure(f)
	x.failSealed(err)
	return opened
}

func (x *record) failSealed(err error) {
	if x.err != nil || !pawlcodec.Unavailable(err) {
		return
	}
	kind := ErrSealed
	if errors.As(err, new(*pawlcodec.ObjectError)) && !errors.Is(err, pawlcodec.ErrNotLoaded) {
		kind = ErrObject
	}
	x.err = fmt.Errorf("%w: instance %s: %w", kind, x.id.Instance, err)
	x.unwinding = true
}

// stored is what an execution has of payloads in the object store.
type stored struct {
	objects []pawlcodec.Object // to be stored before the decisions are committed
	bytes   int                // of objects
	held    int                // bytes of large payloads that the code has received and sent: it may still have them
}

const (
	// storedShare is by how much more bytes of objects than of events a turn may decide.
	storedShare = 8
	// heavyBytes is what the code of an instance may have of large payloads while it waits in memory.
	heavyBytes = 1 << 20
)

// owners returns the instances that have a decision in their histories, beside those that it is sent to: this one, and with the end also the
// parent. The names of its objects depend on them.
func owners(x *record, ev history.Event) []string {
	if _, ended := ev.(*history.Completed); ended && x.started.Parent != nil {
		return []string{x.id.Instance, x.started.Parent.Instance}
	}
	return []string{x.id.Instance}
}

// seal seals a decision, and notes its objects.
func seal(x *record, ev history.Event) {
	if x.opts.Codec == nil {
		return
	}
	objects := x.opts.Codec.SealEvent(x.place(eventPlace, ev.Meta().ID), ev, owners(x, ev)...)
	for _, o := range objects {
		x.stored.bytes += len(o.Body)
		x.stored.held += len(o.Body)
	}
	x.stored.objects = append(x.stored.objects, objects...)
}

// TakeObjects returns the objects of the decisions since the last call. They must be stored before the decisions are committed.
func TakeObjects(x *Execution) []pawlcodec.Object {
	taken := x.stored.objects
	x.stored.objects, x.stored.bytes = nil, 0
	return taken
}

// StoredBytes is the size of the objects that TakeObjects would return.
func StoredBytes(x *Execution) int { return x.stored.bytes }

// Heavy reports whether the code may have large payloads in memory, so that it should not stay there between turns.
func Heavy(x *Execution) bool { return x.stored.held > heavyBytes }

// PayloadLimit is what the fleet allows for a payload, in bytes; the limits of the execution may be lower.
func PayloadLimit(x *Code) int { return x.opts.Codec.MaxPayload() }

// tooLargeInline is tooLarge for a payload that is never kept in the object store.
func tooLargeInline(x *record, p history.Payload, what string) *history.Failure {
	return tooLarge(p, what, min(x.opts.Limits.Payload, MaxPayload))
}
