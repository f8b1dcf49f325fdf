package client

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/internal/request"
)

// CountOptions select and group the instances to count. The zero value counts all.
type CountOptions struct {
	Where string // filter, as in ListOptions; "": all
	By    string // status, orchestration, version, parent, code, or the name of an attribute; "": no groups

	// Within is the time for which owners may read instances; then they return the number so far, and AtLeast is set. Default 0: no
	// bound, which takes seconds with a million instances. Numbers that are counted by sets are always exact.
	Within time.Duration

	// EndedSince contains at most 4 times; Counts.Ended reports how many instances have ended since each. Only valid with By status and
	// without Where.
	EndedSince []time.Time
}

// Counts is the result of Count.
type Counts struct {
	Count   uint64            // instances that pass the filter
	AtLeast bool              // there may be more: a partition has reached the maximum that it reads for one request
	Groups  []Group           // numbers by value of the field, the largest first; values without instances are omitted
	Other   uint64            // instances in Count but in no group, because their values were not read
	Status  map[Status]uint64 // number of every status; only with By status
	Stalled uint64            // stalled instances; only with By status and without Where

	Ended []map[Status]uint64 // for each of CountOptions.EndedSince: the number of instances that have ended since, by status
}

// Group is the number of instances with one value of the field.
type Group struct {
	Value string // "": not set
	Count uint64
}

// Count counts instances. Without a filter, and with a single term with = or in on the status, orchestration, version, parent, code or an
// attribute, it counts sets and reads no instances; so does a count by one of these fields if it has few values. A count without By costs
// least: one command per partition for one term, and two for several terms if one of them matches few instances there. With other filters
// each partition reads at most 20,000 instances, or 4,000 instances and the records of 1,000 if sets do not decide; Count sets AtLeast if
// there were more.
//
// Purged instances are not counted. All partitions are requested concurrently. If some do not answer, Count returns the numbers of the
// others together with an error that matches ErrNoOwner. The result is not a snapshot. Other errors: those of an invalid Where or By.
func (c *Client) Count(ctx context.Context, o CountOptions) (Counts, error) {
	where, err := filter.Parse(o.Where, time.Now())
	if err != nil {
		return Counts{}, fmt.Errorf("client: count: where: %w", err)
	}
	by, err := filter.Grouping(o.By)
	if err != nil {
		return Counts{}, fmt.Errorf("client: count: by: %w", err)
	}
	sources := opened(ctx, sourcesOf(c.groups.of(c.partitions()), func(ctx context.Context, partitions []int, _ string) ([]request.Counts, string, []int, error) {
		q := &request.Count{Where: where.Fixed().String(), By: string(by), Within: milliseconds(o.Within), Partitions: several(partitions)}
		for _, t := range o.EndedSince {
			q.Since = append(q.Since, unixMilli(t))
		}
		var r request.Counts
		err := c.requestOf(ctx, partitions, q, &r)
		return []request.Counts{r}, "", r.NotOwned, err
	}, 0))
	keepGroups(&c.groups, sources)
	var all []request.Counts
	for _, s := range sources {
		all = append(all, s.rows...)
	}
	return mergedCounts(all, by, len(o.EndedSince)), missing(sources, c.partitions())
}

// milliseconds converts a bound to milliseconds, rounded up to 1; 0: none.
func milliseconds(d time.Duration) uint64 {
	if d <= 0 {
		return 0
	}
	return uint64(max(d.Milliseconds(), 1))
}

// mergedCounts adds up the counts of the partitions.
func mergedCounts(all []request.Counts, by filter.Field, times int) Counts {
	var sum Counts
	groups := make(map[string]uint64)
	for range times {
		sum.Ended = append(sum.Ended, map[Status]uint64{Completed: 0, Failed: 0, Cancelled: 0})
	}
	for _, r := range all {
		for _, g := range r.Groups {
			groups[g.Value] += g.Count
			sum.Count += g.Count
			for i := range min(len(g.Since), times) {
				sum.Ended[i][Status(g.Value)] += g.Since[i]
			}
		}
		sum.Count += r.Other
		sum.Other += r.Other
		sum.Stalled += r.Stalled
		sum.AtLeast = sum.AtLeast || r.More
	}
	if by == filter.Status {
		sum.Status = map[Status]uint64{Pending: 0, Running: 0, Paused: 0, Completed: 0, Failed: 0, Cancelled: 0}
	}
	if by == "" { // there are no groups
		sum.Other = 0
	}
	for v, n := range groups {
		if by == filter.Status {
			sum.Status[Status(v)] = n
		}
		if n > 0 {
			sum.Groups = append(sum.Groups, Group{v, n})
		}
	}
	slices.SortFunc(sum.Groups, func(a, b Group) int { return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Value, b.Value)) })
	return sum
}
