package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
)

// partitionKeys contains the keys of a partition, by instance.
type partitionKeys struct {
	part      int
	keys      redisx.Part
	instances map[string]*subject
	sets      []string // sets of values
	foreign   []string
	n         int
}

// of returns the subject of an instance, which it adds if needed.
func (p *partitionKeys) of(id string) *subject {
	x := p.instances[id]
	if x == nil {
		x = &subject{part: p.part, id: strings.Clone(id)} // a copy, which does not keep the whole key in memory
		p.instances[x.id] = x
	}
	return x
}

// scan lists the keys of the last sweep in c.sweeps. Whenever there are too many, it leaves half of their partitions to another sweep. It
// also returns how many sweeps of this size cover the namespace.
func (c *checker) scan(ctx context.Context) (_ map[int]*partitionKeys, of int, _ error) {
	last := len(c.sweeps) - 1
	found, now, n := make(map[int]*partitionKeys), c.sweeps[last], 0
	c.sweeps = c.sweeps[:last]
	take := func(_ context.Context, keys []string) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, key := range keys {
			if part, ok := c.reader.space.PartOf(key); ok && now.has(part) {
				c.addKey(found, part, key)
				n++
			}
		}
		for n > c.maxKeys && len(found) > 1 {
			c.sweeps = append(c.sweeps, sweep{now.n + now.of, 2 * now.of})
			now.of *= 2
			for part, p := range found {
				if !now.has(part) {
					n -= p.n
					delete(found, part)
				}
			}
		}
		return nil
	}
	if err := c.reader.scanKeys(ctx, take); err != nil {
		return nil, 0, fmt.Errorf("check: %w", err)
	}
	return found, now.of, nil
}

// scanKeys calls take with the keys of the partitions and limits of the namespace, page by page; in a cluster concurrently.
func (s *Reader) scanKeys(ctx context.Context, take func(ctx context.Context, keys []string) error) error {
	scan := func(ctx context.Context, node redis.Cmdable) error {
		for cursor := uint64(0); ; {
			keys, next, err := node.Scan(ctx, cursor, s.space.Pattern(), 1000).Result()
			if err != nil {
				return fmt.Errorf("list the keys: %w", err)
			}
			if err := take(ctx, keys); err != nil {
				return err
			}
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	}
	if cluster, ok := s.run.Client().(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return scan(ctx, node) })
	}
	return scan(ctx, s.run.Client())
}

// addKey adds a key to its partition.
func (c *checker) addKey(found map[int]*partitionKeys, part int, key string) {
	p := found[part]
	if p == nil {
		p = &partitionKeys{part: part, keys: c.reader.space.Part(part), instances: make(map[string]*subject)}
		found[part] = p
	}
	p.n++
	name, ok := p.keys.Parse(key)
	switch {
	case !ok:
		p.foreign = append(p.foreign, key)
	case name.Kind == "v", name.Kind == "n":
		p.sets = append(p.sets, key)
	case name.Kind == "i":
		p.of(name.Instance)
	case name.Kind == "in":
		p.of(name.Instance).inbox = true
	case name.Kind == "u":
		p.of(name.Instance).ledger = true
	case name.Kind == "h", name.Kind == "l", name.Kind == "r":
		x := p.of(name.Instance)
		x.held = append(x.held, heldKey{name.Kind[0], name.Execution, name.Activity})
	}
}

// partition adds the instances in the lists of the partition, including those without keys of their own, and checks the lists.
func (c *checker) partition(ctx context.Context, part int, p *partitionKeys) error {
	type list struct {
		scan, key string
		set       func(x *subject, value any) error
	}
	lists := []list{
		{"ZSCAN", p.keys.Wakeups(), func(x *subject, value any) (err error) {
			x.due = true
			x.wakeup, err = score(value)
			return err
		}},
		{"HSCAN", p.keys.Stalled(), func(x *subject, _ any) error {
			x.listed = true
			return nil
		}},
		{"HSCAN", p.keys.Early(), func(x *subject, _ any) error {
			x.early = true
			return nil
		}},
	}
	for i, st := range record.Statuses() {
		lists = append(lists, list{"ZSCAN", p.keys.Index(string(st)), func(x *subject, _ any) error {
			x.statuses |= 1 << i
			return nil
		}})
	}
	for _, key := range p.sets {
		lists = append(lists, list{"ZSCAN", key, func(x *subject, value any) error {
			at, err := score(value)
			x.values = append(x.values, setScore{key, at})
			return err
		}})
	}
	if err := c.orchestrations(ctx, part, p); err != nil {
		return err
	}
	for _, key := range p.foreign {
		c.findf(part, "key %s does not belong to Pawl", key)
	}
	for _, l := range lists {
		err := c.members(ctx, l.scan, l.key, p, l.set)
		if redisx.Refused(err) {
			c.findf(part, "list %s cannot be read: %v", l.key, err)
		} else if err != nil {
			return fmt.Errorf("check: partition %d: list %s: %w", part, l.key, err)
		}
	}
	stalled, err := c.reader.StalledCount(ctx, part)
	if err != nil && !redisx.Refused(err) {
		return err
	}
	early, err := c.reader.early(ctx, part)
	if err != nil && !redisx.Refused(err) {
		return err
	}
	if bad := checkEarly(early); bad != "" {
		c.findf(part, "%s", bad)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.Stalled += int(stalled) //nolint:gosec // far below the bound
	return nil
}

// orchestrations finds sets of orchestrations that a list by id would not read, and names without a set.
func (c *checker) orchestrations(ctx context.Context, part int, p *partitionKeys) error {
	names, err := c.reader.strs(ctx, redisx.Command("ZRANGE", p.keys.Orchestrations(), 0, -1))
	if redisx.Refused(err) {
		c.findf(part, "list %s cannot be read: %v", p.keys.Orchestrations(), err)
		return nil
	} else if err != nil {
		return fmt.Errorf("check: partition %d: list the orchestrations: %w", part, err)
	}
	for _, key := range p.sets {
		if name, ok := strings.CutPrefix(key, p.keys.Values(record.FieldOrchestration, "")); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if err := c.orchestration(ctx, part, p, name); err != nil {
			return fmt.Errorf("check: partition %d: read the orchestration %s: %w", part, name, err)
		}
	}
	return nil
}

// orchestration compares the name of an orchestration with its set. Instances may start or be purged in the meantime, so a difference is
// read a second time.
func (c *checker) orchestration(ctx context.Context, part int, p *partitionKeys, name string) error {
	var was string
	for range 2 {
		listed, err := c.reader.run.Do(ctx, redisx.Command("ZSCORE", p.keys.Orchestrations(), name))
		if err != nil {
			return err
		}
		members, err := c.reader.run.Do(ctx, redisx.Command("EXISTS", p.keys.Values(record.FieldOrchestration, name)))
		if err != nil {
			return err
		}
		n, err := redisx.Int(members)
		problem := ""
		switch {
		case err != nil:
			return err
		case listed == nil && n > 0:
			problem = "has instances but is not among the orchestrations"
		case listed != nil && n == 0:
			problem = "is among the orchestrations but has no instances"
		}
		if problem == "" {
			return nil
		}
		if problem == was {
			c.findf(part, "the orchestration %s %s", name, problem)
		}
		was = problem
	}
	return nil
}

// members reads the members of a list, each with its score or value.
func (c *checker) members(ctx context.Context, scan, key string, p *partitionKeys, set func(*subject, any) error) error {
	for cursor := "0"; ; {
		v, err := c.reader.run.Do(ctx, redisx.Command(scan, key, cursor, "COUNT", 1000))
		if err != nil {
			return err
		}
		r := redisx.NewReply(v)
		members := r.List(1)
		for i := 0; i+1 < len(members); i += 2 {
			id, err := redisx.Str(members[i])
			if err == nil && id != "" { // "" is the total of the early inputs
				err = set(p.of(id), members[i+1])
			}
			if err != nil {
				return err
			}
		}
		if cursor = r.Str(0); cursor == "0" || r.Err() != nil {
			return r.Err()
		}
	}
}
