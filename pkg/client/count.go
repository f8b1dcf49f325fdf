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

// CountOptions select the instances that are counted. The zero value counts all.
type CountOptions struct {
	Where string // a filter, as in ListOptions; "": all
	By    string // status, orchestration, version, parent, code, or the name of an attribute; "": only Counts.Count

	// Within bounds how long the owners read instances: what they have counted by then is reported as AtLeast. 0: as long as they may,
	// which is seconds among a million instances. What sets count is exact also then.
	Within time.Duration

	// EndedSince are at most 4 times, of which Counts.Ended reports how many instances have ended since. Only by status, without Where.
	EndedSince []time.Time
}

// Counts are numbers of instances.
type Counts struct {
	Count   uint64            // that pass the filter
	AtLeast bool              // there may be more: a partition has read as many instances as it may for a request
	Groups  []Group           // by the field, the largest first; values that no instance has are left out
	Other   uint64            // of Count, those that are in no group: their values were not read
	Status  map[Status]uint64 // every status, if the field is the status
	Stalled uint64            // of all instances; only by status without a filter

	Ended []map[Status]uint64 // for each of CountOptions.EndedSince, by how they have ended
}

// Group is the number of instances with a value.
type Group struct {
	Value string // "": without one
	Count uint64
}

// Count counts instances. Without a filter, and with one that is a single term of = or in, of status, orchestration, version,
// parent, code or an attribute, it counts sets and reads no instance; so does a count by one of these
// fields if it has few values. A count by no field costs least: one command in each partition for one term, two for several of which one
// has few instances there. With other filters each partition reads at most 20,000 instances, or, if sets do not decide, 4,000 and
// the records of 1,000, and Count reports AtLeast if these were not all.
//
// A purged instance is not counted. All partitions are requested at the same time. If some do not answer (ErrNoOwner), the error
// reports it beside the counts of the others. It is not a snapshot.
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
		return []request.Counts{r}, "", r.Left, cmp.Or(err, answered(partitions, r.Several))
	}, 0))
	keepGroups(&c.groups, sources)
	var all []request.Counts
	for _, s := range sources {
		all = append(all, s.rows...)
	}
	return mergedCounts(all, by, len(o.EndedSince)), missing(sources, c.partitions())
}

// milliseconds are those of a bound, at least one.
func milliseconds(d time.Duration) uint64 {
	if d <= 0 {
		return 0
	}
	return uint64(max(d.Milliseconds(), 1))
}

// mergedCounts adds the counts of the partitions.
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
	if by == "" { // all are in no group
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
