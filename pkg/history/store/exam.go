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

// exam is the check of one instance.
type exam struct {
	store *Store
	part  int
	id    string
	keys  []redisx.Name // histories, leases and reports that the census has met

	seen  Checked
	rules []string // that are broken
	inst  Loaded
	state *history.State // of the current execution
	// coming: nobody is there, and a look to come will find that and tidy up.
	coming bool
}

func (x *exam) rulef(format string, args ...any) {
	x.rules = append(x.rules, fmt.Sprintf(format, args...))
}

// run reads the instance and finds the rules it breaks.
func (x *exam) run(ctx context.Context) error {
	l, err := x.store.Load(ctx, x.part, x.id)
	if err == nil && l.Record != nil && l.Record.Status.Ended() {
		l.Events, err = x.store.History(ctx, x.part, x.id, l.Record.Execution)
	}
	if errors.Is(err, history.ErrCorrupt) || errors.Is(err, history.ErrNewerVersion) {
		x.rulef("%v", err)
		return nil
	}
	if err != nil {
		return err
	}
	x.inst, x.seen.Unread = l, len(l.Unread)
	state, bad := history.Check(l.Events)
	for _, b := range bad {
		x.rulef("history: %v", b)
	}
	x.state, x.seen.Events = state, state.Len
	if l.Record != nil {
		if !l.Record.Status.Ended() {
			x.seen.Running = 1
		}
		x.record(l.Record)
		x.marks(l.Record)
		x.slots(l.Record)
	}
	for _, check := range []func(context.Context) error{x.indexes, x.kept, x.outstanding, x.leases, x.agenda, x.stuck, x.early} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// record compares the record with the history.
func (x *exam) record(rec *Record) {
	s := x.state
	switch {
	case s.Started == nil && rec.Events == 0 && s.Len == 0 && x.begins():
	case s.Started == nil && rec.Events == 0 && s.Len == 0:
		x.rulef("execution %d has just begun, and its start is not the first that is unread", rec.Execution)
	case s.Started == nil:
		x.rulef("has a record and no history")
	case s.Started.Name != rec.Name || s.Started.Born != rec.Born || s.Started.Execution != rec.Execution:
		x.rulef("the record is of another start than the history")
	case s.Len < rec.Events:
		x.rulef("the record tells of %d events, and the history has %d", rec.Events, s.Len)
	case (rec.Status == Pending) != (s.End == nil && s.Waits(1)):
		x.rulef("status is %s, and the instance waits at its gate: %v", rec.Status, s.Waits(1))
	case rec.Status.Ended() != (s.End != nil):
		x.rulef("status is %s, and the history has ended: %v", rec.Status, s.End != nil)
	}
}

// begins reports whether a start is the first that is unread.
func (x *exam) begins() bool {
	return len(x.inst.Unread) > 0 && bytes.HasPrefix(x.inst.Unread[0], []byte{'!'})
}

// marks compares what is said to be owed with what the history owes.
func (x *exam) marks(rec *Record) {
	if rec.Out.Less(rec.Sent) {
		x.rulef("messages up to %s are sent, and the last that is owed is %s", rec.Sent, rec.Out)
	}
	switch {
	case rec.Out.Execution > rec.Execution || rec.Out.Execution == rec.Execution && rec.Out.Event > x.state.Len:
		x.rulef("messages up to %s are owed, and the history ends at %s", rec.Out, Mark{rec.Execution, x.state.Len})
	case rec.Owes() && rec.Out.Execution < rec.Execution && rec.Out.Event > uint64(len(x.inst.Past)):
		x.rulef("messages up to %s are owed, and the history of that execution has %d events", rec.Out, len(x.inst.Past))
	}
	if ms := x.state.Messages(); len(ms) > 0 {
		if last := (Mark{rec.Execution, ms[len(ms)-1].ID}); rec.Out.Less(last) {
			x.rulef("event %d owes a message, and the last that is said to be owed is %q", last.Event, rec.Out)
		}
	}
}

// slots compares the kept slots of the record with the tickets of the history.
func (x *exam) slots(rec *Record) {
	var want []string
	for _, k := range x.state.Tickets() {
		if k.Gate.Keep && !k.Waits {
			want = append(want, k.ID)
		}
	}
	slices.Sort(want)
	if !slices.Equal(want, rec.Kept) {
		x.rulef("the record keeps the slots of %q, and the history those of %q", rec.Kept, want)
	}
}

// indexes compares the indexes with the record.
func (x *exam) indexes(ctx context.Context) error {
	for _, st := range Statuses() {
		v, err := x.store.run.Do(ctx, redisx.Command("ZSCORE", x.store.space.Part(x.part).Index(string(st)), x.id))
		rec := x.inst.Record
		switch {
		case redisx.Refused(err):
			x.rulef("index %s can not be read: %v", st, err)
		case err != nil:
			return fmt.Errorf("check: instance %s: index %s: %w", x.id, st, err)
		case rec == nil && v != nil:
			x.rulef("stands in the index of %s and has no record", st)
		case rec != nil && (v != nil) != (st == rec.Status):
			x.rulef("status is %s; in the index of %s: %v", rec.Status, st, v != nil)
		}
	}
	return nil
}

// kept finds histories and reports of executions that have none, or have none any more.
func (x *exam) kept(ctx context.Context) error {
	p := x.store.space.Part(x.part)
	for _, n := range x.keys {
		key, count, what := p.History(x.id, n.Execution), "LLEN", "a history of %d events"
		switch n.Kind {
		case "h":
		case "r":
			key, count, what = p.Reports(x.id, n.Execution), "HLEN", "reports on %d activities"
		default:
			continue
		}
		if x.keeps(n.Execution) {
			continue
		}
		v, err := x.store.run.Do(ctx, redisx.Command(count, key))
		if err != nil {
			return fmt.Errorf("check: instance %s: execution %d: %w", x.id, n.Execution, err)
		}
		length, err := redisx.Int(v)
		switch has := fmt.Sprintf(what, length); {
		case err != nil:
			return fmt.Errorf("check: instance %s: %w", x.id, err)
		case length == 0: // gone since the census
		case x.inst.Record == nil:
			x.rulef("has %s and no record", has)
		default:
			x.rulef("execution %d has %s, and the current one is %d", n.Execution, has, x.inst.Record.Execution)
		}
	}
	return nil
}

// keeps reports whether history and reports of an execution are kept: the first turn of the current one removes those of
// the one before the last.
func (x *exam) keeps(execution uint64) bool {
	rec := x.inst.Record
	if rec == nil || execution > rec.Execution {
		return false
	}
	before := uint64(1)
	if rec.Events == 0 {
		before = 2
	}
	return execution+before >= rec.Execution
}

// outstanding finds the activities that nobody will ever complete.
func (x *exam) outstanding(ctx context.Context) error {
	ids := x.state.Admitted()
	if len(ids) == 0 {
		return nil
	}
	inbox, err := x.store.Inbox(ctx, x.part, x.id)
	if err != nil {
		return err
	}
	inbox = append(inbox, x.inst.Unread...) // what has been taken since is not missing
	for _, a := range ids {
		got, err := x.effect(ctx, x.inst.Record.execution(), a)
		if err != nil {
			return err
		}
		want := x.state.Activity(a)
		completion := []byte("a" + want.Effect + ".") // the id that package lease gives it
		switch {
		case got == want.Effect:
			x.seen.Leases++
		case got != "":
			x.rulef("activity %d (%s) has the lease of another effect", a, want.Name)
		case !slices.ContainsFunc(inbox, func(e []byte) bool { return bytes.HasPrefix(e, completion) }):
			x.rulef("activity %d (%s) is outstanding, and has neither lease nor unread completion", a, want.Name)
		}
	}
	return nil
}

// leases finds those that belong to nothing.
func (x *exam) leases(ctx context.Context) error {
	for _, n := range x.keys {
		if n.Kind != "l" || n.Execution == x.inst.Record.execution() && x.state.Activity(n.Activity) != nil && !x.state.Waits(n.Activity) {
			continue
		}
		got, err := x.effect(ctx, n.Execution, n.Activity)
		if err != nil {
			return err
		}
		if got != "" {
			x.rulef("lease of activity %d of execution %d belongs to nothing outstanding", n.Activity, n.Execution)
		}
	}
	return nil
}

func (x *exam) effect(ctx context.Context, execution, activity uint64) (string, error) {
	v, err := x.store.run.Do(ctx, redisx.Command("HGET", x.store.space.Part(x.part).Lease(x.id, execution, activity), "e"))
	if err != nil {
		return "", fmt.Errorf("check: instance %s: lease of activity %d: %w", x.id, activity, err)
	}
	return redisx.Str(v)
}

// agenda finds out whether somebody will look who must.
func (x *exam) agenda(ctx context.Context) error {
	v, err := x.store.run.Do(ctx, redisx.Command("ZSCORE", x.store.space.Part(x.part).Agenda(), x.id))
	if err != nil {
		return fmt.Errorf("check: instance %s: %w", x.id, err)
	}
	if v != nil && x.nobody() {
		at, err := score(v)
		if err != nil {
			return fmt.Errorf("check: instance %s: %w", x.id, err)
		}
		if x.coming = at > float64(time.Now().UnixMilli()); !x.coming {
			x.rulef("is on the agenda, and has neither record nor anything unread")
		}
	}
	if v != nil || x.nobody() {
		return nil
	}
	s, rec := x.state, x.inst.Record
	if len(x.inst.Unread) > 0 || s.End == nil && s.OutstandingLen()+s.ChildLen()+s.TimerLen()+s.WaitingLen() > 0 {
		x.rulef("is not on the agenda, with %d unread, %d activities and %d children outstanding and %d timers",
			len(x.inst.Unread), s.OutstandingLen(), s.ChildLen(), s.TimerLen())
	}
	if rec != nil && rec.Owes() {
		x.rulef("is not on the agenda, and owes messages behind %q up to %s", rec.Sent, rec.Out)
	}
	return nil
}

// score reads the answer to ZSCORE in either protocol version.
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

// nobody reports whether there is no such instance, nor anything that waits for it.
func (x *exam) nobody() bool { return x.inst.Record == nil && len(x.inst.Unread) == 0 }

// stuck finds what is said of nobody.
func (x *exam) stuck(ctx context.Context) error {
	if !x.nobody() || x.coming {
		return nil
	}
	why, err := x.store.StuckOne(ctx, x.part, x.id)
	if err == nil && why != "" {
		x.rulef("is listed as stuck, and has neither record nor anything unread: %s", why)
	}
	return err
}

// early finds a count of early inputs for an instance that has none.
func (x *exam) early(ctx context.Context) error {
	if x.inst.Record == nil && len(x.inst.Unread) > 0 && !x.begins() {
		return nil
	}
	v, err := x.store.run.Do(ctx, redisx.Command("HGET", x.store.space.Part(x.part).Early(), x.id))
	if err == nil && v != nil {
		x.rulef("early inputs are counted, and it has started or nothing unread")
	}
	return err
}

// execution is the current one, 0 without a record.
func (r *Record) execution() uint64 {
	if r == nil {
		return 0
	}
	return r.Execution
}
