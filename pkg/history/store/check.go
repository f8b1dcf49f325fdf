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
	"github.com/pawlrun/pawl/pkg/history"
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
type Checked struct {
	Instances int       `json:"instances"`
	Running   int       `json:"running"`
	Events    uint64    `json:"events"`
	Leases    int       `json:"leases"`
	Unread    int       `json:"unread"`
	Stuck     int       `json:"stuck"`
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
//   - what must be looked at (unread inputs, outstanding activities, timers) is on the agenda.
//
// It writes nothing and may run beside the fleet. progress, if not nil, is called after each instance.
func (s *Store) Check(ctx context.Context, progress func(done, of int)) (Checked, error) {
	found, err := s.census(ctx)
	if err != nil {
		return Checked{}, err
	}
	var out Checked
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
			if err := s.checkOne(ctx, part, id, p.instances[id], &out); err != nil {
				return out, err
			}
			if done++; progress != nil {
				progress(done, total)
			}
		}
		stuck, err := s.Stuck(ctx, part)
		if err != nil {
			return out, err
		}
		out.Stuck += len(stuck)
	}
	return out, nil
}

// census is what keys a partition has, by instance.
type census struct {
	instances map[string][]redisx.Name // the leases and histories of each
	foreign   []string
}

func (s *Store) census(ctx context.Context) (map[int]*census, error) {
	var mu sync.Mutex
	found := make(map[int]*census)
	take := func(key string) {
		mu.Lock()
		defer mu.Unlock()
		s.count(found, key)
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
func (s *Store) count(found map[int]*census, key string) {
	part, ok := s.space.PartOf(key)
	if !ok {
		return
	}
	c := found[part]
	if c == nil {
		c = &census{instances: make(map[string][]redisx.Name)}
		found[part] = c
	}
	name, ok := s.space.Part(part).Parse(key)
	switch {
	case !ok:
		c.foreign = append(c.foreign, key)
	case name.Kind == "i", name.Kind == "in":
		c.instances[name.Instance] = append(c.instances[name.Instance], redisx.Name{})
	case name.Kind == "h", name.Kind == "l":
		c.instances[name.Instance] = append(c.instances[name.Instance], name)
	}
}

func (s *Store) checkOne(ctx context.Context, part int, id string, keys []redisx.Name, out *Checked) error {
	for try := 1; ; try++ {
		seen, rules, err := s.examine(ctx, part, id, keys)
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

func (c *Checked) add(x Checked) {
	c.Instances += x.Instances
	c.Running += x.Running
	c.Events += x.Events
	c.Leases += x.Leases
	c.Unread += x.Unread
}

// examine reads one instance and gives the rules it breaks.
func (s *Store) examine(ctx context.Context, part int, id string, keys []redisx.Name) (Checked, []string, error) {
	seen := Checked{Instances: 1}
	l, err := s.Load(ctx, part, id)
	if errors.Is(err, history.ErrCorrupt) || errors.Is(err, history.ErrNewerVersion) {
		return seen, []string{err.Error()}, nil
	}
	if err != nil {
		return seen, nil, err
	}
	var rules []string
	rule := func(format string, args ...any) { rules = append(rules, fmt.Sprintf(format, args...)) }
	seen.Unread = len(l.Unread)
	if l.Record != nil && len(l.Events) == 0 && l.Record.Status.Ended() {
		if l.Events, err = s.History(ctx, part, id, l.Record.Execution); err != nil {
			return seen, []string{err.Error()}, nil //nolint:nilerr // what can not be read is a finding
		}
	}
	state, bad := history.Check(l.Events)
	for _, b := range bad {
		rule("history: %v", b)
	}
	seen.Events = state.Len
	s.checkRecord(ctx, part, id, l.Record, state, rule)
	seen.Leases, err = s.checkLeases(ctx, part, id, l, state, keys, rule)
	if err != nil {
		return seen, nil, err
	}
	if l.Record != nil && !l.Record.Status.Ended() {
		seen.Running = 1
	}
	due := len(l.Unread) > 0 || state.End == nil && (state.OutstandingLen() > 0 || state.TimerLen() > 0)
	v, err := s.run.Do(ctx, redisx.Command("ZSCORE", s.space.Part(part).Agenda(), id))
	if err != nil {
		return seen, nil, fmt.Errorf("check: instance %s: %w", id, err)
	}
	if due && v == nil {
		rule("is not on the agenda, with %d unread, %d activities outstanding and %d timers", len(l.Unread), state.OutstandingLen(), state.TimerLen())
	}
	return seen, rules, nil
}

// checkRecord compares the record with the history, and the indexes with the record.
func (s *Store) checkRecord(ctx context.Context, part int, id string, rec *Record, state *history.State, rule func(string, ...any)) {
	if rec == nil {
		if state.Len > 0 {
			rule("has a history of %d events and no record", state.Len)
		}
		return
	}
	switch {
	case state.Started == nil:
		rule("has a record and no history")
	case state.Started.Name != rec.Name || state.Started.Born != rec.Born || state.Started.Execution != rec.Execution:
		rule("the record is of another start than the history")
	case rec.Status.Ended() != (state.End != nil):
		rule("status is %s, and the history has ended: %v", rec.Status, state.End != nil)
	}
	for _, st := range Statuses() {
		v, err := s.run.Do(ctx, redisx.Command("ZSCORE", s.space.Part(part).Index(string(st)), id))
		if err != nil {
			rule("index %s can not be read: %v", st, err)
		} else if (v != nil) != (st == rec.Status) {
			rule("status is %s; in the index of %s: %v", rec.Status, st, v != nil)
		}
	}
}

// checkLeases compares the leases with what is outstanding.
func (s *Store) checkLeases(ctx context.Context, part int, id string, l Loaded, state *history.State, keys []redisx.Name, rule func(string, ...any)) (int, error) {
	p := s.space.Part(part)
	unread := make(map[uint64]bool)
	all, err := s.Inbox(ctx, part, id)
	if err != nil {
		return 0, err
	}
	for _, raw := range append(all, l.Unread...) {
		if el, err := history.ParseElement(raw); err == nil {
			if ev, err := el.Event(); err == nil {
				unread[completes(ev)] = true
			}
		}
	}
	effect := func(n redisx.Name) (string, error) {
		v, err := s.run.Do(ctx, redisx.Command("HGET", p.Lease(n.Instance, n.Execution, n.Activity), "e"))
		if err != nil {
			return "", fmt.Errorf("check: instance %s: lease of activity %d: %w", id, n.Activity, err)
		}
		return redisx.Str(v)
	}
	count := 0
	for _, a := range state.Outstanding() {
		got, err := effect(redisx.Name{Instance: id, Execution: l.Record.execution(), Activity: a})
		if err != nil {
			return count, err
		}
		switch want := state.Activity(a).Effect; {
		case got == want:
			count++
		case got == "" && !unread[a]:
			rule("activity %d (%s) is outstanding, and has neither lease nor unread completion", a, state.Activity(a).Name)
		case got != "":
			rule("activity %d (%s) has the lease of another effect", a, state.Activity(a).Name)
		}
	}
	for _, n := range keys {
		if n.Kind != "l" || n.Execution == l.Record.execution() && state.Activity(n.Activity) != nil {
			continue
		}
		if got, err := effect(n); err != nil {
			return count, err
		} else if got != "" {
			rule("lease of activity %d of execution %d belongs to nothing outstanding", n.Activity, n.Execution)
		}
	}
	return count, nil
}

// execution is the current one, 0 without a record.
func (r *Record) execution() uint64 {
	if r == nil {
		return 0
	}
	return r.Execution
}

func completes(ev history.Event) uint64 {
	switch ev := ev.(type) {
	case *history.ActivityCompleted:
		return ev.Scheduled
	case *history.ActivityFailed:
		return ev.Scheduled
	default:
		return 0
	}
}
