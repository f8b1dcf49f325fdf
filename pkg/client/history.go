package client

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"time"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/lease"
)

// Entry is one event of a history.
type Entry struct {
	Execution uint64
	ID        uint64        // from 1, ascending
	Type      string        // name of its type in package history, such as ActivityScheduled
	At        time.Time     // time of the turn, UTC
	Event     history.Event // pointer to a value of that type; payloads that can be decoded are decoded
	Raw       []byte        // encoded event, as stored
	Report    *lease.Report // of an ActivityCancelRequested; nil: there is no report, or not yet
}

// History iterates over the events of an execution of an instance (0: the latest), in order, and reads them page by page. The last pair
// contains the error, if any: those of Describe; ErrNotFound also for an execution that does not exist and for an instance that has not
// started; or an error of package history for an event that cannot be decoded.
func (c *Client) History(ctx context.Context, id string, execution uint64) iter.Seq2[Entry, error] {
	return c.HistoryAfter(ctx, id, execution, 0, 0)
}

// HistoryAfter is History for the events after an event id, of which there may be none. It reads at most page events per request; 0: as
// many as the owner sends. If page is greater than 1, payloads in the object store that are larger than 512 KiB are not read.
func (c *Client) HistoryAfter(ctx context.Context, id string, execution, after uint64, page int) iter.Seq2[Entry, error] {
	open := c.whole(ctx)
	if page > 1 { // a whole page is in memory
		open = c.small(ctx)
	}
	return func(yield func(Entry, error) bool) {
		for {
			var r request.HistoryPage
			err := c.requestInstance(ctx, id, &request.History{Instance: id, Execution: execution, After: after, Limit: page}, &r)
			if err == nil && after == 0 && len(r.Events) == 0 {
				err = &problemError{is: ErrNotFound, text: fmt.Sprintf("instance %s has no execution %d", id, r.Execution)}
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
			execution = r.Execution // the latest may change between pages
			if !c.entries(id, after, &r, open, yield) {
				return
			}
			if after += uint64(len(r.Events)); !r.More || len(r.Events) == 0 {
				return
			}
		}
	}
}

// entries yields the events of a page, and reports whether to continue.
func (c *Client) entries(id string, after uint64, r *request.HistoryPage, open opener, yield func(Entry, error) bool) bool {
	reports := make(map[uint64]*lease.Report, len(r.Reports))
	for _, report := range r.Reports {
		if r, ok := record.DecodeReport(report.Text); ok {
			reports[report.Activity] = &r
		}
	}
	for i, raw := range r.Events {
		entry := Entry{Execution: r.Execution, Raw: raw}
		e, err := eventcodec.Decode(after+uint64(i)+1, raw)
		if err != nil {
			yield(entry, fmt.Errorf("client: history of %s: %w", id, err))
			return false
		}
		if cancelled, ok := e.(*history.ActivityCancelRequested); ok {
			entry.Report = reports[cancelled.Scheduled]
		}
		_ = c.codec().OpenEvent(open, e) // a payload that cannot be decoded is returned as stored
		entry.ID, entry.At = e.Meta().ID, timeOf(e.Meta().At)
		entry.Type, entry.Event = reflect.TypeOf(e).Elem().Name(), e
		if !yield(entry, nil) {
			return false
		}
	}
	return true
}
