package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
)

// instanceCheck is the check of one instance.
type instanceCheck struct {
	store    *Reader
	part     int
	instance string
	keys     []redisx.ParsedKey // histories, leases and reports that the scan found

	result     CheckResult
	violations []string // rules that are broken
	loaded     Loaded
	state      *history.State // of the current execution
	// there is no instance, and a future reconciliation will remove its wakeup
	wakeupAhead bool
}

func (x *instanceCheck) violationf(format string, args ...any) {
	x.violations = append(x.violations, fmt.Sprintf(format, args...))
}

// run reads the instance and finds the rules that it breaks.
func (x *instanceCheck) run(ctx context.Context) error {
	l, err := x.store.Load(ctx, x.part, x.instance)
	if err == nil && l.Record != nil && l.Record.Status.Ended() {
		l.Events, err = x.store.History(ctx, x.part, x.instance, l.Record.Execution)
	}
	if errors.Is(err, history.ErrCorrupt) || errors.Is(err, history.ErrNewerVersion) {
		x.violationf("%v", err)
		return nil
	}
	if err != nil {
		return err
	}
	x.loaded, x.result.Unread = l, len(l.Unread)
	state, bad := history.Check(l.Events)
	for _, b := range bad {
		x.violationf("history: %v", b)
	}
	x.state, x.result.Events = state, state.Len
	if l.Record != nil {
		if !l.Record.Status.Ended() {
			x.result.Running = 1
		}
		x.record(l.Record)
		x.watermarks(l.Record)
		x.retained(l.Record)
	}
	for _, check := range []func(context.Context) error{x.indexes, x.executions, x.outstanding, x.leases, x.wakeup, x.stalled, x.early} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// record compares the record with the history.
func (x *instanceCheck) record(rec *Record) {
	s := x.state
	switch {
	case s.Started == nil && rec.Events == 0 && s.Len == 0 && x.startFirst():
	case s.Started == nil && rec.Events == 0 && s.Len == 0:
		x.violationf("execution %d has just begun, and its start is not the first that is unread", rec.Execution)
	case s.Started == nil:
		x.violationf("has a record and no history")
	case s.Started.Name != rec.Name || s.Started.Origin != rec.Origin || s.Started.Execution != rec.Execution:
		x.violationf("the record is of another start than the history")
	case s.Len < rec.Events:
		x.violationf("the record tells of %d events, and the history has %d", rec.Events, s.Len)
	case (rec.Status == Pending) != (s.End == nil && s.Waiting(1)):
		x.violationf("status is %s, and the instance waits at its gate: %v", rec.Status, s.Waiting(1))
	case rec.Status.Ended() != (s.End != nil):
		x.violationf("status is %s, and the history has ended: %v", rec.Status, s.End != nil)
	}
}

// startFirst reports whether a start is the first unread input.
func (x *instanceCheck) startFirst() bool {
	return len(x.loaded.Unread) > 0 && bytes.HasPrefix(x.loaded.Unread[0], []byte{'!'})
}

// watermarks compares the outbox watermark with the messages of the history.
func (x *instanceCheck) watermarks(rec *Record) {
	if rec.Produced.Before(rec.Published) {
		x.violationf("messages up to %s are sent, and the last that is owed is %s", rec.Published, rec.Produced)
	}
	switch {
	case rec.Produced.Execution > rec.Execution || rec.Produced.Execution == rec.Execution && rec.Produced.Event > x.state.Len:
		x.violationf("messages up to %s are owed, and the history ends at %s", rec.Produced, Watermark{rec.Execution, x.state.Len})
	case rec.HasPendingMessages() && rec.Produced.Execution < rec.Execution && rec.Produced.Event > uint64(len(x.loaded.Previous)):
		x.violationf("messages up to %s are owed, and the history of that execution has %d events", rec.Produced, len(x.loaded.Previous))
	}
	if ms := x.state.PendingMessages(); len(ms) > 0 {
		if last := (Watermark{rec.Execution, ms[len(ms)-1].ID}); rec.Produced.Before(last) {
			x.violationf("event %d owes a message, and the last that is said to be owed is %q", last.Event, rec.Produced)
		}
	}
}

// retained compares the retained slots of the record with the tickets of the history.
func (x *instanceCheck) retained(rec *Record) {
	var want []string
	for _, k := range x.state.Tickets() {
		if k.Limit.Retain && !k.Waiting {
			want = append(want, k.ID)
		}
	}
	slices.Sort(want)
	if !slices.Equal(want, rec.Retained) {
		x.violationf("the record keeps the slots of %q, and the history those of %q", rec.Retained, want)
	}
}

// indexes compares the indexes with the record.
func (x *instanceCheck) indexes(ctx context.Context) error {
	for _, st := range Statuses() {
		v, err := x.store.run.Do(ctx, redisx.Command("ZSCORE", x.store.space.Part(x.part).Index(string(st)), x.instance))
		rec := x.loaded.Record
		switch {
		case redisx.Refused(err):
			x.violationf("index %s can not be read: %v", st, err)
		case err != nil:
			return fmt.Errorf("check: instance %s: index %s: %w", x.instance, st, err)
		case rec == nil && v != nil:
			x.violationf("stands in the index of %s and has no record", st)
		case rec != nil && (v != nil) != (st == rec.Status):
			x.violationf("status is %s; in the index of %s: %v", rec.Status, st, v != nil)
		}
	}
	return nil
}

// executions finds histories and reports of executions that must not have any.
func (x *instanceCheck) executions(ctx context.Context) error {
	p := x.store.space.Part(x.part)
	for _, n := range x.keys {
		key, count, what := p.History(x.instance, n.Execution), "LLEN", "a history of %d events"
		switch n.Kind {
		case "h":
		case "r":
			key, count, what = p.Reports(x.instance, n.Execution), "HLEN", "reports on %d activities"
		default:
			continue
		}
		if x.keepsExecution(n.Execution) {
			continue
		}
		v, err := x.store.run.Do(ctx, redisx.Command(count, key))
		if err != nil {
			return fmt.Errorf("check: instance %s: execution %d: %w", x.instance, n.Execution, err)
		}
		length, err := redisx.Int(v)
		switch has := fmt.Sprintf(what, length); {
		case err != nil:
			return fmt.Errorf("check: instance %s: %w", x.instance, err)
		case length == 0: // removed since the scan
		case x.loaded.Record == nil:
			x.violationf("has %s and no record", has)
		default:
			x.violationf("execution %d has %s, and the current one is %d", n.Execution, has, x.loaded.Record.Execution)
		}
	}
	return nil
}

// keepsExecution reports whether history and reports of an execution are kept: the first turn of the current one removes those of
// the one before the last.
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
func (x *instanceCheck) outstanding(ctx context.Context) error {
	ids := x.state.Admitted()
	if len(ids) == 0 {
		return nil
	}
	inbox, err := x.store.Inbox(ctx, x.part, x.instance)
	if err != nil {
		return err
	}
	inbox = append(inbox, x.loaded.Unread...) // what was popped since is not missing
	for _, a := range ids {
		got, err := x.effect(ctx, x.loaded.Record.execution(), a)
		if err != nil {
			return err
		}
		want := x.state.Activity(a)
		completion := []byte("a" + want.Effect + ".") // the id that package lease uses
		switch {
		case got == want.Effect:
			x.result.Leases++
		case got != "":
			x.violationf("activity %d (%s) has the lease of another effect", a, want.Name)
		case !slices.ContainsFunc(inbox, func(e []byte) bool { return bytes.HasPrefix(e, completion) }):
			x.violationf("activity %d (%s) is outstanding, and has neither lease nor unread completion", a, want.Name)
		}
	}
	return nil
}

// leases finds leases of activities that are not outstanding.
func (x *instanceCheck) leases(ctx context.Context) error {
	for _, n := range x.keys {
		if n.Kind != "l" || n.Execution == x.loaded.Record.execution() && x.state.Activity(n.Activity) != nil && !x.state.Waiting(n.Activity) {
			continue
		}
		got, err := x.effect(ctx, n.Execution, n.Activity)
		if err != nil {
			return err
		}
		if got != "" {
			x.violationf("lease of activity %d of execution %d belongs to nothing outstanding", n.Activity, n.Execution)
		}
	}
	return nil
}

func (x *instanceCheck) effect(ctx context.Context, execution, activity uint64) (string, error) {
	v, err := x.store.run.Do(ctx, redisx.Command("HGET", x.store.space.Part(x.part).Lease(x.instance, execution, activity), "e"))
	if err != nil {
		return "", fmt.Errorf("check: instance %s: lease of activity %d: %w", x.instance, activity, err)
	}
	return redisx.Str(v)
}

// wakeup finds a missing wakeup, and one without an instance.
func (x *instanceCheck) wakeup(ctx context.Context) error {
	v, err := x.store.run.Do(ctx, redisx.Command("ZSCORE", x.store.space.Part(x.part).Wakeups(), x.instance))
	if err != nil {
		return fmt.Errorf("check: instance %s: %w", x.instance, err)
	}
	if v != nil && x.absent() {
		at, err := score(v)
		if err != nil {
			return fmt.Errorf("check: instance %s: %w", x.instance, err)
		}
		if x.wakeupAhead = at > float64(time.Now().UnixMilli()); !x.wakeupAhead {
			x.violationf("is on the agenda, and has neither record nor anything unread")
		}
	}
	if v != nil || x.absent() {
		return nil
	}
	s, rec := x.state, x.loaded.Record
	if len(x.loaded.Unread) > 0 || s.End == nil && s.OutstandingLen()+s.ChildLen()+s.TimerLen()+s.WaitingLen() > 0 {
		x.violationf("is not on the agenda, with %d unread, %d activities and %d children outstanding and %d timers",
			len(x.loaded.Unread), s.OutstandingLen(), s.ChildLen(), s.TimerLen())
	}
	if rec != nil && rec.HasPendingMessages() {
		x.violationf("is not on the agenda, and owes messages behind %q up to %s", rec.Published, rec.Produced)
	}
	return nil
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

// absent reports whether there is neither a record nor an unread input.
func (x *instanceCheck) absent() bool { return x.loaded.Record == nil && len(x.loaded.Unread) == 0 }

// stalled finds an entry among the stalled instances without an instance.
func (x *instanceCheck) stalled(ctx context.Context) error {
	if !x.absent() || x.wakeupAhead {
		return nil
	}
	why, err := x.store.StalledReason(ctx, x.part, x.instance)
	if err == nil && why != "" {
		x.violationf("is listed as stuck, and has neither record nor anything unread: %s", why)
	}
	return err
}

// early finds a count of early inputs of an instance that has none.
func (x *instanceCheck) early(ctx context.Context) error {
	if x.loaded.Record == nil && len(x.loaded.Unread) > 0 && !x.startFirst() {
		return nil
	}
	v, err := x.store.run.Do(ctx, redisx.Command("HGET", x.store.space.Part(x.part).Early(), x.instance))
	if err == nil && v != nil {
		x.violationf("early inputs are counted, and it has started or nothing unread")
	}
	return err
}

// execution returns the current one, 0 without a record.
func (r *Record) execution() uint64 {
	if r == nil {
		return 0
	}
	return r.Execution
}
