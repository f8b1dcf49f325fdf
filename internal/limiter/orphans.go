package limiter

import (
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/redisx"
)

const maxOrphans = 500 // maximum number of keys of one script

// FindOrphans passes to then the members that are no longer required, as far as that is evident without a history: no lease of the
// activity has the ticket, the record retains no such slot (RetainedPlace), or no running instance has the origin. Members whose place
// cannot be parsed are among them. An error means that some members could not be checked; the result contains the others.
func (g *Limiter) FindOrphans(ms []limit.Member, then func([]limit.Member, error)) {
	type query struct {
		keys    []string
		args    []any
		members []int
	}
	var queries []*query
	last := make(map[int]*query) // the last query of each partition
	orphaned := make([]bool, len(ms))
	for i, m := range ms {
		part := g.partition(m.Instance)
		key, arg, ok := evidence(g.space.Part(part), m)
		if !ok {
			orphaned[i] = true
			continue
		}
		q := last[part]
		if q == nil || len(q.keys) == maxOrphans {
			q = &query{}
			last[part] = q
			queries = append(queries, q)
		}
		q.keys, q.args, q.members = append(q.keys, key), append(q.args, arg), append(q.members, i)
	}
	answer := func(err error) {
		var out []limit.Member
		for i, m := range ms {
			if orphaned[i] {
				out = append(out, m)
			}
		}
		then(out, err)
	}
	if len(queries) == 0 {
		answer(nil)
		return
	}
	var mu sync.Mutex
	var failed []error
	left := len(queries)
	for _, q := range queries {
		g.run.Go(redisx.Call{Script: g.script.orphans, Keys: q.keys, Args: q.args}, func(reply any, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				r := redisx.NewReply(reply)
				for k, i := range q.members {
					orphaned[i] = r.Int(k) == 1
				}
				err = r.Err()
			}
			if err != nil {
				failed = append(failed, fmt.Errorf("check whether %d tickets are required: %w", len(q.members), err))
			}
			if left--; left == 0 {
				answer(errors.Join(failed...))
			}
		})
	}
}

// evidence returns the key that proves whether a member is required, and the value that it must contain; see orphans.lua. ok is false if
// the place of the member cannot be parsed.
func evidence(p redisx.Part, m limit.Member) (key, arg string, ok bool) {
	if origin, start := m.Origin(); start {
		return p.Instance(m.Instance), "o" + origin, true
	}
	if m.Place == limit.RetainedPlace {
		return p.Instance(m.Instance), "k" + m.Ticket, true
	}
	execution, event, ok := m.Activity()
	return p.Lease(m.Instance, execution, event), "l" + m.Ticket, ok
}

// ReleaseOrphans removes holders that have not been active since the notice about them. Waiters, and members that have entered again,
// remain, so a late call removes nothing that is required. Granted are the waiters that were admitted in their place.
func (g *Limiter) ReleaseOrphans(name string, orphans []limit.Orphan, then func(limit.AdmitReply, error)) {
	args, err := policyArgs(limit.InForce{}, name)
	if err != nil {
		then(limit.AdmitReply{}, err)
		return
	}
	args = append(args, len(orphans))
	for _, o := range orphans {
		args = append(args, "!"+strconv.FormatInt(o.At, 10)+" "+o.Member.String())
	}
	g.run.Go(redisx.Call{Script: g.script.admit, Keys: g.keys(name), Args: args}, func(reply any, err error) {
		var got limit.AdmitReply
		if err == nil {
			got, _, err = readAdmitted(reply, 0)
		}
		if err != nil {
			then(limit.AdmitReply{}, fmt.Errorf("limit %s: %w", name, err))
			return
		}
		then(got, nil)
	})
}
