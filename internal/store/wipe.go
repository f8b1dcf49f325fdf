package store

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
)

//go:embed wipe.lua
var wipeLua string

// OwnedKeys finds the histories, reports and leases of an instance by their names, because a record or a history that cannot be read
// does not list them. It scans the node of the partition, so its time is proportional to the number of keys of that node. While a
// Redis Cluster moves the slot, keys that have already moved are not found.
func (s *Reader) OwnedKeys(ctx context.Context, part int, instance string) ([]record.OwnedKey, error) {
	p := s.space.Part(part)
	var node redis.Cmdable = s.run.Client()
	if c, ok := node.(*redis.ClusterClient); ok {
		master, err := c.MasterForKey(ctx, p.Owner())
		if err != nil {
			return nil, fmt.Errorf("instance %s: find its node: %w", instance, err)
		}
		node = master
	}
	literal := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(instance)
	var out []record.OwnedKey
	it := node.Scan(ctx, 0, p.Prefix()+"[hrl]:"+literal+":*", 1000).Iterator()
	for it.Next(ctx) {
		if n, ok := p.Parse(it.Val()); ok && n.Instance == instance { // the prefix also matches longer ids
			out = append(out, record.OwnedKey(n))
		}
	}
	if err := it.Err(); err != nil {
		return nil, fmt.Errorf("instance %s: scan its keys: %w", instance, err)
	}
	var sets []redisx.ParsedKey
	it = node.Scan(ctx, 0, p.Prefix()+"[vn]:*", 1000).Iterator()
	for it.Next(ctx) {
		if n, ok := p.Parse(it.Val()); ok {
			sets = append(sets, n)
		}
	}
	if err := it.Err(); err != nil {
		return nil, fmt.Errorf("instance %s: scan the sets of values: %w", instance, err)
	}
	for _, n := range sets {
		v, err := s.run.Do(ctx, redisx.Command("ZSCORE", p.Set(n), instance))
		if err != nil {
			return nil, fmt.Errorf("instance %s: read a set of values: %w", instance, err)
		}
		if v != nil {
			out = append(out, record.OwnedKey(n))
		}
	}
	return out, nil
}

// Wipe removes an instance, whatever its keys contain, and its inbox up to the purge that requests it. It reports a conflict if the
// purge is no longer at its index, also if the reply to an earlier successful attempt was lost.
func (s *Store) Wipe(t Tenure, w *record.Wipe, done func(now int64, err error)) {
	p := s.space.Part(t.Part)
	keys := s.wipeKeys(t, w.Instance)
	args := []any{t.Token, w.Instance, w.InboxIndex, w.Purge}
	for _, st := range record.Statuses() {
		keys, args = append(keys, p.Index(string(st))), append(args, "")
	}
	for _, n := range w.Keys {
		if n.Kind == "v" || n.Kind == "n" {
			name, ok := strings.CutPrefix(n.Instance, record.FieldOrchestration+":")
			if !ok || n.Kind == "n" {
				name = ""
			}
			keys, args = append(keys, p.Set(redisx.ParsedKey(n))), append(args, name)
		}
	}
	keys = append(keys, p.Instance(w.Instance), p.Updates(w.Instance))
	for _, n := range w.Keys {
		switch n.Kind {
		case "h":
			keys = append(keys, p.History(w.Instance, n.Execution))
		case "r":
			keys = append(keys, p.Reports(w.Instance, n.Execution))
		case "l":
			keys = append(keys, p.Lease(w.Instance, n.Execution, n.Activity))
		}
	}
	s.run.Go(redisx.Call{Script: s.wipe, Keys: keys, Args: args}, func(v any, err error) {
		now, _, err := wiped(w.Instance, v, err)
		done(now, err)
	})
}

// Unblock removes the inbox and the message ids of an instance if they have another Redis type, which would make Redis reject every
// input. It reports whether it removed any.
func (s *Store) Unblock(ctx context.Context, t Tenure, instance string) (bool, error) {
	v, err := s.run.Do(ctx, redisx.Call{Script: s.wipe, Keys: s.wipeKeys(t, instance), Args: []any{t.Token, instance, 0, ""}})
	_, keys, err := wiped(instance, v, err)
	return keys > 0, err
}

func (s *Store) wipeKeys(t Tenure, instance string) []string {
	p := s.space.Part(t.Part)
	return []string{p.Owner(), p.Wakeups(), p.Inbox(instance), p.Seen(instance), p.Stalled(), p.Early(), p.Orchestrations()}
}

func wiped(instance string, v any, err error) (now, keys int64, _ error) {
	r, err := okReply("wipe of "+instance, v, err)
	if err != nil {
		return 0, 0, err
	}
	return r.Int(1), r.Int(2), r.Err()
}
