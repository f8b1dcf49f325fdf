package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/redisx"
)

// Finding is a rule that the store breaks.
type Finding struct {
	Partition int    `json:"partition"`
	Instance  string `json:"instance,omitempty"`
	Rule      string `json:"rule"`
}

// String names the place and the rule.
func (f Finding) String() string {
	if f.Instance == "" {
		return fmt.Sprintf("partition %d: %s", f.Partition, f.Rule)
	}
	return fmt.Sprintf("instance %s (partition %d): %s", f.Instance, f.Partition, f.Rule)
}

// Checked is what a check has seen.
type CheckResult struct {
	Instances int       `json:"instances"`
	Running   int       `json:"running"`
	Events    uint64    `json:"events"`
	Leases    int       `json:"leases"`
	Unread    int       `json:"unread"`
	Stalled   int       `json:"stuck"`
	Findings  []Finding `json:"findings"`
}

// The check reads a living store. What looks wrong is read again after a pause, and
// only what stays wrong is a finding.
const (
	checkTries = 4
	checkPause = 250 * time.Millisecond
)

// Check reads the whole namespace and reports every broken invariant:
//
//   - histories decode and keep the rules of history.Check;
//   - a record has the history it says, and stands in the index of its status and no other;
//   - an outstanding activity has its lease, or its completion is unread;
//   - a lease belongs to an outstanding activity;
//   - an execution that has just begun has no history yet, and its start is the first that is unread; no later one has a history;
//   - histories and reports are those of the current execution and the one before, and, until the current one has made
//     its first turn, of the one before that;
//   - of an instance that has no record nothing is left but what is unread: neither history, lease, report nor place in an
//     index, and, if nothing is unread, none on the agenda or among what is stuck either;
//   - the marks of what is owed lie within the history, and cover every message of it;
//   - early inputs are counted for instances that have no record, and their bytes add up;
//   - what must be looked at (unread inputs, outstanding activities and children, timers, messages owed) is on the agenda.
//
// It writes nothing and may run beside the fleet. progress, if not nil, is called after each instance.
func (s *Store) Check(ctx context.Context, progress func(done, of int)) (CheckResult, error) {
	found, err := s.scan(ctx)
	if err != nil {
		return CheckResult{}, err
	}
	for part, c := range found {
		if err := s.addListed(ctx, part, c); err != nil {
			return CheckResult{}, err
		}
	}
	var out CheckResult
	total, done := 0, 0
	for _, p := range found {
		total += len(p.instances)
	}
	for _, part := range slices.Sorted(maps.Keys(found)) {
		p := found[part]
		for _, key := range p.foreign {
			out.Findings = append(out.Findings, Finding{Partition: part, Rule: "key " + key + " is none of Pawl's"})
		}
		for _, id := range slices.Sorted(maps.Keys(p.instances)) {
			if err := s.checkInstance(ctx, part, id, p.instances[id], &out); err != nil {
				return out, err
			}
			if done++; progress != nil {
				progress(done, total)
			}
		}
		stuck, err := s.StalledIDs(ctx, part)
		if err != nil {
			return out, err
		}
		out.Stalled += len(stuck)
		early, err := s.early(ctx, part)
		if err != nil {
			return out, err
		}
		if bad := checkEarly(early); bad != "" {
			out.Findings = append(out.Findings, Finding{Partition: part, Rule: bad})
		}
	}
	return out, nil
}

// census is what keys a partition has, by instance.
type partitionKeys struct {
	instances map[string][]redisx.ParsedKey // the leases, histories and reports of each
	foreign   []string
}

func (s *Store) scan(ctx context.Context) (map[int]*partitionKeys, error) {
	var mu sync.Mutex
	found := make(map[int]*partitionKeys)
	take := func(key string) {
		mu.Lock()
		defer mu.Unlock()
		s.addKey(found, key)
	}
	scan := func(ctx context.Context, node redis.Cmdable) error {
		it := node.Scan(ctx, 0, s.space.Pattern(), 1000).Iterator()
		for it.Next(ctx) {
			take(it.Val())
		}
		return it.Err()
	}
	var err error
	if c, ok := s.run.Client().(*redis.ClusterClient); ok {
		err = c.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return scan(ctx, node) })
	} else {
		err = scan(ctx, s.run.Client())
	}
	if err != nil {
		return nil, fmt.Errorf("check: list the keys: %w", err)
	}
	return found, nil
}

// count puts a key into its partition's census.
func (s *Store) addKey(found map[int]*partitionKeys, key string) {
	part, ok := s.space.PartOf(key)
	if !ok {
		return
	}
	c := found[part]
	if c == nil {
		c = &partitionKeys{instances: make(map[string][]redisx.ParsedKey)}
		found[part] = c
	}
	name, ok := s.space.Part(part).Parse(key)
	switch {
	case !ok:
		c.foreign = append(c.foreign, key)
	case name.Kind == "i", name.Kind == "in":
		c.instances[name.Instance] = append(c.instances[name.Instance], redisx.ParsedKey{})
	case name.Kind == "h", name.Kind == "l", name.Kind == "r":
		c.instances[name.Instance] = append(c.instances[name.Instance], name)
	}
}

// listed puts into the census of a partition who stands in one of its lists: also if nothing else is there.
func (s *Store) addListed(ctx context.Context, part int, c *partitionKeys) error {
	p := s.space.Part(part)
	lists := map[string]string{p.Wakeups(): "ZSCAN", p.Stalled(): "HSCAN", p.Early(): "HSCAN"}
	for _, st := range Statuses() {
		lists[p.Index(string(st))] = "ZSCAN"
	}
	for key, scan := range lists {
		if err := s.addMembers(ctx, scan, key, c); err != nil && !redisx.Refused(err) { // a key of another type is found later
			return fmt.Errorf("check: partition %d: list %s: %w", part, key, err)
		}
	}
	return nil
}

func (s *Store) addMembers(ctx context.Context, scan, key string, c *partitionKeys) error {
	for cursor := "0"; ; {
		v, err := s.run.Do(ctx, redisx.Command(scan, key, cursor, "COUNT", 1000))
		if err != nil {
			return err
		}
		r := redisx.NewReply(v)
		members := r.List(1)
		for i := 0; i < len(members); i += 2 { // each with its score, or its value
			id, err := redisx.Str(members[i])
			if err != nil {
				return err
			}
			if _, known := c.instances[id]; !known && id != "" { // the sum of the early inputs
				c.instances[id] = nil
			}
		}
		if cursor = r.Str(0); cursor == "0" || r.Err() != nil {
			return r.Err()
		}
	}
}

func (s *Store) checkInstance(ctx context.Context, part int, id string, keys []redisx.ParsedKey, out *CheckResult) error {
	for try := 1; ; try++ {
		x := &checker{store: s, part: part, instance: id, keys: keys, result: CheckResult{Instances: 1}}
		err := x.run(ctx)
		seen, rules := x.result, x.violations
		if redisx.Refused(err) { // a key of another type: just what a check is for
			rules, err = append(rules, err.Error()), nil
		}
		if err != nil {
			return err
		}
		if len(rules) == 0 || try == checkTries {
			out.add(seen)
			for _, r := range rules {
				out.Findings = append(out.Findings, Finding{Partition: part, Instance: id, Rule: r})
			}
			return nil
		}
		pause := time.NewTimer(checkPause)
		select {
		case <-ctx.Done():
			pause.Stop()
			return context.Cause(ctx)
		case <-pause.C:
		}
	}
}

func (c *CheckResult) add(x CheckResult) {
	c.Instances += x.Instances
	c.Running += x.Running
	c.Events += x.Events
	c.Leases += x.Leases
	c.Unread += x.Unread
}
