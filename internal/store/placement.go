package store

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
)

//go:embed fill.lua
var fillLua string

//go:embed place.lua
var placeLua string

// Placement moves the data of a namespace to a different number of partitions, while no owner and no worker runs (decision 86; package
// resize describes the protocol). All partitions are seized, and every write requires that.
//
//	each key of an instance, each member of a set of instances or limits:
//	old partition ──Copy──▶ old and new partition ──Remove──▶ new partition
//
// The id of an instance determines the partition of its keys, and the name of a limit that of its wakeup. So the remaining work follows
// from the keys alone: both steps may be repeated, from any state that a crash during either of them has left. Copy reads only data that
// no Copy writes, and Remove removes only misplaced data.
//
// Two values depend on the secret of the partition and are computed anew: the seals of inbox elements, and the keys of leases.
type Placement struct {
	reader  *Reader
	home    func(name string) int
	tenures []Tenure // by partition, of both the old and the new number of partitions
	fill    *redisx.Script
	place   *redisx.Script
	moved   func(keys int) // reports progress; may be called concurrently
}

// NewPlacement returns a placement. home returns the partition of an instance or a limit; moved is called with the number of keys that
// were copied or removed.
func (s *Reader) NewPlacement(home func(name string) int, tenures []Tenure, moved func(keys int)) *Placement {
	return &Placement{
		reader: s, home: home, tenures: tenures, moved: moved,
		fill: redisx.NewScript("fill", "", fillLua,
			"partition list",
			"token from# | element*"),
		place: redisx.NewScript("place", "", placeLua,
			"partition target",
			"token command | value*"),
	}
}

// Misplaced counts data that is not in its partition.
type Misplaced struct {
	Instances int64 // records, and inboxes without a record
	Keys      int64 // keys of instances
	Members   int64 // members of sets and lists
}

// Any reports whether anything is misplaced.
func (m Misplaced) Any() bool { return m.Keys+m.Members > 0 }

const (
	placeParallel = 64      // concurrent keys
	placeBytes    = 1 << 20 // approximate size of a chunk of a list
	placeElements = 2048    // maximum number of elements of a chunk of a list
	placeValues   = 2000    // values per command
)

// place is a key that the scan found.
type place struct {
	key  string
	part int
	name redisx.ParsedKey
}

// ofInstance reports whether the key belongs to a single instance.
func (p *place) ofInstance() bool {
	switch p.name.Kind {
	case "i", "d", "u", "in", "h", "l", "r":
		return true
	default:
		return false
	}
}

// command returns the command that reads the key if it is a set or a hash whose members belong to partitions; "" for any other key.
func (p *place) command() string {
	switch p.name.Kind {
	case "x", "v", "n", "wakeups", "limits":
		return "ZSCAN"
	case "early", "stalled":
		return "HSCAN"
	default:
		return ""
	}
}

// each calls do for all keys of the partitions of the namespace, concurrently.
func (m *Placement) each(ctx context.Context, do func(ctx context.Context, p *place) error) error {
	return m.reader.scanKeys(ctx, func(ctx context.Context, keys []string) error {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(placeParallel)
		for _, key := range keys {
			part, ok := m.reader.space.PartOf(key)
			if !ok {
				continue
			}
			name, ok := m.reader.space.Part(part).Parse(key)
			if !ok { // not a key of Pawl
				continue
			}
			g.Go(func() error {
				if err := do(ctx, &place{key, part, name}); err != nil {
					return fmt.Errorf("key %s: %w", key, err)
				}
				return nil
			})
		}
		return g.Wait()
	})
}

// Misplaced counts the data that is not in its partition.
func (m *Placement) Misplaced(ctx context.Context) (Misplaced, error) {
	var instances, keys, members atomic.Int64
	err := m.each(ctx, func(ctx context.Context, p *place) error {
		if !p.ofInstance() {
			return m.foreign(ctx, p, func(_ int, pairs []string) error {
				members.Add(int64(len(pairs) / 2))
				return nil
			})
		}
		if m.home(p.name.Instance) != p.part {
			keys.Add(1)
			if p.name.Kind == "i" {
				instances.Add(1)
			}
		}
		return nil
	})
	return Misplaced{instances.Load(), keys.Load(), members.Load()}, err
}

// Copy copies misplaced data to its partition.
func (m *Placement) Copy(ctx context.Context) error {
	return m.each(ctx, func(ctx context.Context, p *place) error {
		if p.ofInstance() {
			to := m.home(p.name.Instance)
			if to == p.part {
				return nil
			}
			err := m.copyKey(ctx, p, to)
			m.moved(1)
			return err
		}
		return m.foreign(ctx, p, func(to int, pairs []string) error { return m.copyMembers(ctx, p, to, pairs) })
	})
}

// Remove removes misplaced data. It removes leases first, because writes of a worker that was overlooked depend on them.
func (m *Placement) Remove(ctx context.Context) error {
	for left := true; left; {
		var found atomic.Bool
		for _, leases := range []bool{true, false} {
			err := m.each(ctx, func(ctx context.Context, p *place) error {
				if p.ofInstance() {
					if m.home(p.name.Instance) == p.part || (p.name.Kind == "l") != leases {
						return nil
					}
					found.Store(true)
					err := m.write(ctx, p.part, p.key, "UNLINK")
					m.moved(1)
					return err
				}
				if leases {
					return nil
				}
				return m.foreign(ctx, p, func(_ int, pairs []string) error {
					found.Store(true)
					return m.removeMembers(ctx, p, pairs)
				})
			})
			if err != nil {
				return err
			}
		}
		left = found.Load()
	}
	for part := range m.tenures {
		if err := m.sums(ctx, part); err != nil {
			return fmt.Errorf("partition %d: %w", part, err)
		}
	}
	return nil
}

// foreign calls do with the members of a key that belong to other partitions, with their scores or values, by partition.
func (m *Placement) foreign(ctx context.Context, p *place, do func(to int, pairs []string) error) error {
	if p.name.Kind == "refused" {
		return m.foreignRefusals(ctx, p, do)
	}
	command := p.command()
	if command == "" {
		return nil
	}
	for cursor := "0"; ; {
		v, err := m.reader.run.Do(ctx, redisx.Command(command, p.key, cursor, "COUNT", 1000))
		if err != nil {
			return err
		}
		r := redisx.NewReply(v)
		members, err := pairs(r.List(1))
		if err != nil {
			return err
		}
		to := make(map[int][]string)
		for name, value := range members {
			if home := m.home(name); name != "" && home != p.part { // "": the total of the early inputs
				to[home] = append(to[home], name, value)
			}
		}
		for home, some := range to {
			if err := do(home, some); err != nil {
				return err
			}
		}
		if cursor = r.Str(0); cursor == "0" || r.Err() != nil {
			return r.Err()
		}
	}
}

// foreignRefusals is foreign for the list of refusals; the values of the pairs are empty.
func (m *Placement) foreignRefusals(ctx context.Context, p *place, do func(to int, pairs []string) error) error {
	to := make(map[int][]string)
	err := m.reader.refusals(ctx, p.part, func(x record.Refusal, encoded string) {
		if home := m.home(x.Instance); home != p.part {
			to[home] = append(to[home], encoded, "")
		}
	})
	if err != nil {
		return err
	}
	for home, some := range to {
		if err := do(home, some); err != nil {
			return err
		}
	}
	return nil
}

// in returns the corresponding key in another partition.
func (m *Placement) in(p *place, to int) string {
	return m.reader.space.Part(to).Prefix() + strings.TrimPrefix(p.key, m.reader.space.Part(p.part).Prefix())
}

// copyMembers adds members, with their scores or values, to the same key of another partition.
func (m *Placement) copyMembers(ctx context.Context, p *place, to int, pairs []string) error {
	key := m.in(p, to)
	switch p.command() {
	case "ZSCAN":
		if err := m.write(ctx, to, key, "ZADD", swapped(pairs)...); err != nil {
			return err
		}
		if name, ok := strings.CutPrefix(p.name.Instance, record.FieldOrchestration+":"); ok && p.name.Kind == "v" {
			return m.write(ctx, to, m.reader.space.Part(to).Orchestrations(), "ZADD", "0", name)
		}
		return nil
	case "HSCAN":
		return m.write(ctx, to, key, "HSET", pairs...)
	default: // refusals
		for i := len(pairs) - 2; i >= 0; i -= 2 {
			if err := m.write(ctx, to, key, "LREM", "0", pairs[i]); err != nil {
				return err
			}
			if err := m.write(ctx, to, key, "LPUSH", pairs[i]); err != nil {
				return err
			}
		}
		return m.write(ctx, to, key, "PEXPIRE", num(refusalTTL.Milliseconds()))
	}
}

// swapped swaps each member with its score, into the order that ZADD requires.
func swapped(pairs []string) []string {
	out := make([]string, len(pairs))
	for i := 0; i+1 < len(pairs); i += 2 {
		out[i], out[i+1] = pairs[i+1], pairs[i]
	}
	return out
}

func (m *Placement) removeMembers(ctx context.Context, p *place, pairs []string) error {
	members := make([]string, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		members = append(members, pairs[i])
	}
	switch p.command() {
	case "ZSCAN":
		return m.write(ctx, p.part, p.key, "ZREM", members...)
	case "HSCAN":
		return m.write(ctx, p.part, p.key, "HDEL", members...)
	default:
		for _, entry := range members {
			if err := m.write(ctx, p.part, p.key, "LREM", "0", entry); err != nil {
				return err
			}
		}
		return nil
	}
}

// sums recomputes the data that depends on other keys of the partition: the names of its orchestrations, and the total of early inputs.
func (m *Placement) sums(ctx context.Context, part int) error {
	p := m.reader.space.Part(part)
	names, err := m.reader.strs(ctx, redisx.Command("ZRANGE", p.Orchestrations(), 0, -1))
	if err != nil {
		return err
	}
	for _, name := range names {
		v, err := m.reader.run.Do(ctx, redisx.Command("EXISTS", p.Values(record.FieldOrchestration, name)))
		if err != nil {
			return err
		}
		n, err := redisx.Int(v)
		if err == nil && n == 0 {
			err = m.write(ctx, part, p.Orchestrations(), "ZREM", name)
		}
		if err != nil {
			return err
		}
	}
	early, err := m.reader.early(ctx, part)
	if err != nil || len(early) == 0 {
		return err
	}
	sum, err := sumOfEarly(early)
	if err != nil {
		return err
	}
	if sum == 0 {
		return m.write(ctx, part, p.Early(), "DEL")
	}
	return m.write(ctx, part, p.Early(), "HSET", "", num(sum))
}

// write executes a command on a key of a partition, in batches if there are many values.
func (m *Placement) write(ctx context.Context, part int, key, command string, values ...string) error {
	for first := true; first || len(values) > 0; first = false {
		n := min(len(values), placeValues)
		args := []any{m.tenures[part].Token, command}
		for _, v := range values[:n] {
			args = append(args, v)
		}
		if err := m.script(ctx, m.place, part, key, args); err != nil {
			return err
		}
		values = values[n:]
	}
	return nil
}

func (m *Placement) script(ctx context.Context, s *redisx.Script, part int, key string, args []any) error {
	v, err := m.reader.run.Do(ctx, redisx.Call{Script: s, Keys: []string{m.reader.space.Part(part).Owner(), key}, Args: args})
	_, err = okReply("place", v, err)
	return err
}

// copyKey copies a key of an instance. An incomplete earlier copy is replaced.
func (m *Placement) copyKey(ctx context.Context, p *place, to int) error {
	switch p.name.Kind {
	case "h", "in":
		return m.copyList(ctx, p, to)
	case "d":
		if err := m.copyPairs(ctx, p, to, "ZRANGE", p.key, 0, -1, "WITHSCORES"); err != nil {
			return err
		}
		return m.write(ctx, to, m.in(p, to), "PEXPIRE", strconv.Itoa(seenSpan)) // as in ingest
	default:
		return m.copyPairs(ctx, p, to, "HGETALL", p.key)
	}
}

// copyPairs copies the hash or sorted set that a command reads. A lease receives the key with which the owner of its new partition
// verifies a doorbell.
func (m *Placement) copyPairs(ctx context.Context, p *place, to int, read ...any) error {
	v, err := m.reader.run.Do(ctx, redisx.Command(read...))
	if err != nil {
		return err
	}
	fields, err := pairs(v)
	if err != nil || len(fields) == 0 {
		return err
	}
	if p.name.Kind == "l" {
		fields["k"] = m.tenures[to].leaseKey(p.name.Instance, fields["e"])
	}
	command, values := "HSET", make([]string, 0, 2*len(fields))
	for name, value := range fields {
		values = append(values, name, value)
	}
	if p.name.Kind == "d" {
		command, values = "ZADD", swapped(values)
	}
	if err := m.write(ctx, to, m.in(p, to), "DEL"); err != nil {
		return err
	}
	return m.write(ctx, to, m.in(p, to), command, values...)
}

// copyList copies a history, or an inbox with the seals of its new partition.
func (m *Placement) copyList(ctx context.Context, p *place, to int) error {
	was, seal := "", ""
	if p.name.Kind == "in" {
		was, seal = m.tenures[p.part].Seal(), m.tenures[to].Seal()
	}
	for from, step := 0, 16; ; {
		elements, err := m.reader.strs(ctx, redisx.Command("LRANGE", p.key, from, from+step-1))
		if err != nil || len(elements) == 0 {
			return err
		}
		args, size := []any{m.tenures[to].Token, from}, 0
		for _, e := range elements {
			size += len(e)
			args = append(args, resealed(e, was, seal))
		}
		if err := m.script(ctx, m.fill, to, m.in(p, to), args); err != nil {
			return err
		}
		from += len(elements)
		switch {
		case size > placeBytes:
			step = max(1, step/2)
		case step < placeElements:
			step *= 2
		}
	}
}

// resealed replaces the seal of an inbox element, if it has the old one.
func resealed(element, was, seal string) string {
	if was == "" {
		return element
	}
	first, rest, ok := strings.Cut(element, "\n")
	id, sealed := strings.CutSuffix(first, was)
	if !ok || !sealed {
		return element
	}
	return id + seal + "\n" + rest
}
