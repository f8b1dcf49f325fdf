package limiter

import (
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/pawlrun/pawl/internal/redisx"
)

const maxOrphans = 500 // keys of one script

// Unwanted tells which members nothing wants any more, as far as can be seen from outside a history: there is no lease for an
// activity under its ticket, no slot of it that the record keeps (KeptPlace), or no instance of that birth that has not ended. Whoever's
// place can not be read is among them. That some could not be asked about is an error; what is known is given beside it.
func (g *Limiter) FindOrphans(ms []Member, then func([]Member, error)) {
	type query struct {
		keys    []string
		args    []any
		members []int
	}
	var queries []*query
	last := make(map[int]*query) // the one of a partition that is not full yet
	unwanted := make([]bool, len(ms))
	for i, m := range ms {
		part := g.partition(m.Instance)
		key, arg, ok := evidence(g.space.Part(part), m)
		if !ok {
			unwanted[i] = true
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
		var out []Member
		for i, m := range ms {
			if unwanted[i] {
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
					unwanted[i] = r.Int(k) == 1
				}
				err = r.Err()
			}
			if err != nil {
				failed = append(failed, fmt.Errorf("ask whether %d tickets are wanted: %w", len(q.members), err))
			}
			if left--; left == 0 {
				answer(errors.Join(failed...))
			}
		})
	}
}

// witness is the key that tells whether a member is wanted, and what it must say.
func evidence(p redisx.Part, m Member) (key, arg string, ok bool) {
	if origin, start := m.Origin(); start {
		return p.Instance(m.Instance), "o" + origin, true
	}
	if m.Place == RetainedPlace {
		return p.Instance(m.Instance), "k" + m.Ticket, true
	}
	execution, event, ok := m.Activity()
	return p.Lease(m.Instance, execution, event), "l" + m.Ticket, ok
}

// Disowned is a member that no instance wants, as far as its owner knows, who was told of it.
type Orphan struct {
	Member Member
	At     int64 // when the gate said so, by its own clock, Unix ms
}

// Disown takes members out of a gate of which nothing was heard since they were told of; those that wait, or have entered anew, stay.
// So one that is carried out late takes nothing from anybody. Granted are those that the gate has let in instead.
func (g *Limiter) ReleaseOrphans(gate string, ds []Orphan, then func(AdmitReply, error)) {
	args, err := InForce{}.args(gate)
	if err != nil {
		then(AdmitReply{}, err)
		return
	}
	args = append(args, len(ds))
	for _, d := range ds {
		args = append(args, "!"+strconv.FormatInt(d.At, 10)+" "+d.Member.String())
	}
	g.run.Go(redisx.Call{Script: g.script.admit, Keys: g.keys(gate), Args: args}, func(reply any, err error) {
		var got AdmitReply
		if err == nil {
			got, _, err = readAdmitted(reply, 0)
		}
		if err != nil {
			then(AdmitReply{}, fmt.Errorf("gate %s: %w", gate, err))
			return
		}
		then(got, nil)
	})
}
