package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/redisx"
)

// Finding is an invariant that the store breaks.
type Finding struct {
	Partition int    `json:"partition"`
	Instance  string `json:"instance,omitempty"`
	Rule      string `json:"rule"`
}

// String returns the place and the rule.
func (f Finding) String() string {
	if f.Instance == "" {
		return fmt.Sprintf("partition %d: %s", f.Partition, f.Rule)
	}
	return fmt.Sprintf("instance %s (partition %d): %s", f.Instance, f.Partition, f.Rule)
}

// CheckResult has the counts and the findings of a check.
type CheckResult struct {
	Instances int       `json:"instances"`
	Running   int       `json:"running"`
	Events    uint64    `json:"events"`
	Leases    int       `json:"leases"`
	Unread    int       `json:"unread"`
	Stalled   int       `json:"stalled"`
	Findings  []Finding `json:"findings"`
}

// The check reads a store in use. What seems to break a rule is read again after a pause, and only what persists is a finding.
const (
	checkTries = 4
	checkPause = 250 * time.Millisecond
	// checkParallel bounds the instances that are checked at the same time: their requests travel in common pipelines.
	checkParallel = 256
)

// Checker checks the invariants of one namespace. It writes nothing and may run beside the fleet.
type Checker struct{ *Reader }

// Check runs the check of a Checker.
func (s *Store) Check(ctx context.Context, progress func(done, of int)) (CheckResult, error) {
	return (&Checker{&s.Reader}).Check(ctx, progress)
}

// Check reads the whole namespace and reports every broken invariant:
//
//   - histories decode and keep the rules of history.Check;
//   - a record has the history that it names, and is in the index of its status and no other;
//   - an outstanding activity has its lease, or its completion is unread;
//   - a lease belongs to an outstanding activity;
//   - an execution that has just begun has no history yet, and its start is the first unread input; no later one has a history;
//   - histories and reports are those of the current execution and the one before and, until the current one has committed
//     its first turn, of the one before that;
//   - an instance without a record has nothing but unread inputs: neither history, lease, report nor index entry and, without
//     unread inputs, neither a wakeup nor an entry among the stalled instances;
//   - the outbox watermark lies within the history, and covers every message of it;
//   - early inputs are counted for instances without a record, and their bytes add up;
//   - an instance that must be reconciled (unread inputs, outstanding activities and children, timers, pending messages) has a wakeup.
//
// Instances are checked in parallel, partition by partition. progress, if not nil, is called after each instance.
func (c *Checker) Check(ctx context.Context, progress func(done, of int)) (CheckResult, error) {
	found, err := c.scan(ctx)
	if err != nil {
		return CheckResult{}, err
	}
	var out CheckResult
	total, done := 0, 0
	for part, keys := range found {
		if err := c.addListed(ctx, part, keys); err != nil {
			return CheckResult{}, err
		}
		total += len(keys.instances)
	}
	for _, part := range slices.Sorted(maps.Keys(found)) {
		keys := found[part]
		for _, key := range keys.foreign {
			out.Findings = append(out.Findings, Finding{Partition: part, Rule: "key " + key + " is not one of Pawl's"})
		}
		if err := c.checkInstances(ctx, part, keys.instances, &out, func() {
			if done++; progress != nil {
				progress(done, total)
			}
		}); err != nil {
			return out, err
		}
		stalled, err := c.StalledIDs(ctx, part)
		if err != nil {
			return out, err
		}
		out.Stalled += len(stalled)
		early, err := c.early(ctx, part)
		if err != nil {
			return out, err
		}
		if bad := checkEarly(early); bad != "" {
			out.Findings = append(out.Findings, Finding{Partition: part, Rule: bad})
		}
	}
	return out, nil
}

// checkInstances checks the instances of a partition in parallel, and adds what it finds in the order of their ids.
func (c *Checker) checkInstances(ctx context.Context, part int, instances map[string][]redisx.ParsedKey, out *CheckResult, checked func()) error {
	ids := slices.Sorted(maps.Keys(instances))
	results := make([]CheckResult, len(ids))
	errs := make([]error, len(ids))
	var wg sync.WaitGroup
	var mu sync.Mutex
	slots := make(chan struct{}, checkParallel)
	for i, id := range ids {
		slots <- struct{}{}
		wg.Go(func() {
			errs[i] = c.checkInstance(ctx, part, id, instances[id], &results[i])
			mu.Lock()
			checked()
			mu.Unlock()
			<-slots
		})
	}
	wg.Wait()
	for i := range ids {
		out.add(results[i])
	}
	return errors.Join(errs...)
}

// partitionKeys are the keys of a partition, by instance.
type partitionKeys struct {
	instances map[string][]redisx.ParsedKey // the leases, histories and reports of each
	foreign   []string
}

func (c *Checker) scan(ctx context.Context) (map[int]*partitionKeys, error) {
	var mu sync.Mutex
	found := make(map[int]*partitionKeys)
	take := func(key string) {
		mu.Lock()
		defer mu.Unlock()
		c.addKey(found, key)
	}
	scan := func(ctx context.Context, node redis.Cmdable) error {
		it := node.Scan(ctx, 0, c.space.Pattern(), 1000).Iterator()
		for it.Next(ctx) {
			take(it.Val())
		}
		return it.Err()
	}
	var err error
	if cluster, ok := c.run.Client().(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return scan(ctx, node) })
	} else {
		err = scan(ctx, c.run.Client())
	}
	if err != nil {
		return nil, fmt.Errorf("check: list the keys: %w", err)
	}
	return found, nil
}

// addKey adds a key to those of its partition.
func (c *Checker) addKey(found map[int]*partitionKeys, key string) {
	part, ok := c.space.PartOf(key)
	if !ok {
		return
	}
	keys := found[part]
	if keys == nil {
		keys = &partitionKeys{instances: make(map[string][]redisx.ParsedKey)}
		found[part] = keys
	}
	name, ok := c.space.Part(part).Parse(key)
	switch {
	case !ok:
		keys.foreign = append(keys.foreign, key)
	case name.Kind == "i", name.Kind == "in":
		keys.instances[name.Instance] = append(keys.instances[name.Instance], redisx.ParsedKey{})
	case name.Kind == "h", name.Kind == "l", name.Kind == "r":
		keys.instances[name.Instance] = append(keys.instances[name.Instance], name)
	}
}

// addListed adds the instances of the partition's lists, also those that have no keys of their own.
func (c *Checker) addListed(ctx context.Context, part int, keys *partitionKeys) error {
	p := c.space.Part(part)
	lists := map[string]string{p.Wakeups(): "ZSCAN", p.Stalled(): "HSCAN", p.Early(): "HSCAN"}
	for _, st := range Statuses() {
		lists[p.Index(string(st))] = "ZSCAN"
	}
	for key, scan := range lists {
		if err := c.addMembers(ctx, scan, key, keys); err != nil && !redisx.Refused(err) { // a key of another type is found later
			return fmt.Errorf("check: partition %d: list %s: %w", part, key, err)
		}
	}
	return nil
}

func (c *Checker) addMembers(ctx context.Context, scan, key string, keys *partitionKeys) error {
	for cursor := "0"; ; {
		v, err := c.run.Do(ctx, redisx.Command(scan, key, cursor, "COUNT", 1000))
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
			if _, known := keys.instances[id]; !known && id != "" { // the sum of the early inputs
				keys.instances[id] = nil
			}
		}
		if cursor = r.Str(0); cursor == "0" || r.Err() != nil {
			return r.Err()
		}
	}
}

func (c *Checker) checkInstance(ctx context.Context, part int, id string, keys []redisx.ParsedKey, out *CheckResult) error {
	for try := 1; ; try++ {
		x := &instanceCheck{store: c.Reader, part: part, instance: id, keys: keys, result: CheckResult{Instances: 1}}
		err := x.run(ctx)
		seen, rules := x.result, x.violations
		if redisx.Refused(err) { // a key of another type is a finding
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
	c.Findings = append(c.Findings, x.Findings...)
}
