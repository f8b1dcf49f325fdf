package resize

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
)

const (
	tailEvery   = 250 * time.Millisecond // interval at which the end of the stream is read while no inputs arrive
	maxAttaches = 5
)

// reader ingests the inputs that the former partitions had not ingested.
type reader struct {
	*change
	unread []uint64           // by former partition: the first sequence that it had not ingested
	behind []uint64           // by partition: the first sequence that no earlier run has ingested
	at     []history.Position // by partition
	target uint64             // all inputs after this sequence were published by the new number
}

// read ingests all inputs up to the target, and moves the positions of all partitions there.
func (c *change) read(ctx context.Context, conn *transport.Conn) error {
	r := &reader{change: c, unread: make([]uint64, c.From), behind: make([]uint64, c.To), at: make([]history.Position, c.To)}
	begin := func(ctx context.Context, part int) (err error) {
		if err = c.Begin(ctx, c.ID, part); err != nil {
			return err
		}
		if r.at[part], err = c.store.Applied(ctx, part); err == nil && r.at[part].Seq > 0 {
			r.behind[part], _, err = conn.FirstAfter(ctx, r.at[part])
		}
		return err
	}
	if err := all(ctx, c.To, begin); err != nil {
		return err
	}
	failpoint.Here("resize.positioned")
	var first history.Position
	for p, applied := range c.Applied {
		seq, gap, err := conn.FirstAfter(ctx, applied)
		if err != nil {
			return err
		}
		if gap != nil {
			c.Logger.Error("inputs removed from stream before being read", "partition", p, "error", gap)
		}
		if r.unread[p] = seq; p == 0 || seq < slices.Min(r.unread[:p]) {
			first = applied
		}
	}
	accepted, err := conn.Accepted(ctx, transport.AllPartitions, history.Position{})
	if err != nil || accepted.End.Seq == 0 { // nothing was ever accepted
		return err
	}
	r.target = accepted.End.Seq
	for try := 1; ; try++ {
		in, err := conn.Attach(ctx, transport.AllPartitions, first)
		if err != nil {
			return err
		}
		err = r.drain(ctx, in)
		in.Stop()
		if err == nil || !errors.Is(err, transport.ErrDetached) || try == maxAttaches {
			return err
		}
	}
}

// drain ingests up to the target.
func (r *reader) drain(ctx context.Context, in *transport.Reader) error {
	tick := time.NewTicker(tailEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-in.Done():
			return in.Err()
		case batch := <-in.Batches():
			if err := r.ingestUnread(ctx, batch); err != nil {
				return err
			}
			if last := batch[len(batch)-1].Pos; last.Seq >= r.target {
				return r.settle(ctx, last)
			}
		case <-tick.C: // the last inputs may have been removed from the stream
			tail, ok, err := in.Tail(ctx)
			if err != nil {
				return err
			}
			if ok {
				return r.settle(ctx, tail)
			}
		}
	}
}

// ingestUnread ingests the unread inputs of a batch.
func (r *reader) ingestUnread(ctx context.Context, batch []message.Input) error {
	unread := make(map[int][]message.Input)
	for _, x := range batch {
		p := r.home(x.Instance)
		if x.Pos.Seq >= r.unread[transport.PartitionOf(x.Instance, r.From)] && x.Pos.Seq >= r.behind[p] {
			unread[p] = append(unread[p], x)
			r.result.Inputs++
		}
	}
	r.Progress("read inputs", r.result.Inputs, 0)
	g, ctx := errgroup.WithContext(ctx)
	for p, some := range unread {
		g.Go(func() error {
			for len(some) > 0 {
				n := message.Fitting(some, record.IngestBytes)
				if err := r.ingest(ctx, p, some[:n], some[n-1].Pos); err != nil {
					return err
				}
				some = some[n:]
			}
			return nil
		})
	}
	return g.Wait()
}

// settle moves the positions of all partitions to the end of the inputs that were read.
func (r *reader) settle(ctx context.Context, end history.Position) error {
	return all(ctx, r.To, func(ctx context.Context, part int) error {
		if r.at[part] == end {
			return nil
		}
		return r.ingest(ctx, part, nil, end)
	})
}

// ingest pushes inputs to the inboxes of a partition, as its owner does, and moves its position. Inputs that are invalid, or over a bound, are
// added to the refused inputs.
func (r *reader) ingest(ctx context.Context, part int, batch []message.Input, next history.Position) error {
	var arrivals []core.Arrival
	var refused []record.Refusal
	refuse := func(instance string, pos history.Position, reason string) {
		r.Logger.Warn("invalid input skipped", "instance", instance, "seq", pos.Seq, "error", reason)
		refused = append(refused, record.Refusal{Instance: instance, Seq: pos.Seq, At: pos.Time / int64(time.Millisecond), Reason: reason})
	}
	for _, x := range batch {
		var err error
		if arrivals, err = core.Arrivals(arrivals, x, r.tenures[part].Seal()); err != nil {
			refuse(x.Instance, x.Pos, err.Error())
		}
	}
	messages := make([]record.Message, len(arrivals))
	for i := range arrivals {
		messages[i] = arrivals[i].Msg
	}
	type answer struct {
		results []record.Ingested
		err     error
	}
	answers := make(chan answer, 1)
	r.store.Ingest(r.tenures[part], r.at[part], next, messages, func(_ int64, results []record.Ingested, err error) { answers <- answer{results, err} })
	got := <-answers
	switch {
	case got.err == nil:
	case redisx.Refused(got.err) && len(batch) > 1: // a key of an instance has a foreign type
		half := len(batch) / 2
		if err := r.ingest(ctx, part, batch[:half], batch[half-1].Pos); err != nil {
			return err
		}
		return r.ingest(ctx, part, batch[half:], next)
	case redisx.Refused(got.err) && len(batch) == 1:
		refuse(batch[0].Instance, batch[0].Pos, got.err.Error())
		if err := r.ingest(ctx, part, nil, next); err != nil {
			return err
		}
	default:
		return fmt.Errorf("partition %d: ingest inputs up to %d: %w", part, next.Seq, got.err)
	}
	r.at[part] = next
	for i, x := range got.results {
		if x.Full || x.Early {
			refuse(arrivals[i].Instance, arrivals[i].Pos, core.OverBound(x.Early))
		}
	}
	failpoint.Here("resize.ingested")
	if len(refused) == 0 {
		return nil
	}
	return r.store.Refuse(ctx, r.tenures[part], refused)
}
