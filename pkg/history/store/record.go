package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
)

// Status is where an instance stands.
type Status string

// The statuses. Instances of each are listed in an index of their own.
const (
	Running   Status = "running"
	Completed Status = "completed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

// Ended reports whether nothing follows.
func (s Status) Ended() bool { return s == Completed || s == Failed || s == Cancelled }

// Statuses lists them in the order in which they are shown.
func Statuses() []Status { return []Status{Running, Completed, Failed, Cancelled} }

// Record is what is known of an instance besides its history.
type Record struct {
	Name      string
	Version   string
	Born      history.Position
	Execution uint64
	Status    Status
	Head      string // random, set by every commit
	Created   int64  // Unix ms: time of the start input
	Updated   int64  // Unix ms: last commit, by Redis TIME
	Events    uint64 // length of the history
	Ended     int64  // Unix ms; 0 while it runs
	End       []byte // the event that ended it, encoded
}

// fields lists what a commit writes of the record; head, updated and events are the script's.
func (r *Record) fields() []any {
	f := make([]any, 0, 18)
	add := func(k string, v any) { f = append(f, k, v) }
	if r.Name != "" {
		add("name", r.Name)
		add("version", r.Version)
		add("born", num(r.Born.Seq)+"."+num(r.Born.Time))
		add("execution", num(r.Execution))
		add("created", num(r.Created))
	}
	if r.Status != "" {
		add("status", string(r.Status))
	}
	if r.Ended != 0 {
		add("ended", num(r.Ended))
		add("end", r.End)
	}
	return f
}

// Loaded is an instance as the store has it.
type Loaded struct {
	Record *Record // nil: there is none
	Events []history.Event
	Unread [][]byte
}

// Load reads an instance: record, the head of its inbox, and, unless it has ended, its history. History that
// does not decode gives an error with history.ErrCorrupt or history.ErrNewerVersion, and
// what could be read.
func (s *Store) Load(ctx context.Context, part int, instance string) (Loaded, error) {
	rec, err := s.Record(ctx, part, instance)
	if err != nil {
		return Loaded{}, err
	}
	out := Loaded{Record: rec}
	if out.Unread, err = s.Unread(ctx, part, instance); err != nil || rec == nil || rec.Status.Ended() {
		return out, err
	}
	out.Events, err = s.History(ctx, part, instance, rec.Execution)
	return out, err
}

// Record reads the record, nil if there is none.
func (s *Store) Record(ctx context.Context, part int, instance string) (*Record, error) {
	v, err := s.run.Do(ctx, redisx.Command("HGETALL", s.space.Part(part).Instance(instance)))
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

// pairs reads the answer to HGETALL in either protocol version.
func pairs(v any) (map[string]string, error) {
	out := make(map[string]string)
	var bad error
	put := func(k, v any) {
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
		for i := 0; i+1 < len(v); i += 2 {
			put(v[i], v[i+1])
		}
	default:
		bad = fmt.Errorf("%w: %T where a hash was expected", redisx.ErrReply, v)
	}
	return out, bad
}

func parseRecord(m map[string]string) (*Record, error) {
	r := &Record{
		Name: m["name"], Version: m["version"], Status: Status(m["status"]), Head: m["head"], End: []byte(m["end"]),
	}
	var err error
	parse := func(field, text string) int64 {
		if text == "" {
			return 0
		}
		n, e := strconv.ParseInt(text, 10, 64)
		if e != nil {
			err = fmt.Errorf("record: field %s is %q: %w", field, m[field], history.ErrCorrupt)
		}
		return n
	}
	number := func(field string) int64 { return parse(field, m[field]) }
	seq, at, ok := strings.Cut(m["born"], ".")
	r.Born = history.Position{Seq: uint64(parse("born", seq)), Time: parse("born", at)} //nolint:gosec // written from a uint64 below 2^63
	r.Execution, r.Events = uint64(number("execution")), uint64(number("events"))       //nolint:gosec // likewise
	r.Created, r.Updated, r.Ended = number("created"), number("updated"), number("ended")
	if !ok || r.Name == "" || r.Head == "" || r.Status == "" {
		err = fmt.Errorf("record: a field is missing: %w", history.ErrCorrupt)
	}
	return r, err
}

// History reads the events of an execution. See Load for its errors.
func (s *Store) History(ctx context.Context, part int, instance string, execution uint64) ([]history.Event, error) {
	key := s.space.Part(part).History(instance, execution)
	var events []history.Event
	for {
		from := len(events)
		v, err := s.run.Do(ctx, redisx.Command("LRANGE", key, from, from+historyChunk-1))
		if err != nil {
			return nil, fmt.Errorf("instance %s: read the history: %w", instance, err)
		}
		chunk, ok := v.([]any)
		if !ok && v != nil {
			return nil, fmt.Errorf("instance %s: history: %w: %T", instance, redisx.ErrReply, v)
		}
		for _, raw := range chunk {
			b, err := redisx.Str(raw)
			if err != nil {
				return events, fmt.Errorf("instance %s: history: %w", instance, err)
			}
			e, err := history.Decode(uint64(len(events)+1), []byte(b))
			if err != nil {
				return events, fmt.Errorf("instance %s: %w", instance, err)
			}
			events = append(events, e)
		}
		if len(chunk) < historyChunk {
			return events, nil
		}
	}
}

// Unread reads the head of the inbox: up to UnreadBatch elements and 4 MiB, as the answer of a commit.
func (s *Store) Unread(ctx context.Context, part int, instance string) ([][]byte, error) {
	v, err := s.run.Do(ctx, redisx.Call{
		Script: s.unread, Keys: []string{s.space.Part(part).Inbox(instance)}, Args: []any{UnreadBatch, unreadBytes},
	})
	if err != nil {
		return nil, fmt.Errorf("instance %s: read the inbox: %w", instance, err)
	}
	r := redisx.NewReply(v)
	return elements(r.Strs(1)), r.Err()
}

// Inbox reads the whole inbox, for the checker.
func (s *Store) Inbox(ctx context.Context, part int, instance string) ([][]byte, error) {
	v, err := s.run.Do(ctx, redisx.Command("LRANGE", s.space.Part(part).Inbox(instance), 0, -1))
	if err != nil {
		return nil, fmt.Errorf("instance %s: read the inbox: %w", instance, err)
	}
	r := redisx.NewReply([]any{v})
	return elements(r.Strs(0)), r.Err()
}
