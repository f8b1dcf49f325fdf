package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/outage"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
)

const (
	idleAdvance    = 30 * time.Second // interval at which an idle partition advances its position to the end of the stream
	stallCheck     = 3 * time.Second  // the same, at first and while the reader misses an input, which it may never receive
	firstRetry     = 50 * time.Millisecond
	maxRetry       = 2 * time.Second
	maxAttachRetry = 250 * time.Millisecond // between attempts to read inputs; by then NATS has elected a new leader
)

// inputReader moves the inputs of a partition from the stream to the inboxes of their instances, starting at the stored position, for as long as
// the tenure lasts. It runs on a goroutine of its own, and reads a batch after the previous one is stored.
type inputReader struct {
	process *Process
	shell   *shell
}

// run reads until ctx ends.
func (ir *inputReader) run(ctx context.Context) {
	at := ir.shell.tenure.Applied
	pause, reattached := firstRetry, false
	for ctx.Err() == nil {
		r, err := ir.process.conn.Attach(ctx, ir.shell.st.Part, at)
		if err != nil {
			if ctx.Err() == nil {
				logFailure(ir.shell.log, "inputs not read, retrying", err, "after", at.Seq, "backoff", pause)
			}
			pause = min(wait(ctx, pause), maxAttachRetry)
			continue
		}
		if gap := r.Gap(); gap != nil {
			ir.process.met.gaps.Inc()
			ir.shell.log.Error("inputs removed from stream before being read", "error", gap)
		}
		pause = firstRetry
		if reattached {
			ir.shell.announce() // answers sent in between were lost
		}
		at = ir.drain(ctx, r, at)
		r.Stop()
		reattached = true
		if err := r.Err(); err != nil && ctx.Err() == nil {
			ir.shell.log.Debug("reading inputs interrupted, attaching again", "after", at.Seq, "error", err)
			pause = wait(ctx, pause)
		}
	}
}

// wait pauses for d, and returns the next pause.
func wait(ctx context.Context, d time.Duration) time.Duration {
	outage.Sleep(ctx, d)
	return min(2*d, maxRetry)
}

// drain ingests the batches of a reader until the reader or the tenure ends, and returns the new position.
func (ir *inputReader) drain(ctx context.Context, r *transport.Reader, at history.Position) history.Position {
	idle := time.NewTimer(stallCheck)
	defer idle.Stop()
	for {
		var batch []message.Input
		var next history.Position
		select {
		case <-ctx.Done():
			return at
		case <-r.Done():
			return at
		case batch = <-r.Batches():
			if len(batch) == 0 {
				continue
			}
			next = batch[len(batch)-1].Pos
		case <-idle.C:
			tail, ok, err := r.Tail(ctx)
			idle.Reset(idleAdvance)
			if r.Lagging() {
				idle.Reset(stallCheck)
			}
			// A stream that was restored without its most recent messages ends before `at`, until new ones are published.
			if err != nil || !ok || tail.Time <= at.Time {
				continue
			}
			next = tail
		}
		ir.shell.lag.begin(batch)
		for first := true; first || len(batch) > 0; first = false {
			n := message.Fitting(batch, record.IngestBytes)
			to := next
			if n < len(batch) {
				to = batch[n-1].Pos
			}
			if !ir.ingest(ctx, batch[:n], at, to) {
				return at
			}
			at, batch = to, batch[n:]
			ir.shell.lag.begin(batch)
		}
	}
}

// ingest pushes a batch to the inboxes. It returns false if the tenure has ended.
func (ir *inputReader) ingest(ctx context.Context, batch []message.Input, prev, next history.Position) bool {
	arrivals := ir.arrivals(ctx, batch)
	msgs := make([]record.Message, len(arrivals))
	for i := range arrivals {
		msgs[i] = arrivals[i].Msg
	}
	type answer struct {
		now     int64
		results []record.Ingested
		err     error
	}
	answers := make(chan answer, 1)
	for pause := firstRetry; ; pause = wait(ctx, pause) {
		ir.process.store.Ingest(ir.shell.st, prev, next, msgs, func(now int64, results []record.Ingested, err error) {
			answers <- answer{now, results, err} // never blocks: one call at a time
		})
		var got answer
		select {
		case got = <-answers:
		case <-ctx.Done(): // the script may still run; the fence and the position prevent that the batch is ingested twice
			return false
		}
		switch {
		case got.err == nil:
			failpoint.Here("orchestrator.ingested")
			ir.shell.tenure.Acked(next)
			ir.shell.lag.end(ir.process.met, got.now)
			ir.process.met.ingested.Add(float64(len(arrivals)))
			return ir.shell.post(core.Message{Kind: core.InputsIngested, Body: &core.Ingested{Now: got.now, To: next, Arrivals: arrivals, Results: got.results}})
		case errors.Is(got.err, record.ErrFenced):
			ir.shell.post(core.Message{Kind: core.TenureFailed, Err: got.err})
			return false
		case errors.Is(got.err, record.ErrConflict):
			ir.process.met.owners[core.CountConflicts].Add(1)
			ir.shell.post(core.Message{Kind: core.TenureFailed, Err: fmt.Errorf("%w: %w", record.ErrRolledBack, got.err)})
			return false
		case ctx.Err() != nil:
			return false
		case redisx.Refused(got.err) && len(batch) > 0:
			return ir.ingestApart(ctx, batch, prev, next, got.err)
		}
		ir.process.met.owners[core.CountStoreErrors].Add(1)
		logFailure(ir.shell.log, "inputs not ingested, retrying", got.err, "backoff", pause)
	}
}

// ingestApart bisects a batch to find the one message that Redis refuses, because a key of its instance has a foreign type, and skips it so that
// it does not block the others.
func (ir *inputReader) ingestApart(ctx context.Context, batch []message.Input, prev, next history.Position, cause error) bool {
	if half := len(batch) / 2; half > 0 {
		middle := batch[half-1].Pos
		return ir.ingest(ctx, batch[:half], prev, middle) && ir.ingest(ctx, batch[half:], middle, next)
	}
	in := batch[0]
	if ir.unblock(ctx, in) {
		return ir.ingest(ctx, batch, prev, next)
	}
	ir.process.met.refused.Inc()
	ir.shell.log.Error("input refused by redis, skipped", "instance", in.Instance, "seq", in.Pos.Seq, "error", cause)
	ir.shell.listRefusals(ctx, []record.Refusal{refusal(in, cause)})
	return ir.ingest(ctx, nil, prev, next)
}

func refusal(in message.Input, cause error) record.Refusal {
	return record.Refusal{Instance: in.Instance, Seq: in.Pos.Seq, At: in.Pos.Time / int64(time.Millisecond), Reason: cause.Error()}
}

// arrivals converts messages to inbox elements. It skips invalid messages: they are counted, logged, and stored for list --stalled, because
// their senders may be gone.
func (ir *inputReader) arrivals(ctx context.Context, batch []message.Input) []core.Arrival {
	out := make([]core.Arrival, 0, len(batch))
	var refused []record.Refusal
	defer func() { ir.shell.listRefusals(ctx, refused) }()
	for _, in := range batch {
		var err error
		ir.process.spans.received(&in)
		if out, err = core.Arrivals(out, in, ir.shell.seal); err != nil {
			ir.process.met.refused.Inc()
			ir.shell.log.Warn("invalid input skipped", "instance", in.Instance, "seq", in.Pos.Seq, "error", err)
			refused = append(refused, refusal(in, err))
			ir.shell.answer(in.Reply, request.Answer{Instance: in.Instance, Problem: &request.Problem{Code: request.ProblemRefused, Message: err.Error()}})
		}
	}
	return out
}

// unblock removes keys of a foreign type that keep a forced purge out of its inbox. It reports whether there were any.
func (ir *inputReader) unblock(ctx context.Context, in message.Input) bool {
	if in.Kind != message.KindPurge || !in.Force || in.Problem != nil {
		return false
	}
	ctx, stop := context.WithTimeout(ctx, maxRetry)
	defer stop()
	removed, err := ir.process.store.Unblock(ctx, ir.shell.st, in.Instance)
	switch {
	case err != nil:
		logFailure(ir.shell.log, "keys of another type not removed", err, "instance", in.Instance)
	case removed:
		ir.shell.log.Warn("keys of another type removed by forced purge", "instance", in.Instance)
	}
	return removed
}
