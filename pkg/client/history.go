package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/queue"
)

// Entry is one event of a history.
type Entry struct {
	Execution uint64
	ID        uint64        // from 1, ascending
	Type      string        // such as ActivityScheduled: the name of a type of package history
	At        time.Time     // of the turn, UTC
	Event     history.Event // decoded: a pointer to the type of that name
	Raw       []byte        // as stored
	Report    *Report       // of an ActivityCancelRequested; nil: not reported, or not yet
}

// How is how a cancelled activity ended.
type How string

// The ways.
const (
	HowStopped       How = "stopped"        // it returned, Report.After its context was done
	HowFinishedFirst How = "finished-first" // its result had been accepted before the turn that cancelled it saw it, and was dropped
	HowFinishedLate  How = "finished-late"  // it returned by itself before its worker was told that nobody wants the result
	HowNeverStarted  How = "never-started"  // it was cancelled before a worker began with it
	HowAbandoned     How = "abandoned"      // it did not return within its grace, which was Report.After
)

// Report says how a cancelled activity ended, as far as its worker, or the owner of the
// instance, knows. It stands beside the history, not in it: it decides nothing, comes after
// the fact, and may be missing. A newer worker may say a How that is not listed here.
type Report struct {
	How    How
	After  time.Duration // from the moment when the activity's context was done
	Worker string        // empty: no worker had it
	At     time.Time     // by the clock of whoever reported, UTC; zero: not told
}

// readReport gives nil for a text that is no report: a history is shown without it.
func readReport(text string) *Report {
	var r struct {
		How     How    `json:"how"`
		AfterMS int64  `json:"after_ms"`
		Worker  string `json:"worker"`
		At      int64  `json:"at"`
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.How == "" {
		return nil
	}
	report := &Report{How: r.How, After: time.Duration(r.AfterMS) * time.Millisecond, Worker: r.Worker}
	if r.At != 0 {
		report.At = time.UnixMilli(r.At).UTC()
	}
	return report
}

// History gives the events of an execution (0: the latest) of an instance, in order,
// reading on as they are taken. The first error ends it: those of Describe (ErrNotFound
// also for an execution that there is not, and for an instance that has not begun), or
// history's for an event that can not be read.
func (c *Client) History(ctx context.Context, id string, execution uint64) iter.Seq2[Entry, error] {
	return c.HistoryAfter(ctx, id, execution, 0, 0)
}

// HistoryAfter is History from behind an event id on. It gives nothing if there are no events behind it. At most page events
// are read at a time; 0: as many as the owner sends.
func (c *Client) HistoryAfter(ctx context.Context, id string, execution, after uint64, page int) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := pawl.ValidateID(id); err != nil {
			yield(Entry{}, fmt.Errorf("client: %w", err))
			return
		}
		for {
			r, err := c.ask(ctx, c.conn.PartitionOf(id), queue.Ask{Op: queue.OpHistory, Instance: id, Execution: execution, After: after, Limit: page})
			if err == nil && after == 0 && len(r.Events) == 0 {
				err = &notFoundError{text: fmt.Sprintf("instance %s has no execution %d", id, r.Execution)}
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
			execution = r.Execution // the latest may change between pages
			if !entries(id, after, r, yield) {
				return
			}
			if after += uint64(len(r.Events)); !r.More || len(r.Events) == 0 {
				return
			}
		}
	}
}

// entries gives the events of one reply, and whether to read on.
func entries(id string, after uint64, r queue.Reply, yield func(Entry, error) bool) bool {
	reports := make(map[uint64]*Report, len(r.Reports))
	for _, rep := range r.Reports {
		reports[rep.Activity] = readReport(rep.Text)
	}
	for i, raw := range r.Events {
		entry := Entry{Execution: r.Execution, Raw: raw}
		e, err := history.Decode(after+uint64(i)+1, raw)
		if err != nil {
			yield(entry, fmt.Errorf("client: history of %s: %w", id, err))
			return false
		}
		if c, ok := e.(*history.ActivityCancelRequested); ok {
			entry.Report = reports[c.Scheduled]
		}
		entry.ID, entry.At = e.Meta().ID, timeOf(e.Meta().At)
		entry.Type, entry.Event = reflect.TypeOf(e).Elem().Name(), e
		if !yield(entry, nil) {
			return false
		}
	}
	return true
}
