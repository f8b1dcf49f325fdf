package shard

import (
	"context"
	"encoding/hex"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/propagate"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/internal/tracing"
	"github.com/pawlrun/pawl/pkg/history"
)

const (
	spanBatches  = 1024             // capacity of the queue of turns whose spans are to be emitted
	flushTimeout = time.Second      // how long a hand-over waits for the exporter
	lostSpans    = 30 * time.Second // before an unclean takeover, how much the exporter of the previous owner may not have sent
	maxRespanned = 2_000            // instances of a partition whose spans are emitted again
)

// spans emits the spans of committed turns. A nil *spans stands for no tracer: it does nothing, without an allocation. See decision 71.
type spans struct {
	tracer  tracing.Tracer
	batches chan spanBatch
	dropped prometheus.Counter
}

// spanBatch holds what a turn has committed. All of it is immutable.
type spanBatch struct {
	in        *tracing.Instance
	events    []history.Event
	requested *history.CancelRequested
	settled   map[uint64]history.Event
	reached   chan struct{} // if not nil, the batch is a marker, and the channel is closed once the batches before it are emitted
}

func newSpans(tracer tracing.Tracer, met *Metrics) *spans {
	if tracer == nil {
		return nil
	}
	return &spans{tracer: tracer, batches: make(chan spanBatch, spanBatches), dropped: met.spansDropped}
}

// run passes spans to the tracer until ctx ends, and then those that are queued.
func (s *spans) run(ctx context.Context) {
	for {
		select {
		case b := <-s.batches:
			b.emit(s.tracer)
			continue
		case <-ctx.Done():
		}
		for {
			select {
			case b := <-s.batches:
				b.emit(s.tracer)
			default:
				return
			}
		}
	}
}

func (b spanBatch) emit(to tracing.Tracer) {
	if b.reached != nil {
		close(b.reached)
		return
	}
	b.in.Events(b.events, b.requested, func(id uint64) history.Event { return b.settled[id] }, to.Emit)
}

// committed queues the spans of a committed turn. It does not block.
func (s *spans) committed(id string, t *core.Decided) {
	if s == nil || t.Fold == nil || len(t.Events) == 0 {
		return
	}
	in, ok := tracing.Of(id, t.Fold.Started)
	if !ok {
		return
	}
	select {
	case s.batches <- spanBatch{in: in, events: t.Events, requested: t.Fold.Cancel, settled: t.Settled}:
	default:
		s.dropped.Inc()
	}
}

// flush exports the spans of a partition that is about to be handed over, within flushTimeout: after a clean takeover the next owner does not
// emit them again.
func (s *spans) flush(ctx context.Context, log *slog.Logger) {
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	reached := make(chan struct{})
	select {
	case s.batches <- spanBatch{reached: reached}:
		select {
		case <-reached:
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
	if err := s.tracer.Flush(ctx); err != nil {
		logFailure(log, "spans not exported before a hand-over", err)
	}
}

// received adds the trace headers, with which its spans begin, to a start.
func (s *spans) received(in *message.Input) {
	if s != nil && in.Kind == message.KindStart && in.Problem == nil {
		in.Headers = propagate.Traced(in.Headers, in.Instance, in.Pos, s.tracer.Sample)
	}
}

// emitAgain repeats the spans that began or ended shortly before an unclean takeover: the previous owner may have died before it exported them.
// The channel is closed when they are emitted; nil: there is nothing to emit. A hand-over waits for it, because the next owner emits nothing
// again after a clean takeover.
func (s *shell) emitAgain() <-chan struct{} {
	if s.process.spans == nil || s.tenure.Clean {
		return nil
	}
	emitted := make(chan struct{})
	s.effects.Go(func() {
		defer close(emitted)
		s.process.spans.emitRecent(s.life, s)
	})
	return emitted
}

// emitRecent is best effort: an instance that cannot be read is skipped.
func (s *spans) emitRecent(ctx context.Context, of *shell) {
	since := time.Now().Add(-lostSpans - of.process.cfg.OwnerTTL).UnixMilli()
	q := store.ListQuery{Statuses: record.Statuses(), Limit: maxRespanned / 4, Span: func(record.Status) (from, until int64) { return since, 1 << 53 }}
	for n := 0; n < maxRespanned; {
		page, err := of.process.store.List(ctx, of.st.Part, q)
		if err != nil {
			logFailure(of.log, "spans of last owner not emitted", err)
			return
		}
		for _, row := range page.Rows {
			if row.Record != nil {
				s.emitInstance(ctx, of, row.Instance, row.Record, since)
			}
		}
		if n += len(page.Rows); !page.More {
			return
		}
		q.Updated, q.Instance = page.Updated, page.Instance
	}
}

func (s *spans) emitInstance(ctx context.Context, of *shell, id string, rec *record.Record, since int64) {
	first, err := of.process.store.RawHistory(ctx, of.st.Part, id, rec.Execution, 0, 1)
	if err != nil || len(first) == 0 {
		return
	}
	start, err := eventcodec.Decode(1, first[0])
	started, _ := start.(*history.Started)
	in, sampled := tracing.Of(id, started)
	if err != nil || !sampled {
		return
	}
	all := []history.Event{started}
	for rest := true; rest; {
		raw, err := of.process.store.RawHistory(ctx, of.st.Part, id, rec.Execution, uint64(len(all)), spanBatches)
		if err != nil {
			return
		}
		for _, b := range raw {
			e, err := eventcodec.Decode(uint64(len(all))+1, b)
			if err != nil {
				return
			}
			all = append(all, e)
		}
		rest = len(raw) == spanBatches
	}
	in.Recent(all, since, s.tracer.Emit)
}

// traceLogger adds the trace id of an instance to its log lines.
func traceLogger(log *slog.Logger, g *core.Given) *slog.Logger {
	var first history.Event
	if len(g.Events) > 0 {
		first = g.Events[0]
	} else if len(g.Inputs) > 0 {
		first = g.Inputs[0].Ev
	}
	s, ok := first.(*history.Started)
	if !ok || s.Headers == "" {
		return log
	}
	from, ok := history.ParseTraceparent(s.Headers.Get(history.HeaderTraceparent))
	if !ok {
		return log
	}
	return log.With("trace_id", hex.EncodeToString(from.Trace[:]))
}
