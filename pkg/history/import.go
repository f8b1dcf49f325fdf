package history

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"

	"github.com/pawlrun/pawl/internal/wire"
)

// Import is an exported instance. Its compressed encoding is the payload of the start that imports it.
type Import struct {
	Instance   string   // id of the exported instance
	Attributes string   // text of Attributes
	Events     [][]byte // events of its latest execution, as stored
}

// TypeImport is the content type of the payload of an import.
const TypeImport = "application/vnd.pawl.import"

// Bounds of an import. Its owner reads it in one step, during which it serves no other instance of the partition. The payload is also
// bounded by the maximum size of a start.
const (
	MaxImportBytes   = 4 << 20 // before compression
	MaxImportEvents  = 10_000
	MaxImportRewinds = 100 // also the number of recorded places; a rewind checks for each child which of these executions started it
	maxExecution     = 1<<32 - 1
	maxRecorded      = MaxImportRewinds
)

// ErrNoImport is the error of an export that cannot be imported.
var ErrNoImport = errors.New("the export cannot be imported")

// Recorded is where imported executions, up to the given one, were originally recorded. Their random values and the ids of their
// children are derived from it.
type Recorded struct {
	Execution uint64 // last execution that was recorded there
	Instance  string
	Origin    Position
}

func (r *Recorded) fields(c *wire.Codec) {
	c.Uint(&r.Execution)
	c.String(&r.Instance)
	r.Origin.WireFields(c)
}

// IdentityOf returns the identity under which the events of an execution were recorded: own, or that of the exported instance.
func (e *Started) IdentityOf(own Identity, execution uint64) Identity {
	own.Execution = execution
	for _, r := range e.Recorded {
		if execution <= r.Execution {
			own.Instance, own.Origin = r.Instance, r.Origin
			break
		}
	}
	return own
}

// Payload returns the import as the payload of a start. The error matches ErrNoImport if the import breaks a rule or a bound.
func (m *Import) Payload() (Payload, error) {
	if _, err := m.decode(); err != nil {
		return Payload{}, err
	}
	plain := wire.Encode(m.fields)
	if len(plain) > MaxImportBytes {
		return Payload{}, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrNoImport, len(plain), MaxImportBytes)
	}
	var b bytes.Buffer
	z, err := flate.NewWriter(&b, flate.BestCompression)
	if err == nil {
		_, err = z.Write(plain)
	}
	if err == nil {
		err = z.Close()
	}
	return Payload{Type: TypeImport, Data: b.Bytes()}, err
}

func (m *Import) fields(c *wire.Codec) {
	c.String(&m.Instance)
	c.String(&m.Attributes)
	wire.ListOf(c, &m.Events, MaxImportEvents, (*wire.Codec).Bytes)
}

// ReadImport decodes the payload of an import. The error matches ErrNoImport, and also ErrNewerVersion if a newer build wrote it.
func ReadImport(p Payload) (*Import, error) {
	if p.Type != TypeImport {
		return nil, fmt.Errorf("%w: its type is %.100q", ErrNoImport, p.Type)
	}
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(p.Data)), MaxImportBytes+1))
	if err == nil && len(plain) > MaxImportBytes {
		err = fmt.Errorf("more than %d bytes", MaxImportBytes)
	}
	m := &Import{}
	if err == nil {
		err = wire.Decode(plain, m.fields)
	}
	if newer := (*wire.VersionError)(nil); errors.As(err, &newer) {
		err = fmt.Errorf("%w: %w", err, ErrNewerVersion)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoImport, err)
	}
	return m, nil
}

// decode decodes and checks the events.
func (m *Import) decode() ([]Event, error) {
	if n := len(m.Events); n == 0 || n > MaxImportEvents {
		return nil, fmt.Errorf("%w: %d events, 1 to %d are allowed", ErrNoImport, n, MaxImportEvents)
	}
	if _, err := ParseAttributes(m.Attributes); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoImport, err)
	}
	events := make([]Event, len(m.Events))
	for i, b := range m.Events {
		e, err := Decode(uint64(i)+1, b)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoImport, err)
		}
		events[i] = e
	}
	s, broken := Check(events)
	switch _, more := s.End.(*ContinuedAsNew); {
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
func checkExecutions(began *Started, events []Event) error {
	last := began.Execution
	for _, ev := range events {
		if e, ok := ev.(*Rewound); ok {
			if e.Execution <= last {
				return fmt.Errorf("execution %d is rewound to execution %d", last, e.Execution)
			}
			last = e.Execution
		}
	}
	if began.Execution == 0 || last > maxExecution || last-began.Execution > MaxImportRewinds || len(began.Recorded) >= maxRecorded {
		return fmt.Errorf("executions %d to %d, recorded in %d places before; at most %d rewinds, fewer places, and execution %d are allowed",
			began.Execution, last, len(began.Recorded), MaxImportRewinds, uint64(maxExecution))
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
// which may still be running, must not identify anything of the imported one. The error is as for ReadImport.
func (m *Import) Adopt(id string, by *Started) ([]Event, error) {
	events, err := m.decode()
	if err != nil {
		return nil, err
	}
	own := Identity{Instance: id, Origin: by.Origin}.Append([]byte("pawl.import\x00"))
	adopt := func(s *string) {
		if *s != "" {
			*s = Digest(append(bytes.Clone(own), *s...))
		}
	}
	adoptLimit := func(l *Limit) {
		if l != nil {
			l.HeldByAncestor = ""
			adopt(&l.Ticket)
		}
	}
	var there Recorded
	for _, ev := range events {
		switch e := ev.(type) {
		case *Started:
			there = Recorded{Execution: e.Execution, Instance: m.Instance, Origin: e.Origin}
			e.Origin, e.MsgID, e.Reuse, e.Parent = by.Origin, by.MsgID, by.Reuse, nil
			adoptLimit(e.Limit)
		case *Rewound:
			there.Execution = e.Execution
		case *ActivityScheduled:
			adoptLimit(e.Limit)
		case *ChildScheduled:
			adopt(&e.Effect)
		case *ChildCompleted:
			adopt(&e.Effect)
		case *ChildFailed:
			adopt(&e.Effect)
		}
	}
	s, _ := events[0].(*Started)                                                     // ensured by decode
	if n := len(s.Recorded); n == 0 || s.Recorded[n-1].Execution < there.Execution { // otherwise the exported instance recorded no execution of its own
		s.Recorded = append(s.Recorded, there)
	}
	return events, nil
}
