package replay

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/pkg/history"
)

// The payloads of events are sealed, as the owner stores them. The code receives opened payloads. Those of its decisions are sealed when
// they are recorded, for their place: a turn that is decided again produces the same bytes, and so the same effect ids.

// place identifies an event of the execution by its id, or a custom status by its version. It is nil without a codec.
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

// unseal returns the payload that the code receives. If its key is missing (ErrSealed) or its object cannot be read (ErrObject), the
// execution is broken until it is loaded again. A damaged payload is returned as it is, and fails to decode.
func (x *record) unseal(p history.Payload) history.Payload {
	opened, err := x.opts.Codec.OpenWith(x.opts.Load, p)
	x.failSealed(err)
	if sealing.Name(p) != "" {
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
	if x.err != nil || !sealing.Unavailable(err) {
		return
	}
	kind := ErrSealed
	if errors.As(err, new(*sealing.ObjectError)) && !errors.Is(err, sealing.ErrNotLoaded) {
		kind = ErrObject
	}
	x.err = fmt.Errorf("%w: instance %s: %w", kind, x.id.Instance, err)
	x.unwinding = true
}

// stored tracks the payloads of an execution that are kept in the object store.
type stored struct {
	objects []sealing.Object // to be stored before the decisions are committed
	bytes   int              // total size of objects
	held    int              // bytes of large payloads that the code has received and sent, and may still reference
}

const (
	// storedShare is how many times more bytes of objects than of events a turn may decide.
	storedShare = 8
	// heavyBytes is how many bytes of large payloads the code of an instance may hold while it waits in memory.
	heavyBytes = 1 << 20
)

// owners returns the instances whose histories contain a decision, besides those that it is sent to: this instance and, for the end, also
// its parent. The names of the decision's objects depend on them.
func owners(x *record, ev history.Event) []string {
	if _, ended := ev.(*history.Completed); ended && x.started.Parent != nil {
		return []string{x.id.Instance, x.started.Parent.Instance}
	}
	return []string{x.id.Instance}
}

// seal seals the payloads of a decision and collects its objects.
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
func TakeObjects(x *Execution) []sealing.Object {
	taken := x.stored.objects
	x.stored.objects, x.stored.bytes = nil, 0
	return taken
}

// StoredBytes returns the total size of the objects that TakeObjects would return.
func StoredBytes(x *Execution) int { return x.stored.bytes }

// Heavy reports whether the code may hold large payloads in memory, and so should not stay in memory between turns.
func Heavy(x *Execution) bool { return x.stored.held > heavyBytes }

// PayloadLimit returns the maximum payload size of the fleet, in bytes. The limits of the execution may be lower.
func PayloadLimit(x *Code) int { return x.opts.Codec.MaxPayload() }

// tooLargeInline is tooLarge for a payload that is never stored in the object store.
func tooLargeInline(x *record, p history.Payload, what string) *history.Failure {
	return tooLarge(p, what, min(x.opts.Limits.Payload, MaxPayload))
}
