package store

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/sealing"
)

// instanceCheck is the check of one instance: the data that was read, and the rules that it breaks.
type instanceCheck struct {
	*subject

	keys        redisx.Part
	loaded      record.Loaded
	completions [][]byte           // the whole inbox, if a lease is missing
	leases      map[heldKey]string // effect ids
	state       *fold.State        // state of the current execution
	// ledgerFields is the number of fields of the ledger of updates; kept is how many of them belong to answers.
	ledgerFields, kept int

	unreadable bool // the data cannot be read, which is a violation; no other rule is checked

	result     CheckResult
	violations []string // rules that are broken
}

func (x *instanceCheck) violationf(format string, args ...any) {
	x.violations = append(x.violations, fmt.Sprintf(format, args...))
}

// fold folds the history and collects its references to large payloads.
func (x *instanceCheck) fold() {
	state, bad := fold.Check(x.loaded.Events)
	for _, b := range bad {
		x.violationf("history: %v", b)
	}
	x.state, x.result.Events, x.result.Unread = state, state.Len, len(x.loaded.Unread)
	for _, e := range x.loaded.Events {
		x.result.References = append(x.result.References, sealing.References(e)...)
	}
	x.loaded.Events = nil
}

// run checks all rules.
func (x *instanceCheck) run() {
	if x.unreadable {
		x.result.Events, x.result.Unread = 0, 0
		return
	}
	if rec := x.loaded.Record; rec != nil {
		if !rec.Status.Ended() {
			x.result.Running = 1
		}
		x.record(rec)
		x.watermarks(rec)
		x.retained(rec)
	}
	x.indexes()
	x.valueSets()
	x.outstanding()
	x.excess()
	x.updates()
	x.wakeups()
}

// record compares the record with the history.
func (x *instanceCheck) record(rec *record.Record) {
	s := x.state
	switch {
	case s.Started == nil && rec.Events == 0 && s.Len == 0 && x.startFirst():
	case s.Started == nil && rec.Events == 0 && s.Len == 0:
		x.violationf("execution %d has just begun, but its start is not the first unread input", rec.Execution)
	case s.Started == nil:
		x.violationf("has a record but no history")
	case s.Started.Name != rec.Name || s.Started.Origin != rec.Origin || s.Execution() != rec.Execution && !x.rewinding():
		x.violationf("the record belongs to another start than the history")
	case s.Len < rec.Events:
		x.violationf("the record has %d events, but the history has %d", rec.Events, s.Len)
	case (rec.Status == record.Paused) != (s.PausedBy() != nil && s.End == nil) && !x.rewinding():
		x.violationf("status is %s, but the history has a pause: %v", rec.Status, s.PausedBy() != nil)
	case rec.Status != record.Paused && s.Started != nil && (rec.Status == record.Pending) != (s.End == nil && s.Waiting(1)):
		x.violationf("status is %s, but the instance waits at its limit: %v", rec.Status, s.Waiting(1))
	case rec.Status.Ended() != (s.End != nil):
		x.violationf("status is %s, but the history has ended: %v", rec.Status, s.End != nil)
	}
	if rec.Stalled != x.listed {
		x.violationf("listed as stalled: %v, but marked so in the record: %v", x.listed, rec.Stalled)
	}
}

// startFirst reports whether a start is the first unread input.
func (x *instanceCheck) startFirst() bool {
	return len(x.loaded.Unread) > 0 && bytes.HasPrefix(x.loaded.Unread[0], []byte{'!'})
}

// rewinding reports whether the instance was rewound and its code has not processed that yet: its activities have no leases.
func (x *instanceCheck) rewinding() bool {
	return len(x.loaded.Unread) > 0 && bytes.HasPrefix(x.loaded.Unread[0], []byte(record.RewoundMark))
}

// watermarks compares the outbox watermark with the messages of the history.
func (x *instanceCheck) watermarks(rec *record.Record) {
	if rec.Produced.Before(rec.Published) {
		x.violationf("messages up to %s are published, but the last one produced is %s", rec.Published, rec.Produced)
	}
	switch {
	case rec.Produced.Execution > rec.Execution || rec.Produced.Execution == rec.Execution && rec.Produced.Event > x.state.Len:
		x.violationf("messages up to %s are pending, but the history ends at %s", rec.Produced, record.Watermark{Execution: rec.Execution, Event: x.state.Len})
	case rec.HasPendingMessages() && rec.Produced.Execution < rec.Execution && rec.Produced.Event > uint64(len(x.loaded.Previous)):
		x.violationf("messages up to %s are pending, but the history of that execution has %d events", rec.Produced, len(x.loaded.Previous))
	}
	if ms := x.state.PendingMessages(); len(ms) > 0 {
		if last := (record.Watermark{Execution: rec.Execution, Event: ms[len(ms)-1].ID}); rec.Produced.Before(last) {
			x.violationf("event %d has a pending message, but the last one in the record is %q", last.Event, rec.Produced)
		}
	}
}

// retained compares the retained slots of the record with the tickets of the history.
func (x *instanceCheck) retained(rec *record.Record) {
	var want []string
	for _, k := range x.state.Tickets() {
		if k.Limit.Retain && !k.Waiting {
			want = append(want, k.ID)
		}
	}
	slices.Sort(want)
	if !slices.Equal(want, rec.Retained) {
		x.violationf("the record retains the slots of %q, but the history those of %q", rec.Retained, want)
	}
}

// indexes compares the indexes with the record.
func (x *instanceCheck) indexes() {
	rec := x.loaded.Record
	for i, st := range record.Statuses() {
		switch in := x.statuses&(1<<i) != 0; {
		case rec == nil && in:
			x.violationf("is in the index of %s but has no record", st)
		case rec != nil && in != (st == rec.Status):
			x.violationf("status is %s; in the index of %s: %v", rec.Status, st, in)
		}
	}
}

// valueSets compares the sets of values with the record.
func (x *instanceCheck) valueSets() {
	want := make(map[string]float64)
	for _, e := range x.loaded.Record.Entries() {
		want[setKey(x.keys, &e)], _ = strconv.ParseFloat(entryScore(&e), 64)
	}
	if rec := x.loaded.Record; rec != nil && rec.Stalled {
		want[stalledSet(x.keys)] = 0
	}
	for _, set := range x.values {
		switch at, ok := want[set.key]; {
		case !ok:
			x.violationf("is in the set %s, but has no record with the value", set.key)
		case at != set.score:
			x.violationf("is in the set %s with score %.0f instead of %.0f", set.key, set.score, at)
		}
		delete(want, set.key)
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		x.violationf("is not in the set %s", key)
	}
}

// leftover reports the history, or the reports, of an execution that must not have any.
func (x *instanceCheck) leftover(execution uint64, has string) {
	if rec := x.loaded.Record; rec != nil {
		x.violationf("execution %d has %s, but the current one is %d", execution, has, rec.Execution)
	} else {
		x.violationf("has %s but no record", has)
	}
}

// keepsExecution reports whether the history and the reports of an execution are kept: the first turn of an execution removes those of the
// execution before the previous one.
func (x *instanceCheck) keepsExecution(execution uint64) bool {
	rec := x.loaded.Record
	if rec == nil || execution > rec.Execution {
		return false
	}
	before := uint64(1)
	if rec.Events == 0 {
		before = 2
	}
	return execution+before >= rec.Execution
}

// outstanding finds activities that no worker can complete.
func (x *instanceCheck) outstanding() {
	for _, a := range x.state.Admitted() {
		got, want := x.leases[heldKey{'l', executionOf(x.loaded.Record), a}], x.state.Activity(a)
		completion := []byte("a" + want.Effect + ".") // the id that package lease uses
		completes := func(e []byte) bool { return bytes.HasPrefix(e, completion) }
		switch {
		case got == want.Effect:
			x.result.Leases++
		case got != "":
			x.violationf("activity %d (%s) has the lease of another effect", a, want.Name)
		case x.rewinding(), slices.ContainsFunc(x.loaded.Unread, completes), slices.ContainsFunc(x.completions, completes): // popped in the meantime, or arrived
		default:
			x.violationf("activity %d (%s) is outstanding, but has neither a lease nor an unread completion", a, want.Name)
		}
	}
}

// excess finds leases of activities that are not outstanding.
func (x *instanceCheck) excess() {
	for k, effect := range x.leases {
		if effect == "" || k.execution == executionOf(x.loaded.Record) && x.state.Activity(k.activity) != nil && !x.state.Waiting(k.activity) {
			continue
		}
		x.violationf("lease of activity %d of execution %d, which is not outstanding", k.activity, k.execution)
	}
}

// wakeups finds a missing wakeup, and entries of an instance that does not exist in the lists of the partition.
func (x *instanceCheck) wakeups() {
	s, rec := x.state, x.loaded.Record
	ahead := x.due && x.wakeup > float64(time.Now().UnixMilli()) // a future reconciliation will remove it
	switch absent := rec == nil && len(x.loaded.Unread) == 0; {
	case absent:
		if x.due && !ahead {
			x.violationf("is scheduled, but has neither a record nor unread inputs")
		}
		if x.listed && !ahead {
			x.violationf("is listed as stalled, but has neither a record nor unread inputs")
		}
	case rec != nil && rec.Status == record.Paused && s.AdmittedLen()+s.ChildLen() == 0: // nothing is due
	case !x.due && (len(x.loaded.Unread) > 0 || s.End == nil && s.OutstandingLen()+s.ChildLen()+s.TimerLen()+s.WaitingLen() > 0):
		x.violationf("is not scheduled, but has %d unread inputs, %d activities and %d children outstanding and %d timers",
			len(x.loaded.Unread), s.OutstandingLen(), s.ChildLen(), s.TimerLen())
	}
	if !x.due && rec != nil && rec.HasPendingMessages() {
		x.violationf("is not scheduled, but has pending messages after %q up to %s", rec.Published, rec.Produced)
	}
	if started := rec != nil || len(x.loaded.Unread) == 0 || x.startFirst(); x.early && started {
		x.violationf("has a count of early inputs, but has started or has no unread inputs")
	}
}

// score parses the reply to ZSCORE in either protocol version.
func score(v any) (float64, error) {
	if f, ok := v.(float64); ok {
		return f, nil
	}
	s, err := redisx.Str(v)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(s, 64)
}

// executionOf returns the current execution; 0 without a record.
func executionOf(r *record.Record) uint64 {
	if r == nil {
		return 0
	}
	return r.Execution
}
