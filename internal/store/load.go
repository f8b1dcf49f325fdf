package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
)

// Load reads an instance: its record, the head of its inbox, its history unless it has ended, and the history of an ended execution
// with pending messages. If a history cannot be decoded, the error matches eventcodec.ErrCorrupt or eventcodec.ErrNewerVersion, and
// everything else that was read is returned, too.
func (s *Reader) Load(ctx context.Context, part int, instance string) (record.Loaded, error) {
	rec, err := s.Record(ctx, part, instance)
	if err != nil {
		return record.Loaded{}, err
	}
	out := record.Loaded{Record: rec}
	if out.Unread, err = s.Unread(ctx, part, instance); err != nil || rec == nil {
		return out, err
	}
	ended := rec.Status.Ended()
	if !ended {
		if out.Events, err = s.History(ctx, part, instance, rec.Execution); err != nil {
			return out, err
		}
	}
	if rec.HasPendingMessages() && (ended || rec.Produced.Execution < rec.Execution) {
		out.Previous, err = s.History(ctx, part, instance, rec.Produced.Execution)
	}
	return out, err
}

// Record reads the record of an instance; nil if there is none.
func (s *Reader) Record(ctx context.Context, part int, instance string) (*record.Record, error) {
	v, err := s.run.Do(ctx, redisx.Command("HGETALL", s.space.Part(part).Instance(instance)))
	return recordOf(instance, v, err)
}

// recordOf parses the reply to HGETALL of a record.
func recordOf(instance string, v any, err error) (*record.Record, error) {
	if err != nil {
		return nil, fmt.Errorf("instance %s: read the record: %w", instance, err)
	}
	m, err := pairs(v)
	if err != nil || len(m) == 0 {
		return nil, err
	}
	rec, err := parseRecord(m)
	if err != nil {
		return nil, fmt.Errorf("instance %s: %w", instance, err)
	}
	return rec, nil
}

// pairs parses the reply to HGETALL in either protocol version.
func pairs(v any) (map[string]string, error) {
	out := make(map[string]string)
	var bad error
	put := func(k, v any) {
		if f, ok := v.(float64); ok { // a score in RESP3
			v = strconv.FormatFloat(f, 'f', -1, 64)
		}
		ks, err1 := redisx.Str(k)
		vs, err2 := redisx.Str(v)
		if err1 != nil || err2 != nil {
			bad = fmt.Errorf("%w: %T → %T", redisx.ErrReply, k, v)
		}
		out[ks] = vs
	}
	switch v := v.(type) {
	case nil:
	case map[any]any:
		for k, x := range v {
			put(k, x)
		}
	case []any:
		for i := 0; i < len(v); i++ {
			if pair, nested := v[i].([]any); nested && len(pair) == 2 { // nested pairs of RESP3
				put(pair[0], pair[1])
			} else if i++; i < len(v) {
				put(v[i-1], v[i])
			}
		}
	default:
		bad = fmt.Errorf("%w: %T where a hash was expected", redisx.ErrReply, v)
	}
	return out, bad
}

// History reads all events of an execution. Its errors are as for Load.
func (s *Reader) History(ctx context.Context, part int, instance string, execution uint64) ([]history.Event, error) {
	var events []history.Event
	for {
		v, err := s.run.Do(ctx, s.historyCall(part, instance, execution, len(events)))
		read := len(events)
		if events, err = appendEvents(events, instance, v, err); err != nil || len(events)-read < historyChunk {
			return events, err
		}
	}
}

// historyCall returns the call that reads a chunk of a history.
func (s *Reader) historyCall(part int, instance string, execution uint64, from int) redisx.Call {
	return redisx.Command("LRANGE", s.space.Part(part).History(instance, execution), from, from+historyChunk-1)
}

// appendEvents decodes the reply to historyCall and appends its events.
func appendEvents(events []history.Event, instance string, v any, err error) ([]history.Event, error) {
	if err != nil {
		return events, fmt.Errorf("instance %s: read the history: %w", instance, err)
	}
	chunk, ok := v.([]any)
	if !ok && v != nil {
		return events, fmt.Errorf("instance %s: history: %w: %T", instance, redisx.ErrReply, v)
	}
	events = slices.Grow(events, len(chunk))
	for _, raw := range chunk {
		b, err := redisx.Str(raw)
		if err != nil {
			return events, fmt.Errorf("instance %s: history: %w", instance, err)
		}
		e, err := eventcodec.Decode(uint64(len(events)+1), []byte(b))
		if err != nil {
			return events, fmt.Errorf("instance %s: %w", instance, err)
		}
		events = append(events, e)
	}
	return events, nil
}

// Unread reads the head of the inbox: up to UnreadBatch elements and 4 MiB, as much as the reply to a commit contains.
func (s *Reader) Unread(ctx context.Context, part int, instance string) ([][]byte, error) {
	v, err := s.run.Do(ctx, s.unreadCall(part, instance))
	return unread(instance, v, err)
}

func (s *Reader) unreadCall(part int, instance string) redisx.Call {
	return redisx.Call{Script: s.unread, Keys: []string{s.space.Part(part).Inbox(instance)}, Args: []any{record.UnreadBatch, record.UnreadBytes}}
}

// unread parses the reply to unreadCall.
func unread(instance string, v any, err error) ([][]byte, error) {
	if err != nil {
		return nil, fmt.Errorf("instance %s: read the inbox: %w", instance, err)
	}
	r := redisx.NewReply(v)
	return elements(r.Strs(1)), r.Err()
}

// Inbox reads the first n elements of the inbox; all of them if n is 0.
func (s *Reader) Inbox(ctx context.Context, part int, instance string, n int) ([][]byte, error) {
	all, err := s.strs(ctx, redisx.Command("LRANGE", s.space.Part(part).Inbox(instance), 0, n-1))
	if err != nil {
		return nil, fmt.Errorf("instance %s: read the inbox: %w", instance, err)
	}
	return elements(all), nil
}
