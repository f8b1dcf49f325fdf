package builtin

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/history"
)

// Instances gives batches access to the instances of the namespace.
type Instances struct {
	Partitions int
	// List returns at most limit instances of a partition that match a filter, latest change of status first, and the cursor of the next
	// page, which is empty after the last page. It must return within a second or two, because it is called within a turn.
	List func(partition int, where filter.Where, cursor string, limit int) (rows []Listed, next string, err error)
}

// Listed is an instance in a list.
type Listed struct {
	Instance string
	Since    int64 // when it reached its status, Unix ms
	Problem  bool  // whether the instance cannot be read
}

const (
	maxPage   = 500                    // maximum number of requests per execution
	pageTime  = 250 * time.Millisecond // when a page has taken this long, no further list is read for it
	pageRetry = time.Second            // backoff after a page could not be read
	maxBurst  = time.Second            // how much delay a batch with a rate may catch up
)

// batch is the program of pawl.batch. Each execution handles one page:
//
//	read a page ──▶ send the request to its instances ──▶ publish the state ──▶ wait, for the rate ──▶ continue as new, after the page
//	    │                                                                         └─ no more pages: completed, with the state
//	    └─ it cannot be read ──▶ wait ──▶ continue as new, with the same page
//
// The page is a side effect, so its instances are recorded in the history, and its requests are one event, Broadcast. The requests stay
// in the outbox until the stream has stored them, and the next execution does not begin before that, so at most one page is in flight. A
// cancellation ends the batch between two pages. Pause, resume and purge work as for any instance.
//
// If the number of partitions changes in the meantime, all partitions are read again.
//
// A partition is read from the latest change of status to the earliest. An instance whose status changes in the meantime moves to the
// front, where it would be missed. So the part of the list in front of the first instance that was read is read a second time, unless the
// verb is for instances that have ended. Instances started after the batch are not included.
//
// Crash points. Before the commit nothing is sent, and the page is read again. After the commit the messages are in the history, and are
// sent again unless the watermark shows that the stream has stored them. All messages of a batch have the same id, by which an instance
// recognizes a duplicate for an hour; this also covers instances that the second reading finds again. Each instance therefore receives
// the request once.
func (n Instances) batch(x *replay.Code) replay.Ending {
	result, err := n.runBatch(x)
	if err == nil {
		return replay.Ending{Result: result}
	}
	if f, ok := errors.AsType[*history.Failure](err); ok {
		err = &pawl.Failure{Failure: *f}
	}
	_, cancelled := errors.AsType[*pawl.Cancelled](err)
	return replay.Ending{Failure: author.ToFailure(err), Cancelled: cancelled}
}

func (n Instances) runBatch(x *replay.Code) (history.Payload, error) {
	var st BatchState
	if err := json.Unmarshal(x.Input().Data, &st); err != nil {
		return history.Payload{}, fmt.Errorf("input of %s: %w: %w", x.Name(), err, pawl.ErrUndecodable)
	}
	if err := st.Batch.Check(); err != nil {
		return history.Payload{}, err
	}
	if st.Place.Partition < 0 { // the input was made by hand
		return history.Payload{}, fmt.Errorf("batch: partition %d: %w", st.Place.Partition, pawl.ErrUndecodable)
	}
	if st.Began.IsZero() {
		st.Began = x.Now()
	}
	got, failure, err := n.next(x, &st)
	if err != nil {
		return history.Payload{}, err
	}
	if len(got.Instances) > 0 {
		if err := x.Broadcast(st.Batch.broadcast(got.Instances), nil); err != nil {
			return history.Payload{}, err
		}
	}
	wait := st.take(got, failure, x.Now())
	state, err := json.Marshal(&st)
	if err != nil {
		return history.Payload{}, err
	}
	p := history.Payload{Type: history.TypeJSON, Data: state}
	if err := x.SetStatus("", p); err != nil || st.over() {
		return p, err
	}
	if wait > 0 {
		if err := x.Wait(x.Timer(wait, nil), nil); err != nil {
			return p, err
		}
	}
	return p, x.ContinueAsNew(p, "", nil)
}

func (st *BatchState) over() bool { return st.Place.Partition >= st.Partitions }

// take adds a page to the state, and returns how long to wait for the next one.
func (st *BatchState) take(got page, failure error, now time.Time) (wait time.Duration) {
	if st.Problem = ""; failure != nil {
		st.Problem = text.Shorten(failure.Error(), maxNote)
		return pageRetry
	}
	st.Partitions, st.Place = got.Partitions, got.Next
	st.Sent, st.Skipped = st.Sent+uint64(len(got.Instances)), st.Skipped+got.Skipped
	if st.Batch.Rate == 0 {
		return 0
	}
	if earliest := now.Add(-maxBurst); st.Due.Before(earliest) {
		st.Due = earliest
		if st.Sent == uint64(len(got.Instances)) { // the first page has no delay to catch up
			st.Due = now
		}
	}
	st.Due = st.Due.Add(time.Duration(len(got.Instances)) * time.Second / time.Duration(st.Batch.Rate))
	return st.Due.Sub(now)
}

// page is the next part of the instances of a batch.
type page struct {
	Instances  []string `json:"instances,omitempty"`
	Skipped    uint64   `json:"skipped,omitempty"`
	Partitions int      `json:"partitions"`
	Next       Place    `json:"next"`
}

// next reads the next page, or returns the recorded one on replay. failure is the reason for which it could not be read.
func (n Instances) next(x *replay.Code, st *BatchState) (got page, failure, err error) {
	p, err := x.SideEffect(func() (history.Payload, *history.Failure) {
		var b []byte
		got, err := n.read(x.Identity().Instance, st)
		if err == nil {
			b, err = json.Marshal(got)
		}
		if err != nil {
			return history.Payload{}, author.ToFailure(err)
		}
		return history.Payload{Type: history.TypeJSON, Data: b}, nil
	}, nil)
	if f, ok := errors.AsType[*history.Failure](err); ok {
		return page{}, f, nil
	}
	if err == nil {
		err = json.Unmarshal(p.Data, &got)
	}
	return got, nil, err
}

// read reads a page of instances from the stores.
func (n Instances) read(self string, st *BatchState) (page, error) {
	where, err := st.Batch.Filter(st.Began)
	if err != nil {
		return page{}, err
	}
	where = append(where, filter.Term{Field: filter.Started, Op: filter.BeforeOrAt, At: st.Began.UnixMilli()})
	limit := maxPage
	if st.Batch.Rate > 0 {
		limit = min(limit, st.Batch.Rate)
	}
	got := page{Partitions: n.Partitions, Next: st.Place}
	if st.Partitions != 0 && st.Partitions != n.Partitions { // the number changed, so the place now refers to other instances
		got.Next = Place{}
	}
	got.Next.Firsts = slices.Clone(got.Next.Firsts)
	taken := map[string]bool{self: true}
	for until := time.Now().Add(pageTime); len(got.Instances) < limit && got.Next.Partition < n.Partitions && time.Now().Before(until); {
		at := &got.Next
		rows, next, err := n.List(at.Partition, where, at.Cursor, limit-len(got.Instances))
		if err != nil && len(got.Instances) == 0 {
			return page{}, err
		}
		if err != nil {
			return got, nil //nolint:nilerr // the rest is read for the next page, which fails if the error persists
		}
		for _, row := range rows {
			if at.Again && row.Since < at.First {
				next = ""
				break
			}
			if at.First == 0 {
				at.First = row.Since
			}
			if !at.Again && row.Since == at.First {
				at.Firsts = append(at.Firsts, row.Instance)
			}
			switch {
			case at.Again && slices.Contains(at.Firsts, row.Instance) && row.Since == at.First:
			case row.Problem, row.Instance == self:
				got.Skipped++
			case !taken[row.Instance]:
				taken[row.Instance] = true
				got.Instances = append(got.Instances, row.Instance)
			}
		}
		got.Next = at.after(next, st.Batch.again())
	}
	return got, nil
}

// after returns the place after a list whose next page has the cursor.
func (p Place) after(cursor string, again bool) Place {
	switch {
	case cursor != "":
		p.Cursor = cursor
		return p
	case again && !p.Again && p.First != 0:
		return Place{Partition: p.Partition, First: p.First, Firsts: p.Firsts, Again: true}
	default:
		return Place{Partition: p.Partition + 1}
	}
}
