package transport

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/pkg/history"
)

// Trim removes inputs that every partition has stored: those before lowest, the lowest stored position of all partitions, that are older
// than window by the server's clock. The message at lowest is kept: it is the anchor by which the next Trim and the next Attach detect
// whether the stream is still the same. If the stream has no message there, or one with another time, nothing is removed and the error is
// ErrMoved. A stream that begins after lowest was already trimmed.
//
// A stream that fills up keeps less than the window, so that publishers are rejected only if orchestrators do not keep up: see Fill.
//
// JetStream has no conditional purge, so a stream that is replaced in the milliseconds between the check and the purge could lose its
// messages below lowest. The new stream would have to receive that many messages within those milliseconds.
func (c *inputStream) Trim(ctx context.Context, lowest history.Position, window time.Duration) (purged uint64, err error) {
	fail := func(err error) (uint64, error) {
		return 0, fmt.Errorf("queue: trim the inputs up to %d: %w", lowest.Seq, err)
	}
	if lowest.Seq == 0 {
		return 0, nil
	}
	stream, err := c.js.Stream(ctx, c.streams.inputs.Name)
	if err != nil {
		return fail(c.explain(err))
	}
	info := stream.CachedInfo()
	first := info.State.FirstSeq
	if info.State.Msgs == 0 {
		first = info.State.LastSeq + 1
	}
	if lowest.Seq <= first && lowest.Seq <= info.State.LastSeq {
		return 0, nil
	}
	limit := info.TimeStamp.Add(-shrunk(window, fillOf(info))).UnixNano()
	upTo := lowest.Seq
	if lowest.Time > limit {
		if upTo, err = c.streams.firstLater(ctx, info.State, limit); err != nil {
			return fail(err)
		}
		upTo = min(upTo, lowest.Seq)
	}
	same, err := c.anchored(ctx, info.State, lowest)
	switch {
	case err != nil:
		return fail(err)
	case !same:
		return fail(ErrMoved)
	case upTo <= first:
		return 0, nil
	}
	var answer struct {
		Purged uint64 `json:"purged"`
	}
	request := struct {
		Seq uint64 `json:"seq"` // first sequence that is kept
	}{upTo}
	if err := c.streams.api(ctx, "STREAM.PURGE."+c.streams.inputs.Name, request, &answer); err != nil {
		return fail(err)
	}
	return answer.Purged, nil
}

// HalfFull is the Fill from which on a stream keeps less than its window.
const HalfFull = 0.5

// Fill returns the used share of the size limit of INPUTS, from 0 to 1; 0 if it has no limit.
func (c *inputStream) Fill(ctx context.Context) (float64, error) {
	info, err := c.streams.info(ctx, c.streams.inputs.Name)
	if err != nil {
		return 0, fmt.Errorf("queue: state of the inputs stream: %w", err)
	}
	return fillOf(info), nil
}

func fillOf(info *jetstream.StreamInfo) float64 {
	limit := sizeLimit(info.Config.MaxBytes)
	if limit == 0 {
		return 0
	}
	return float64(info.State.Bytes) / float64(limit)
}

// shrunk returns the window for a stream with the given fill: all of it below one half, a tenth of it up to three quarters, and a sixtieth
// above. A sixtieth of ten minutes is ten seconds, longer than what a Redis rollback normally loses.
func shrunk(window time.Duration, fill float64) time.Duration {
	switch {
	case fill < HalfFull:
		return window
	case fill < (1+HalfFull)/2:
		return window / 10
	default:
		return window / 60
	}
}
