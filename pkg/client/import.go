package client

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/pawlrun/pawl/internal/imported"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
)

// ErrNoImport is returned if an export cannot be imported: it is not an export, its history is invalid, or it exceeds a bound.
var ErrNoImport = imported.ErrNoImport

// Import creates an instance with an unused id from an export (made by pawl export) of this or another namespace: its latest execution,
// with its history and attributes. The imported instance has ended: if it had not when it was exported, its status is cancelled, and the
// option Continue, or a later Retry, continues it like a rewind. Outstanding activities are then scheduled again, with new effect ids and
// the same idempotency keys, and outstanding children are started again. Encrypted payloads stay encrypted and need the same keys. Unread
// inputs, custom statuses, answers to updates and the parent are not part of the history, and are not imported.
//
// The caller needs the permissions of the role operator. The history may have at most 4 MiB and 10,000 events, and 512 KiB when
// compressed. None of its payloads may be in an object store or larger than 512 KiB. If the owner runs an older build that cannot read
// imports, Import waits for an owner that can. Errors: ErrNoImport (if the owner reports it, the id is in use afterwards); ErrIDTaken if
// the id is in use; those of WaitStarted and Describe.
func (c *Client) Import(ctx context.Context, id string, export []byte, opts ...ImportOption) (Operated, error) {
	m, running, err := show.ReadImport(export)
	if err != nil {
		return Operated{}, fmt.Errorf("client: import of %s: %w", id, err)
	}
	p, err := m.Payload()
	if err == nil && len(p.Data) > transport.MaxPayload {
		err = fmt.Errorf("%w: %d bytes when it is compressed, at most %d are allowed", ErrNoImport, len(p.Data), transport.MaxPayload)
	}
	if err != nil {
		return Operated{}, fmt.Errorf("client: import of %s: %w", id, err)
	}
	in := message.OutInput{Instance: id, Kind: message.KindStart, Name: message.ImportName, Payload: p, Reuse: history.ReuseReject}
	seq, err := publish(ctx, c, &in, opts)
	if err != nil {
		return Operated{}, err
	}
	r := &RawInstance{c: c, id: id, seq: seq, msgID: in.ID, contested: true}
	if err := r.WaitStarted(ctx); err != nil {
		return Operated{}, err
	}
	d, err := c.Describe(ctx, id)
	if err == nil && d.Orchestration == message.ImportName { // the owner could not read it
		err = fmt.Errorf("client: import of %s: %w", id, ErrNoImport)
		if d.Failure != nil {
			err = fmt.Errorf("%w: its owner reports: %s", err, d.Failure.Message)
		}
		return Operated{}, err
	}
	if again := slices.ContainsFunc(opts, isContinue); err == nil && again && running {
		return c.Retry(ctx, id, By(in.By), Reason(cmp.Or(in.Text, "imported")))
	}
	return Operated{Instance: id, Status: d.Status, Execution: d.Execution}, err
}

type continueOption struct{}

func (continueOption) apply(*message.OutInput) {}
func (continueOption) imports()                {}

func isContinue(o ImportOption) bool {
	_, ok := o.(continueOption)
	return ok
}

// Continue continues an imported instance that had not ended when it was exported. If the caller dies before, Retry continues it.
func Continue() ImportOption { return continueOption{} }
