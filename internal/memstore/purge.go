package memstore

import (
	"maps"
	"slices"
)

// Purge is what the owner wants removed: an instance that has ended.
type Purge struct {
	Instance  string
	Execution uint64 // the current one; the one before it goes too
	Head      string
	Pop       []string // ids at the head of the inbox, up to the purge itself; none: its retention is over
	Applied   int64    // if it is: the time of the position up to which the owner assumes to have ingested; 0: a client has requested it
}

// Purge removes an instance with all that it has but the ids of the messages taken. What came behind the purge stays, a
// start among it in front.
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
	if s.Rules.Wrong == PurgeForgetsIDs {
		clear(in.Seen)
	}
	if s.blind(p.Instance, 0); len(rest) > 0 && s.Rules.Wrong != PurgeUnseen {
		s.blind(p.Instance, now)
	}
	return OK
}

// Report notes how a cancelled activity has ended, once only where nothing is noted. Of an instance that is not there nothing is.
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
