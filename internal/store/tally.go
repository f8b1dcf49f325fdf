package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
)

// TallyQuery selects instances and defines how they are counted.
type TallyQuery struct {
	ListQuery // position and limit are ignored

	Ungrouped bool // do not group the instances: all are in Tally.Other

	Value func(instance string, _ *record.Record) string // value by which instances are grouped; nil: by status
	Field string                                         // field of Value
	Known []string                                       // likely values: their sets are counted before any record is read
	Until time.Time                                      // time after which no further batch is read; zero: as much is read as for a page
}

// Tally is a number of instances, in total and by value.
type Tally struct {
	Count  uint64
	Groups map[string]uint64 // by value; "": instances without a value
	Other  uint64            // the part of Count that is in no group, because the values were not read
	More   bool              // more instances may pass: the maximum number of members or records of a page was read
}

// tally counts with the plan of a list:
//
//	sets decide who passes ──count──▶ Count ──sets of the known values──▶ their sum is Count: done
//	otherwise                                                       ╰─▶ page, read records, count the sets of the values found
//	one term, any status   ──its size──▶ Count ──▶ page: its groups, as far as it is read
//	the same, ungrouped    ──its size──▶ Count: done
//	few of a term, any status, ungrouped ──▶ members of the sets of the other terms, no statuses
//
// So a field with few values costs at most a page, and a count by status reads no record unless a list would read it. Reads are
// bounded like those of a page of a list.
type tally struct {
	*plan

	q      *TallyQuery
	out    Tally
	sum    uint64            // total of the groups in sets
	sets   map[string]uint64 // by value, the size of its set; nil: the sets of values do not decide
	read   map[string]uint64 // by value, the number of instances that were read
	counts bool              // Count comes from the sizes of sets
}

// Tally counts the instances of a query.
func (s *Reader) Tally(ctx context.Context, part int, q *TallyQuery) (Tally, error) {
	q.brief, q.anyStatus = !q.Until.IsZero(), q.Ungrouped
	plan, err := s.newPlan(ctx, part, &q.ListQuery)
	if err != nil {
		return Tally{}, err
	}
	t := &tally{plan: plan, q: q, read: make(map[string]uint64)}
	unselected := len(plan.tests) == 0 && q.Prefix == ""
	switch t.counts = !plan.byIDs && q.Pick == nil && q.Keep == nil && (unselected || plan.decides); {
	case !t.counts:
	case unselected:
		done, err := t.countSets(ctx)
		if done || err != nil {
			return t.ungrouped(), err
		}
	default:
		if t.out.Count = uint64(plan.selected); q.Ungrouped { //nolint:gosec // a size
			return t.ungrouped(), nil
		}
	}
	if err := t.readPages(ctx); err != nil {
		return Tally{}, err
	}
	t.result()
	return t.ungrouped(), nil
}

// ungrouped returns the result, without its groups if the query is ungrouped.
func (t *tally) ungrouped() Tally {
	if t.q.Ungrouped {
		t.out.Groups, t.out.Other = nil, t.out.Count
	}
	return t.out
}

// countSets counts the sets of the plan and those of the known values. done: nothing else needs to be read.
func (t *tally) countSets(ctx context.Context) (done bool, _ error) {
	byStatus := make([]int64, len(t.plan.sets))
	var round readRound
	for i, set := range t.plan.sets {
		round.sum(t.countCall(set), &byStatus[i])
	}
	if err := round.do(ctx, t.reader.run); err != nil {
		return false, fmt.Errorf("partition %d: count instances: %w", t.part, err)
	}
	t.out.Groups = make(map[string]uint64)
	for i, set := range t.plan.sets {
		n := uint64(byStatus[i]) //nolint:gosec // a size
		if t.out.Count += n; n > 0 {
			t.out.Groups[string(set.status)] += n
		}
	}
	if t.q.Value == nil {
		return true, nil
	}
	t.out.Groups = nil
	if !t.everything() { // the sets of the field contain other instances, too
		return false, nil
	}
	t.sets = make(map[string]uint64)
	err := t.countValues(ctx, t.q.Known)
	if t.complete() {
		t.result()
	}
	return t.complete(), err
}

// maxGroupSets is the maximum number of values whose sets are counted.
const maxGroupSets = 200

// countValues counts the sets of those values that were not counted yet.
func (t *tally) countValues(ctx context.Context, values []string) error {
	var round readRound
	found := make(map[string]*int64)
	for _, v := range values {
		if _, counted := t.sets[v]; counted || found[v] != nil || !record.Indexed(v) || len(t.sets)+len(found) >= maxGroupSets {
			continue
		}
		found[v] = new(int64)
		round.sum(redisx.Command("ZCARD", t.reader.space.Part(t.part).Values(t.q.Field, v)), found[v])
	}
	if err := round.do(ctx, t.reader.run); err != nil {
		return fmt.Errorf("partition %d: count instances by %s: %w", t.part, t.q.Field, err)
	}
	for v, n := range found {
		t.sets[v] = uint64(*n) //nolint:gosec // a size
		t.sum += t.sets[v]
	}
	return nil
}

// complete reports whether the counted sets of values contain all instances.
func (t *tally) complete() bool { return t.sets != nil && t.sum >= t.out.Count }

const (
	maxTallied = 20_000 // members that are counted without reading their records
	firstBatch = 32     // first batch of a count whose time is bounded; each partition reads at least one batch
)

// reads reports whether records are read, not only members of sets.
func (t *tally) reads() bool { return t.q.Keep != nil || t.q.Value != nil }

// bounds returns how many members are read in the first batch and in total, and until when; zero: no time limit.
func (t *tally) bounds() (batch, members int, until time.Time) {
	batch, members = maxBatch, maxTallied
	if t.reads() {
		members = maxMembers
	}
	if !t.q.Until.IsZero() && (t.reads() || !t.byIDs) { // otherwise the plan has already read them
		batch, until = firstBatch, t.q.Until
	}
	return batch, members, until
}

// readPages reads as much as a page of a list may read, and more if it reads no records.
func (t *tally) readPages(ctx context.Context) error {
	var at Page
	batch, bound, until := t.bounds()
	for records, members := 0, 0; ; batch = min(2*batch, maxBatch) {
		rows, end, err := t.next(ctx, at, batch)
		if err != nil {
			return err
		}
		picked, err := t.pick(ctx, rows)
		if err != nil {
			return err
		}
		if t.reads() {
			if room := maxScan - records; len(picked) > room {
				picked, end = picked[:room], false
			}
			picked = slices.Clone(picked)
			if err := t.reader.fill(ctx, picked, func(int) int { return t.part }); err != nil {
				return err
			}
			records += len(picked)
		}
		found := t.add(picked)
		if members += len(rows); len(rows) > 0 {
			at.Updated, at.Instance = rows[len(rows)-1].Updated, rows[len(rows)-1].Instance
		}
		if end {
			t.sets, t.counts = nil, false // everything was read
			return nil
		}
		if t.sets != nil {
			if err := t.countValues(ctx, found); err != nil || t.complete() {
				return err
			}
		}
		if records >= maxScan || members >= bound || !until.IsZero() && time.Now().After(until) {
			t.out.More = !t.counts
			return nil
		}
	}
}

// add counts rows, and returns the values that are new.
func (t *tally) add(rows []Row) (values []string) {
	for i := range rows {
		row := &rows[i]
		v := string(row.Status)
		if t.reads() {
			if row.Record == nil || t.q.Keep != nil && !t.q.Keep(row.Instance, row.Record) { // a record that cannot be read has no values
				continue
			}
		}
		if t.q.Value != nil {
			v = t.q.Value(row.Instance, row.Record)
		}
		if t.read[v]++; t.read[v] == 1 {
			values = append(values, v)
		}
	}
	return values
}

// result combines the counts of sets with those of the rows that were read.
func (t *tally) result() {
	groups, sum := t.read, uint64(0)
	for v, n := range t.sets {
		if groups[v] = n; n == 0 {
			delete(groups, v)
		}
	}
	for _, n := range groups {
		sum += n
	}
	if t.out.Groups = groups; t.counts && t.out.Count > sum {
		t.out.Other = t.out.Count - sum
	} else {
		t.out.Count = sum
	}
}
