package store

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
)

// readRound is a set of requests that are sent together.
type readRound struct {
	calls []redisx.Call
	takes []func(v any, err error) error
}

// add adds a request; take receives the reply on the caller's goroutine.
func (r *readRound) add(call redisx.Call, take func(v any, err error) error) {
	r.calls, r.takes = append(r.calls, call), append(r.takes, take)
}

// sum adds a request for a number, which is added to *to.
func (r *readRound) sum(call redisx.Call, to *int64) {
	r.add(call, func(v any, err error) error {
		if err == nil {
			var n int64
			n, err = redisx.Int(v)
			*to += n
		}
		return err
	})
}

// do sends the requests, waits for all replies and passes them on.
func (r *readRound) do(ctx context.Context, run *redisx.Runner) error {
	type answer struct {
		v   any
		err error
	}
	answers := make([]answer, len(r.calls))
	var wg sync.WaitGroup
	wg.Add(len(r.calls))
	for i, call := range r.calls {
		run.Go(call, func(v any, err error) {
			answers[i] = answer{v, err}
			wg.Done()
		})
	}
	wg.Wait() // the runner bounds every call
	if err := context.Cause(ctx); err != nil {
		return err
	}
	for i, take := range r.takes {
		if err := take(answers[i].v, answers[i].err); err != nil {
			return err
		}
	}
	r.calls, r.takes = nil, nil
	return nil
}

// read reads instances: their records and inboxes, then the histories and other keys of the records, then the missing leases. With
// lists it reads their entries in the lists of the partition again, which are otherwise those of the scan.
func (c *checker) read(ctx context.Context, checks []*instanceCheck, lists bool) error {
	var round readRound
	for _, x := range checks {
		if lists {
			c.readLists(&round, x)
		}
		c.readRecord(&round, x)
	}
	if err := round.do(ctx, c.reader.run); err != nil {
		return err
	}
	for _, x := range checks {
		if lists {
			c.readValues(&round, x)
		}
		if !x.unreadable {
			c.readExecutions(&round, x)
		}
	}
	if err := round.do(ctx, c.reader.run); err != nil {
		return err
	}
	for _, x := range checks {
		if err := c.readLong(ctx, x); err != nil {
			return err
		}
		if !x.unreadable {
			c.readLeases(&round, x)
			c.readLedger(&round, x)
		}
	}
	return round.do(ctx, c.reader.run)
}

// noted turns an error that is due to the data into a violation of the instance, and returns any other error.
func (x *instanceCheck) noted(err error) error {
	if !Unreadable(err) {
		if err != nil {
			return fmt.Errorf("check: instance %s: %w", x.id, err)
		}
		return nil
	}
	x.violationf("%v", err)
	x.unreadable = true
	return nil
}

func (c *checker) readRecord(round *readRound, x *instanceCheck) {
	round.add(redisx.Command("HGETALL", c.reader.space.Part(x.part).Instance(x.id)), func(v any, err error) error {
		x.loaded.Record, err = recordOf(x.id, v, err)
		return x.noted(err)
	})
	if x.inbox {
		round.add(c.reader.unreadCall(x.part, x.id), func(v any, err error) error {
			x.loaded.Unread, err = unread(x.id, v, err)
			return x.noted(err)
		})
	}
}

func (c *checker) readLists(round *readRound, x *instanceCheck) {
	p := c.reader.space.Part(x.part)
	x.statuses, x.inbox = 0, true
	for i, st := range record.Statuses() {
		round.add(redisx.Command("ZSCORE", p.Index(string(st)), x.id), func(v any, err error) error {
			if v != nil && err == nil {
				x.statuses |= 1 << i
			}
			return x.noted(err)
		})
	}
	round.add(redisx.Command("ZSCORE", p.Wakeups(), x.id), func(v any, err error) error {
		if x.due = v != nil; x.due && err == nil {
			x.wakeup, err = score(v)
		}
		return x.noted(err)
	})
	for key, listed := range map[string]*bool{p.Stalled(): &x.listed, p.Early(): &x.early} {
		round.add(redisx.Command("HEXISTS", key, x.id), func(v any, err error) error {
			*listed = v == int64(1)
			return x.noted(err)
		})
	}
}

// readValues reads the scores of an instance in the sets that contain it, or should contain it.
func (c *checker) readValues(round *readRound, x *instanceCheck) {
	was, keys := x.values, make(map[string]bool)
	x.values = nil
	for _, set := range was {
		keys[set.key] = true
	}
	for _, e := range x.loaded.Record.Entries() {
		keys[setKey(c.reader.space.Part(x.part), &e)] = true
	}
	keys[stalledSet(c.reader.space.Part(x.part))] = true
	for key := range keys {
		round.add(redisx.Command("ZSCORE", key, x.id), func(v any, err error) error {
			if v != nil && err == nil {
				set := setScore{key: key}
				set.score, err = score(v)
				x.values = append(x.values, set)
			}
			return x.noted(err)
		})
	}
}

// readExecutions reads the history of the current execution and that of pending messages, the leases that the scan found, and the
// lengths of histories and reports that should not exist.
func (c *checker) readExecutions(round *readRound, x *instanceCheck) {
	p := c.reader.space.Part(x.part)
	if rec := x.loaded.Record; rec != nil {
		c.readHistory(round, x, rec.Execution, &x.loaded.Events)
		if rec.HasPendingMessages() && (rec.Status.Ended() || rec.Produced.Execution < rec.Execution) {
			c.readHistory(round, x, rec.Produced.Execution, &x.loaded.Previous)
		}
	}
	for _, k := range x.held {
		switch {
		case k.kind == 'l':
			c.readLease(round, x, k.execution, k.activity)
		case x.keepsExecution(k.execution):
		case k.kind == 'h':
			c.readLength(round, x, redisx.Command("LLEN", p.History(x.id, k.execution)), k, "a history of %d events")
		default:
			c.readLength(round, x, redisx.Command("HLEN", p.Reports(x.id, k.execution)), k, "reports on %d activities")
		}
	}
}

func (c *checker) readHistory(round *readRound, x *instanceCheck, execution uint64, into *[]history.Event) {
	round.add(c.reader.historyCall(x.part, x.id, execution, 0), func(v any, err error) error {
		*into, err = appendEvents(nil, x.id, v, err)
		return x.noted(err)
	})
}

func (c *checker) readLength(round *readRound, x *instanceCheck, call redisx.Call, k heldKey, what string) {
	round.add(call, func(v any, err error) error {
		length, ierr := redisx.Int(v)
		if err = errors.Join(err, ierr); err == nil && length > 0 { // otherwise it was removed since the scan
			x.leftover(k.execution, fmt.Sprintf(what, length))
		}
		return x.noted(err)
	})
}

func (c *checker) readLease(round *readRound, x *instanceCheck, execution, activity uint64) {
	round.add(redisx.Command("HGET", c.reader.space.Part(x.part).Lease(x.id, execution, activity), "e"), func(v any, err error) error {
		effect, serr := redisx.Str(v)
		if x.leases == nil {
			x.leases = make(map[heldKey]string)
		}
		x.leases[heldKey{'l', execution, activity}] = effect
		return x.noted(errors.Join(err, serr))
	})
}

// readLong reads the histories that are longer than one chunk, which are rare.
func (c *checker) readLong(ctx context.Context, x *instanceCheck) (err error) {
	if len(x.loaded.Events) == historyChunk {
		x.loaded.Events, err = c.reader.History(ctx, x.part, x.id, x.loaded.Record.Execution)
		if err = x.noted(err); err != nil {
			return err
		}
	}
	if len(x.loaded.Previous) == historyChunk {
		x.loaded.Previous, err = c.reader.History(ctx, x.part, x.id, x.loaded.Record.Produced.Execution)
	}
	return x.noted(err)
}

// readLeases folds the history, and reads the leases of outstanding activities that the scan did not find, and the inbox, which may
// contain their completions.
func (c *checker) readLeases(round *readRound, x *instanceCheck) {
	x.fold()
	missing := false
	for _, a := range x.state.Admitted() {
		if x.leases[heldKey{'l', executionOf(x.loaded.Record), a}] == "" {
			c.readLease(round, x, executionOf(x.loaded.Record), a)
			missing = true
		}
	}
	if missing {
		round.add(redisx.Command("LRANGE", c.reader.space.Part(x.part).Inbox(x.id), 0, -1), func(v any, err error) error {
			if err == nil {
				r := redisx.NewReply([]any{v})
				x.completions, err = elements(r.Strs(0)), r.Err()
			}
			return x.noted(err)
		})
	}
}
