// Package imported encodes exported instances as payloads of starts, and checks and adopts them.
package imported

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"

	"github.com/pawlrun/pawl/internal/attribute"
	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/wire"
	"github.com/pawlrun/pawl/pkg/history"
)

// Instance is an exported instance. Its compressed encoding is the payload of the start that imports it.
type Instance struct {
	Instance   string   // id of the exported instance
	Attributes string   // text of an attribute.Set
	Events     [][]byte // events of its latest execution, as stored
}

// ContentType is the content type of the payload of an import.
const ContentType = "application/vnd.pawl.import"

// Bounds of an import. Its owner reads it in one step, during which it serves no other instance of the partition. The payload is also
// bounded by the maximum size of a start.
const (
	MaxBytes     = 4 << 20 // before compression
	MaxEvents    = 10_000
	MaxRewinds   = eventcodec.MaxRecorded // also the number of recorded places; a rewind checks for each child which of these executions started it
	maxExecution = 1<<32 - 1
)

// ErrNoImport is the error of an export that cannot be imported.
var ErrNoImport = errors.New("the export cannot be imported")

// Payload returns the import as the payload of a start. The error matches ErrNoImport if the import breaks a rule or a bound.
func (m *Instance) Payload() (history.Payload, error) {
	if _, err := m.decode(); err != nil {
		return history.Payload{}, err
	}
	plain := wire.Encode(m.fields)
	if len(plain) > MaxBytes {
		return history.Payload{}, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrNoImport, len(plain), MaxBytes)
	}
	var b bytes.Buffer
	z, err := flate.NewWriter(&b, flate.BestCompression)
	if err == nil {
		_, err = z.Write(plain)
	}
	if err == nil {
		err = z.Close()
	}
	return history.Payload{Type: ContentType, Data: b.Bytes()}, err
}

func (m *Instance) fields(c *wire.Codec) {
	c.String(&m.Instance)
	c.String(&m.Attributes)
	wire.ListOf(c, &m.Events, MaxEvents, (*wire.Codec).Bytes)
}

// Read decodes the payload of an import. The error matches ErrNoImport, and also ErrNewerVersion if a newer build wrote it.
func Read(p history.Payload) (*Instance, error) {
	if p.Type != ContentType {
		return nil, fmt.Errorf("%w: its type is %.100q", ErrNoImport, p.Type)
	}
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(p.Data)), MaxBytes+1))
	if err == nil && len(plain) > MaxBytes {
		err = fmt.Errorf("more than %d bytes", MaxBytes)
	}
	m := &Instance{}
	if err == nil {
		err = wire.Decode(plain, m.fields)
	}
	if newer := (*wire.VersionError)(nil); errors.As(err, &newer) {
		err = fmt.Errorf("%w: %w", err, eventcodec.ErrNewerVersion)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoImport, err)
	}
	return m, nil
}

// decode decodes and checks the events.
func (m *Instance) decode() ([]history.Event, error) {
	if n := len(m.Events); n == 0 || n > MaxEvents {
		return nil, fmt.Errorf("%w: %d events, 1 to %d are allowed", ErrNoImport, n, MaxEvents)
	}
	if _, err := attribute.Parse(m.Attributes); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoImport, err)
	}
	events := make([]history.Event, len(m.Events))
	for i, b := range m.Events {
		e, err := eventcodec.Decode(uint64(i)+1, b)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoImport, err)
		}
		events[i] = e
	}
	s, broken := fold.Check(events)
	switch _, more := s.End.(*history.ContinuedAsNew); {
	case len(broken) > 0:
		return nil, fmt.Errorf("%w: %w", ErrNoImport, broken[0])
	case s.Started == nil:
		return nil, fmt.Errorf("%w: it does not begin with a start", ErrNoImport)
	case more:
		return nil, fmt.Errorf("%w: it was exported between two executions; export the instance again", ErrNoImport)
	}
	if err := checkExecutions(s.Started, events); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoImport, err)
	}
	return events, nil
}

// checkExecutions rejects execution numbers that no instance can have. Executions that were recorded elsewhere must be part of the
// history: later executions belong to the imported instance, and have its identity.
func checkExecutions(began *history.Started, events []history.Event) error {
	last := began.Execution
	for _, ev := range events {
		if e, ok := ev.(*history.Rewound); ok {
			if e.Execution <= last {
				return fmt.Errorf("execution %d is rewound to execution %d", last, e.Execution)
			}
			last = e.Execution
		}
	}
	if began.Execution == 0 || last > maxExecution || last-began.Execution > MaxRewinds || len(began.Recorded) >= MaxRewinds {
		return fmt.Errorf("executions %d to %d, recorded in %d places before; at most %d rewinds, fewer places, and execution %d are allowed",
			began.Execution, last, len(began.Recorded), MaxRewinds, uint64(maxExecution))
	}
	until := uint64(0)
	for _, r := range began.Recorded {
		if r.Execution <= until || r.Execution > last {
			return fmt.Errorf("execution %d of %d, after %d, was recorded elsewhere", r.Execution, last, until)
		}
		until = r.Execution
	}
	return nil
}

// Adopt returns the events as those of the instance id, which the start by begins. Activities keep their effect ids, and therefore
// their idempotency keys. The effect ids of children and the tickets at limits are replaced, because those of the exported instance,
// which may still be running, must not identify anything of the imported one. The error is as for Read.
func (m *Instance) Adopt(id string, by *history.Started) ([]history.Event, error) {
	events, err := m.decode()
	if err != nil {
		return nil, err
	}
	own := effectid.Identity{Instance: id, Origin: by.Origin}.Append([]byte("pawl.import\x00"))
	adopt := func(s *string) {
		if *s != "" {
			*s = effectid.Digest(append(bytes.Clone(own), *s...))
		}
	}
	adoptLimit := func(l *history.Limit) {
		if l != nil {
			l.HeldByAncestor = ""
			adopt(&l.Ticket)
		}
	}
	var there history.Recorded
	for _, ev := range events {
		switch e := ev.(type) {
		case *history.Started:
			there = history.Recorded{Execution: e.Execution, Instance: m.Instance, Origin: e.Origin}
			e.Origin, e.MsgID, e.Reuse, e.Parent = by.Origin, by.MsgID, by.Reuse, nil
			adoptLimit(e.Limit)
		case *history.Rewound:
			there.Execution = e.Execution
		case *history.ActivityScheduled:
			adoptLimit(e.Limit)
		case *history.ChildScheduled:
			adopt(&e.Effect)
		case *history.ChildCompleted:
			adopt(&e.Effect)
		case *history.ChildFailed:
			adopt(&e.Effect)
		}
	}
	s, _ := events[0].(*history.Started)                                             // ensured by decode
	if n := len(s.Recorded); n == 0 || s.Recorded[n-1].Execution < there.Execution { // otherwise the exported instance recorded no execution of its own
		s.Recorded = append(s.Recorded, there)
	}
	return events, nil
}
