package conformance

import (
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/leases"
	"github.com/pawlrun/pawl/internal/memstore"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/pkg/lease"
)

// purge purges mostly instances that have ended. The scripts do not check that, so others are purged, too.
func (m *machine) purge() {
	token, id := m.token(), m.instance()
	if ended := m.ended(); len(ended) > 0 && !oneIn(m, 4) {
		id = draw(m, "ended", ended...)
	}
	in := m.model.Get(id)
	p := memstore.Purge{Instance: id, Execution: in.Execution, Head: in.Head}
	for _, e := range in.Inbox[:draw(m, "inputs", 0, min(1, len(in.Inbox)), len(in.Inbox)/2)] {
		p.Pop = append(p.Pop, e.ID)
	}
	switch draw(m, "flaw", 0, 0, 0, 0, 0, 0, 1, 2) {
	case 1:
		p.Head = draw(m, "head", "", "h1", "h2")
	case 2:
		p.Pop = append(p.Pop, "a.acked.but.lost")
	}
	was := in.Record
	m.send(func() {
		if in := m.model.Get(id); in.Head == p.Head && (in.Status != was.Status || in.Parent != was.Parent || in.Execution != p.Execution) {
			return // the head belongs to another record: no owner sends this
		}
		m.both(fmt.Sprintf("purge by %s: %+v", token, p), func() (string, int64) {
			pu := &record.Purge{
				Instance: id, Execution: p.Execution, Head: p.Head, Status: record.Status(was.Status), Entries: indexed(&was).Entries(), Pop: allSealed(p.Pop),
			}
			now, err := redistest.Answer(func(done func(int64, error)) { m.store.Purge(m.tenure(token), pu, done) })
			if err != nil {
				return m.refused(err), 0
			}
			return string(memstore.OK), now
		}, func(s *memstore.Store, now int64) string { return string(s.Purge(now, token, p)) })
	})
}

func (m *machine) ended() (all []string) {
	for _, id := range instances() {
		if m.model.Get(id).End != "" {
			all = append(all, id)
		}
	}
	return all
}

// report records how activities of an execution ended, whether or not the execution is kept.
func (m *machine) report() {
	id := m.instance()
	ref := leases.Ref{Part: partition, Instance: id, Execution: draw(m, "execution", uint64(1), 2, max(m.model.Get(id).Execution, 1))}
	reports := make([]leases.Reported, draw(m, "reports", 1, 2))
	for i := range reports {
		ending := draw(m, "ending", lease.Stopped, lease.NeverStarted, lease.FinishedFirst)
		reports[i] = leases.Reported{Activity: draw(m, "activity", uint64(1), 2, 3), Report: lease.Report{Ending: ending, Worker: "w1", At: time.UnixMilli(int64(m.n))}}
	}
	m.both(fmt.Sprintf("report on %s: %+v", id, reports), func() (string, int64) {
		_, err := redistest.Answer(func(done func(any, error)) { m.leases.Report(ref, reports, func(err error) { done(nil, err) }) })
		m.must(err)
		return "", 0
	}, func(s *memstore.Store, _ int64) string {
		for _, r := range reports {
			s.Report(id, memstore.Place{Execution: ref.Execution, Event: r.Activity}, string(record.EncodeReport(r.Report)), r.Report.Ending == lease.NeverStarted)
		}
		return ""
	})
}
