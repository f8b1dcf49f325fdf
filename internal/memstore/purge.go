package memstore

import (
	"maps"
	"slices"
)

// Purge is the request to remove an instance that has ended.
type Purge struct {
	Instance  string
	Execution uint64 // the current one; the previous one is removed, too
	Head      string
	Pop       []string // ids at the head of the inbox, up to the purge itself; none: the retention is over
	Applied   int64    // time of the position up to which the owner assumes to have ingested, if the retention is over; 0: a client has requested the purge
}

// Purge removes an instance with all its data, except the ids of ingested messages. The inputs after the purge stay; a start among them
// moves to the front.
func (s *Store) Purge(now int64, token string, p Purge) Answer {
	if s.fenced(now, token) {
		return Fenced
	}
	in := s.Get(p.Instance)
	if in.Head != p.Head && s.Rules.Wrong != PurgeBlind || !s.poppable(in, p.Pop) {
		return Conflict
	}
	switch {
	case p.Applied != 0 && s.Owner.Applied.Time < p.Applied:
		return RolledBack
	case p.Applied != 0 && len(in.Inbox) > 0 && s.Rules.Wrong != PurgeBlind:
		return Conflict
	}
	in = s.make(p.Instance)
	rest := slices.Clone(in.Inbox[min(len(p.Pop), len(in.Inbox)):])
	start := slices.IndexFunc(rest, func(e Element) bool { return e.Kind == "start" })
	switch {
	case s.Rules.Wrong == PurgeDropsRest:
		rest = nil
	case start > 0 && s.Rules.Wrong != PurgeLeavesStart:
		e := rest[start]
		rest = slices.Insert(slices.Delete(rest, start, start+1), 0, e)
	}
	in.Inbox, in.Record = rest, Record{}
	for n := max(p.Execution, 2) - 1; n <= p.Execution; n++ {
		if n == p.Execution || s.Rules.Wrong != PurgeLeavesPast {
			delete(in.Histories, n)
		}
		if s.Rules.Wrong != PurgeLeavesReports {
			in.dropReports(n)
		}
	}
	maps.DeleteFunc(in.Seen, func(_ string, at int64) bool { return at == inLedger })
	if s.Rules.Wrong == PurgeDropsIDs {
		clear(in.Seen)
	}
	if s.setWakeup(p.Instance, 0); len(rest) > 0 && s.Rules.Wrong != PurgeUnseen {
		s.setWakeup(p.Instance, now)
	}
	return OK
}

// Report records how a cancelled activity ended; once: unless a report exists. It records nothing for an unknown instance.
func (s *Store) Report(id string, at Place, text string, once bool) Answer {
	in := s.Get(id)
	if s.Rules.Wrong != ReportBlind && (in.Head == "" || at.Execution > in.Execution || at.Execution+1 < in.Execution) {
		return Gone
	}
	in = s.make(id)
	if _, noted := in.Reports[at]; !noted || !once {
		in.Reports[at] = text
	}
	return OK
}

func (in *Instance) dropReports(execution uint64) {
	for at := range in.Reports {
		if at.Execution == execution {
			delete(in.Reports, at)
		}
	}
}
