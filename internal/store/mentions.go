package store

import (
	"bytes"
	"context"

	"github.com/pawlrun/pawl/internal/redisx"
)

// mentionsChunk is the number of events that Mentions reads in one call.
const mentionsChunk = 1000

// Mentions returns those of the names that occur in the stored data of an instance: its inbox, its updates, and the histories of its
// current execution and the one before. If the instance takes a turn in the meantime, it returns all names.
//
// A turn moves inputs from the inbox to the history, so the inbox is read first; a changed head shows that there was a turn.
func (s *Reader) Mentions(ctx context.Context, part int, instance string, names []string) ([]string, error) {
	rec, err := s.Record(ctx, part, instance)
	if err != nil {
		return nil, err
	}
	m := mentions{left: make(map[string]struct{}, len(names))}
	for _, name := range names {
		m.left[name] = struct{}{}
	}
	inbox, err := s.Inbox(ctx, part, instance, 0)
	if err != nil {
		return nil, err
	}
	m.search(inbox)
	if rec == nil {
		return m.found, nil
	}
	v, err := s.run.Do(ctx, redisx.Command("HGETALL", s.space.Part(part).Updates(instance)))
	if err != nil {
		return nil, err
	}
	ledger, err := pairs(v)
	if err != nil {
		return nil, err
	}
	for _, answer := range ledger {
		m.search([][]byte{[]byte(answer)})
	}
	for execution := rec.Execution; execution > 0 && execution+1 >= rec.Execution; execution-- {
		for after := uint64(0); len(m.left) > 0; after += mentionsChunk {
			events, err := s.RawHistory(ctx, part, instance, execution, after, mentionsChunk)
			if err != nil {
				return nil, err
			}
			if m.search(events); len(events) < mentionsChunk {
				break
			}
		}
	}
	head, err := s.Head(ctx, part, instance)
	if err != nil {
		return nil, err
	}
	if head != rec.Head {
		return names, nil
	}
	return m.found, nil
}

type mentions struct {
	left  map[string]struct{}
	found []string
}

func (m *mentions) search(elements [][]byte) {
	for _, b := range elements {
		for name := range m.left {
			if bytes.Contains(b, []byte(name)) {
				m.found = append(m.found, name)
				delete(m.left, name)
			}
		}
	}
}
