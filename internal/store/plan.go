package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
)

// plan finds the rows of a list, either by walking through the statuses or by looking up the members of its smallest term:
//
//	statuses, in their order ──pages──▶ members of the sets of every term ──▶ records
//	the smallest term        ──ids────▶ their statuses and members of the sets of the other terms ──in order──▶ records
//
// The sets of values are not sorted like lists, and contain no status, so that the end of an instance need not write them. Looking up
// all members of a small term is cheaper than walking through statuses of which few members pass; newPlan compares the two costs.
type plan struct {
	reader *Reader

	part  int
	q     *ListQuery
	sets  []statusSet // the sets to walk through
	rows  []Row       // used instead of sets: the rows that were looked up, in order
	byIDs bool
	tests []*term // tests that a row must pass
	// expect is the number of members of the statuses among which three times the rows of a page are expected, because a list waits for
	// the slowest of its partitions; 0: all members pass.
	expect int
	// selected is the size of the smallest term, if the statuses are walked through. decides: the sets alone decide which instances the
	// query selects.
	selected   int64
	decides    bool
	statusless bool // rows need no status
}

// statusSet is the set of the instances with a status, sorted by the time at which they reached it.
type statusSet struct {
	status record.Status
	key    string
}

const (
	// MaxSets is the maximum number of values of a term in ListQuery.Values. Each value has a set.
	MaxSets     = 64
	maxIDs      = 2_000 // maximum number of ids that are looked up
	maxBriefIDs = 200   // the same, for a count whose time is bounded
	fewIDs      = 64    // number of ids up to which a term is looked up without counting first
	maxNames    = 1_000 // maximum number of orchestrations whose sets are read for a prefix of ids
	minWalk     = 16    // minimum number of members that are read per status, if not all pass
)

// newPlan chooses how to find the rows.
func (s *Reader) newPlan(ctx context.Context, part int, q *ListQuery) (*plan, error) {
	p := &plan{reader: s, part: part, q: q}
	for _, st := range q.Statuses {
		p.sets = append(p.sets, statusSet{st, s.space.Part(part).Index(string(st))})
	}
	terms, err := p.terms(ctx)
	if err != nil {
		return nil, err
	}
	if q.IDs != nil {
		p.test(terms, nil)
		return p, p.lookUp(ctx, slices.Compact(slices.Sorted(slices.Values(q.IDs))))
	}
	if len(terms) == 0 {
		return p, nil
	}
	p.decides, p.statusless = p.counted(terms), q.anyStatus && p.everything()
	if p.decides && p.statusless {
		var round readRound
		terms[0].size(&round)
		if err := round.do(ctx, p.reader.run); err != nil {
			return nil, fmt.Errorf("partition %d: count a term: %w", part, err)
		}
		p.test(terms, nil)
		p.selected = terms[0].n
		return p, nil
	}
	few, ids, err := p.few(ctx, terms)
	if err != nil {
		return nil, err
	}
	if few != nil {
		p.test(terms, few)
		return p, p.lookUp(ctx, ids)
	}
	members, err := p.count(ctx, terms)
	if err != nil {
		return nil, err
	}
	best := slices.MinFunc(terms, func(a, b *term) int { return cmp.Compare(a.n, b.n) })
	bound := int64(maxIDs)
	if q.brief {
		bound = maxBriefIDs
	}
	if best.n > bound || p.lookUpCost(best.n) > p.walkCost(best.n, members, terms) {
		p.test(terms, nil)
		p.selected = best.n
		p.expect = int(min(max(int64(p.q.Limit)*members/max(best.n, 1)*3, minWalk), maxPage))
		return p, nil
	}
	p.test(terms, best)
	var round readRound
	best.read(&round, 0, &ids)
	if err := round.do(ctx, p.reader.run); err != nil {
		return nil, fmt.Errorf("partition %d: list ids: %w", part, err)
	}
	return p, p.lookUp(ctx, ids)
}

// counted reports whether the number of rows equals the number of members of the only term.
func (p *plan) counted(terms []*term) bool {
	return len(terms) == 1 && (p.q.Prefix == "" || !terms[0].numbers) && p.q.Pick == nil && p.q.Keep == nil && p.everything()
}

// test adds the tests of all terms except one, whose members the rows are.
func (p *plan) test(terms []*term, except *term) {
	for _, t := range terms {
		if t != except && len(t.tests) > 0 {
			p.tests = append(p.tests, t)
		}
	}
}

// few returns the smallest term and its ids if it has at most fewIDs: most filters that people type contain a value that few instances
// have, and those are found in one round trip. It returns nil if no term is that small.
func (p *plan) few(ctx context.Context, terms []*term) (best *term, ids []string, _ error) {
	found := make([][]string, len(terms))
	var round readRound
	narrow := slices.ContainsFunc(terms, func(t *term) bool { return !t.broad })
	probed := func(t *term) bool { return len(t.sets) <= fewIDs && (!narrow || !t.broad) }
	for i, t := range terms {
		if probed(t) {
			t.read(&round, fewIDs+1, &found[i])
		}
	}
	if err := round.do(ctx, p.reader.run); err != nil {
		return nil, nil, fmt.Errorf("partition %d: list ids: %w", p.part, err)
	}
	for i, t := range terms {
		if n := len(found[i]); probed(t) && n <= fewIDs && (best == nil || n < len(ids)) {
			best, ids = t, found[i]
		}
	}
	return best, ids, nil
}

// batch returns the number of members that are read first.
func (p *plan) batch() int {
	switch {
	case p.expect > 0:
		return p.expect
	case p.q.Keep != nil || len(p.tests) > 0 || p.q.Prefix != "":
		return min(recordsPerRow*p.q.Limit, maxPage)
	default:
		return p.q.Limit
	}
}

// lookUpCost and walkCost estimate the cost of a page, or without a limit of the whole list, in members that are read or looked up. A
// term selects n of `members` instances.
func (p *plan) lookUpCost(n int64) int64 {
	if p.statusless {
		return n
	}
	return n * int64(1+len(p.sets))
}

func (p *plan) walkCost(n, members int64, terms []*term) int64 {
	if p.q.Limit > 0 {
		members = min(members, int64(p.q.Limit)*members/max(n, 1))
	}
	return members * int64(1+setsOf(terms))
}

// setsOf returns the number of sets in which each row is looked up.
func setsOf(terms []*term) (n int) {
	for _, t := range terms {
		n += len(t.tests)
	}
	return n
}

// term is a criterion of a list: values of a field, ids with a prefix, or a range of numbers.
type term struct {
	tests []memberTest // a row must be in one of these sets; none: ids are compared
	sets  []idSet      // sets that together contain the members, each once
	n     int64

	numbers bool // the sets contain numbers, from which a prefix cannot select
	broad   bool // the field has few values, so its sets are large
}

// memberTest is a set that must contain a row, with a score between from and until, both included.
type memberTest struct {
	key         string
	from, until float64
}

// idSet is a set, or a part of a set, that is not sorted like lists.
type idSet struct{ count, read redisx.Call }

// size adds the requests for the number of members.
func (t *term) size(round *readRound) {
	for _, set := range t.sets {
		round.sum(set.count, &t.n)
	}
}

// read adds the requests for the members of each set, at most limit per set (0: all).
func (t *term) read(round *readRound, limit int, ids *[]string) {
	for _, set := range t.sets {
		call := set.read
		if limit > 0 {
			call.Args = append(slices.Clip(call.Args), "LIMIT", 0, limit)
		}
		round.add(call, func(v any, err error) error {
			if err != nil {
				return err
			}
			r := redisx.NewReply([]any{v})
			*ids = append(*ids, r.Strs(0)...)
			return r.Err()
		})
	}
}

// ranged adds the members of a set whose scores are in a range.
func (t *term) ranged(key string, from, until int64) {
	t.numbers = true
	t.sets = append(t.sets, idSet{redisx.Command("ZCOUNT", key, from, until), redisx.Command("ZRANGEBYSCORE", key, from, until)})
	t.tests = append(t.tests, memberTest{key, float64(from), float64(until)})
}

// terms returns the terms of the query. Sets of values are sorted by id, so a prefix selects a part of each. Because clients can add names
// to the set of orchestrations, which only grows, a prefix alone is not a term if that set has more than maxNames names.
func (p *plan) terms(ctx context.Context) (all []*term, _ error) {
	keys := p.reader.space.Part(p.part)
	from, until := "-", "+"
	if p.q.Prefix != "" {
		from, until = "["+p.q.Prefix, "("+p.q.Prefix+"\xff"
	}
	of := func(t *term, field string, each []string) {
		for _, v := range each {
			key := keys.Values(field, v)
			count := redisx.Command("ZCARD", key)
			if p.q.Prefix != "" {
				count = redisx.Command("ZLEXCOUNT", key, from, until)
			}
			t.sets = append(t.sets, idSet{count, redisx.Command("ZRANGEBYLEX", key, from, until)})
		}
		all = append(all, t)
	}
	for i := range p.q.Values {
		v := &p.q.Values[i]
		t := &term{broad: v.Field == record.FieldOrchestration || v.Field == record.FieldVersion}
		for _, n := range v.Numbers {
			t.ranged(keys.Numbers(v.Field), n, n)
		}
		for _, text := range v.Of {
			t.tests = append(t.tests, memberTest{keys.Values(v.Field, text), 0, 0})
		}
		of(t, v.Field, v.Of)
	}
	for _, r := range p.q.Ranges {
		t := new(term)
		t.ranged(keys.Numbers(r.Field), r.From, r.Until)
		all = append(all, t)
	}
	if p.q.Prefix == "" || len(p.q.Values) > 0 || p.q.IDs != nil {
		return all, nil
	}
	names, err := p.reader.strs(ctx, redisx.Command("ZRANGE", keys.Orchestrations(), 0, maxNames))
	if err != nil {
		return nil, fmt.Errorf("partition %d: list the orchestrations: %w", p.part, err)
	}
	if len(names) <= maxNames {
		of(new(term), record.FieldOrchestration, names)
	}
	return all, nil
}

// count counts the members of the terms, and the instances with one of the statuses in its span of time.
func (p *plan) count(ctx context.Context, terms []*term) (members int64, _ error) {
	var round readRound
	for _, t := range terms {
		t.size(&round)
	}
	for _, set := range p.sets {
		round.sum(p.countCall(set), &members)
	}
	if err := round.do(ctx, p.reader.run); err != nil {
		return 0, fmt.Errorf("partition %d: count the terms of a list: %w", p.part, err)
	}
	return members, nil
}

// countCall returns the call that counts the members of the set of a status in its span of time.
func (p *plan) countCall(set statusSet) redisx.Call {
	if p.anyTime(set) {
		return redisx.Command("ZCARD", set.key)
	}
	from, until := p.span(set.status)
	return redisx.Command("ZCOUNT", set.key, from, until)
}

// everything reports whether the query selects all statuses, at any time.
func (p *plan) everything() bool {
	return len(p.sets) == len(record.Statuses()) && !slices.ContainsFunc(p.sets, func(set statusSet) bool { return !p.anyTime(set) })
}

func (p *plan) anyTime(set statusSet) bool {
	from, until := p.span(set.status)
	return from <= 0 && until >= maxTime
}

// maxTime is the last time that RFC 3339 can express, Unix ms.
const maxTime = 253_402_300_799_999

func (p *plan) span(st record.Status) (from, until int64) {
	if p.q.Span == nil {
		return 0, maxTime
	}
	return p.q.Span(st)
}

// lookUp turns ids into rows, and applies the tests in one round trip. If there are too many lookups, the tests are left to pick, which
// applies them to the rows of a page only. Instances that have none of the statuses are omitted; if statuses do not matter, the set of a
// value contains no other instances.
func (p *plan) lookUp(ctx context.Context, ids []string) error {
	p.byIDs = true
	rows, args := make([]Row, len(ids)), arguments(ids)
	var round readRound
	if p.statusless {
		for i, id := range ids {
			rows[i].Instance = id
		}
	} else {
		p.statuses(&round, ids, args, rows)
	}
	now, later := p.tests, []*term(nil)
	if len(ids)*setsOf(p.tests) > maxIDs {
		now, later = nil, p.tests
	}
	passed := p.pass(&round, now, args)
	if err := round.do(ctx, p.reader.run); err != nil {
		return fmt.Errorf("partition %d: list ids: %w", p.part, err)
	}
	for i, row := range rows {
		if row.Instance != "" && passed[i] == len(now) {
			p.rows = append(p.rows, row)
		}
	}
	p.tests = later
	p.q.sort(p.rows)
	return nil
}

// statuses creates the rows of the ids that have one of the statuses, in its span of time.
func (p *plan) statuses(round *readRound, ids []string, args []any, rows []Row) {
	for _, set := range p.sets {
		from, until := p.span(set.status)
		p.members(round, set.key, args, func(i int, at float64) {
			if row := (Row{Instance: ids[i], Status: set.status, Updated: int64(at)}); row.Updated >= from && row.Updated <= until {
				rows[i] = row
			}
		})
	}
}

// pass returns how many of the tests each id passes.
func (p *plan) pass(round *readRound, tests []*term, ids []any) (passed []int) {
	passed = make([]int, len(ids))
	for _, t := range tests {
		for _, set := range t.tests {
			p.members(round, set.key, ids, func(i int, score float64) {
				if set.from <= score && score <= set.until {
					passed[i]++ // an instance has one value of a field, so it is in one set
				}
			})
		}
	}
	return passed
}

// arguments converts ids to command arguments, once for all sets.
func arguments(ids []string) []any {
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	return args
}

// members calls found for each of the ids that is in a set.
func (p *plan) members(round *readRound, key string, ids []any, found func(i int, score float64)) {
	for from := 0; from < len(ids); from += maxBatch {
		batch := ids[from:min(from+maxBatch, len(ids))]
		call := redisx.Command("ZMSCORE", key)
		call.Args = append(slices.Grow(call.Args, len(batch)), batch...)
		round.add(call, func(v any, err error) error {
			if err != nil {
				return err
			}
			scores, ok := v.([]any)
			if !ok || len(scores) != len(batch) {
				return fmt.Errorf("%w: %T", redisx.ErrReply, v)
			}
			for i, v := range scores {
				if v == nil {
					continue
				}
				at, err := score(v)
				if err != nil {
					return err
				}
				found(from+i, at)
			}
			return nil
		})
	}
}

// next reads the next n rows after a position, and reports whether they are the last ones.
func (p *plan) next(ctx context.Context, after Page, n int) (rows []Row, end bool, _ error) {
	if p.byIDs {
		at := 0
		for at < len(p.rows) && !p.q.after(&p.rows[at], after) {
			at++
		}
		p.rows = p.rows[at:]
		return slices.Clone(p.rows[:min(n, len(p.rows))]), len(p.rows) <= n, nil
	}
	heads := make([]head, len(p.sets))
	var round readRound
	for i := range heads {
		p.read(&round, &p.sets[i], after, 0, n, &heads[i])
	}
	if err := round.do(ctx, p.reader.run); err != nil {
		return nil, false, fmt.Errorf("partition %d: list: %w", p.part, err)
	}
	var last *Row // the members of the sets after this row are not known
	for i := range heads {
		h := &heads[i]
		// Members before the position with the same millisecond are read again and skipped.
		for offset := n; h.more && len(h.rows) == 0; offset += n {
			p.read(&round, &p.sets[i], after, offset, n, h)
			if err := round.do(ctx, p.reader.run); err != nil {
				return nil, false, fmt.Errorf("partition %d: list: %w", p.part, err)
			}
		}
		rows = append(rows, h.rows...)
		if h.more && (last == nil || p.q.after(last, h.rows[len(h.rows)-1].place())) {
			last = &h.rows[len(h.rows)-1]
		}
	}
	if len(heads) > 1 {
		p.q.sort(rows)
	}
	if last != nil {
		rows = upTo(rows, last.Instance)
	}
	return rows[:min(n, len(rows))], last == nil && len(rows) <= n, nil
}

// head is the part of a set that was read.
type head struct {
	rows []Row // rows after the position
	more bool  // the set may have more members
}

func (p *plan) read(round *readRound, set *statusSet, after Page, offset, n int, into *head) {
	from, until := p.span(set.status)
	var command redisx.Call
	if p.q.Oldest {
		command = redisx.Command("ZRANGEBYSCORE", set.key, max(from, after.Updated), until, "WITHSCORES", "LIMIT", offset, n)
	} else {
		if after.Instance != "" {
			until = min(until, after.Updated)
		}
		command = redisx.Command("ZREVRANGEBYSCORE", set.key, until, from, "WITHSCORES", "LIMIT", offset, n)
	}
	round.add(command, func(v any, err error) error {
		if err != nil {
			return err
		}
		members, err := scored(v)
		into.more = len(members) == n
		for _, m := range members {
			if p.q.after(&m, after) {
				m.Status = set.status
				into.rows = append(into.rows, m)
			}
		}
		return err
	})
}

func (r *Row) place() Page { return Page{Updated: r.Updated, Instance: r.Instance} }

// pick returns the rows that pass the criteria that do not require records.
func (p *plan) pick(ctx context.Context, rows []Row) ([]Row, error) {
	picked := slices.DeleteFunc(slices.Clone(rows), func(r Row) bool {
		return !strings.HasPrefix(r.Instance, p.q.Prefix) || p.q.Pick != nil && !p.q.Pick(r.Instance)
	})
	if len(p.tests) == 0 || len(picked) == 0 {
		return picked, nil
	}
	ids := make([]any, len(picked))
	for i := range picked {
		ids[i] = picked[i].Instance
	}
	var round readRound
	passed := p.pass(&round, p.tests, ids)
	if err := round.do(ctx, p.reader.run); err != nil {
		return nil, fmt.Errorf("partition %d: look up the members of a list: %w", p.part, err)
	}
	var all []Row
	for i, row := range picked {
		if passed[i] == len(p.tests) {
			all = append(all, row)
		}
	}
	return all, nil
}
