package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/queue"
)

const (
	batchInstances = 100_000
	batchKillAfter = 4                     // the owner is killed when one of so many requests is sent
	batchSmall     = 10_000                // instances: fewer get a rate, so that the batch runs long enough to be killed
	batchSeconds   = 10                    // that such a batch takes, by its rate
	batchPoll      = 20 * time.Millisecond // of its progress
	batchLast      = "last"
)

var (
	batched     = pawl.NewOrchestration[pawl.None, int]("bench-batched")
	batchedWord = pawl.NewEvent[string]("bench-word")

	errBatchMissed  = pawl.NewError("bench-missed")
	errBatchDoubled = pawl.NewError("bench-doubled")
)

// batchOrchestrations are what batches send events to: an instance counts them, and fails at the last one unless there was exactly one
// before.
func batchOrchestrations() []pawl.OrchestrationBinding {
	return []pawl.OrchestrationBinding{batched.Do(func(ctx *pawl.Context, _ pawl.None) (int, error) {
		for n := 0; ; n++ {
			word, err := batchedWord.Receive(ctx)
			switch {
			case err != nil:
				return n, err
			case word != batchLast:
			case n == 0:
				return n, errBatchMissed
			case n > 1:
				return n, errBatchDoubled
			default:
				return n, nil
			}
		}
	})}
}

// batchResult is how fast a batch sends its requests, and which instances got them. The last batch is without a kill.
type batchResult struct {
	Scenario  string             `json:"scenario"`
	Instances int                `json:"instances"`
	Killed    bool               `json:"killed"`  // the owner of the first batch, with signal 9
	Seconds   float64            `json:"seconds"` // of the first batch
	PerS      float64            `json:"sent_per_s"`
	GapS      float64            `json:"gap_s"`                    // longest time without progress
	LastPerS  float64            `json:"last_sent_per_s"`          // of the last batch
	EndedPerS float64            `json:"last_ended_per_s"`         // instances, from the start of the last batch to the last end
	Missed    int                `json:"missed"`                   // instances that did not get the request of the first batch, or of the last
	Doubled   int                `json:"doubled"`                  // instances that got that of the first batch more than once
	CPU       map[string]float64 `json:"cpu_s_per_1000,omitempty"` // of the last batch and its ends; by process, without a kill
}

// batchBench is one run:
//
//	start the instances ──▶ batch "go" ──▶ all are sent ──▶ batch "last" ──▶ all have ended ──▶ count how
//	                        its owner is killed
//
// The oracle is in the instances: each counts its events before the last one, and the stream keeps the order of the two batches.
type batchBench struct {
	*driver

	f    *fleet
	n    int
	errw io.Writer
}

// batch measures batches.
func (r *run) batch(ctx context.Context, f *fleet, d *driver) error {
	b := &batchBench{driver: d, f: f, n: cmp.Or(r.opts.Instances, batchInstances), errw: r.errw}
	if err := b.fill(ctx, r.opts.InFlight); err != nil {
		return err
	}
	m := batchResult{Scenario: "batch", Instances: b.n, Killed: r.opts.Kill}
	took, gap, err := b.send(ctx, "go", r.opts.Kill)
	if err != nil {
		return err
	}
	m.Seconds, m.GapS, m.PerS = took.Seconds(), gap.Seconds(), float64(b.n)/took.Seconds()
	before, began := f.cpu(), time.Now()
	if took, _, err = b.send(ctx, batchLast, false); err != nil {
		return err
	}
	m.LastPerS = float64(b.n) / took.Seconds()
	ended, err := b.grow(ctx, client.Completed, client.Failed)
	if err != nil {
		return err
	}
	m.EndedPerS = float64(ended) / time.Since(began).Seconds()
	if !r.opts.Kill { // the time of a process that has ended is not known
		m.CPU = perThousand(before, f.cpu(), b.n)
	}
	if m.Doubled, err = b.failed(ctx, errBatchDoubled); err != nil {
		return err
	}
	missed, err := b.failed(ctx, errBatchMissed)
	if err != nil {
		return err
	}
	m.Missed = b.n - ended + missed
	return r.report.add(m)
}

// fill starts the instances, and returns when all wait.
func (b *batchBench) fill(ctx context.Context, inFlight int) error {
	p := term.NewProgress(b.errw, b.n, "instances")
	defer p.End()
	var done atomic.Int64
	if err := each(ctx, b.n, inFlight, func(ctx context.Context, _ int) error {
		_, err := client.Start(ctx, b.c, batched, b.id("batched"), pawl.None{})
		p.Set(int(done.Add(1)))
		return err
	}); err != nil {
		return err
	}
	if n, err := b.grow(ctx, client.Running); err != nil || n < b.n {
		return errors.Join(err, fmt.Errorf("%d of %d instances run", n, b.n))
	}
	return nil
}

// grow waits until all instances have one of the statuses, for as long as their number grows, and returns it.
func (b *batchBench) grow(ctx context.Context, statuses ...client.Status) (n int, err error) {
	for n < b.n {
		before := n
		_ = until(ctx, func() bool {
			n = 0
			for _, s := range statuses {
				n += b.count(ctx, batched.Name(), s)
			}
			return n > before
		})
		if n <= before {
			return before, ctx.Err()
		}
	}
	return n, nil
}

// send sends a word to all instances, and returns how long it took, and the longest time without progress.
func (b *batchBench) send(ctx context.Context, word string, kill bool) (took, gap time.Duration, err error) {
	p := term.NewProgress(b.errw, b.n, "requests")
	defer p.End()
	data, err := json.Marshal(word)
	if err != nil {
		return 0, 0, err
	}
	batch := client.Batch{Verb: client.BatchEvent, Event: batchedWord.Name(), Data: data, Where: fmt.Sprintf("orchestration = %q", batched.Name())}
	if kill && b.n < batchSmall {
		batch.Rate = max(b.n/batchSeconds, 1)
	}
	id, began := b.id("batch"), time.Now()
	if _, err := b.c.StartBatch(ctx, id, batch); err != nil {
		return 0, 0, err
	}
	sent, progressed := 0, began
	for {
		st, status, err := b.c.DescribeBatch(ctx, id)
		now := time.Now()
		if got := int(st.Sent); err == nil && got > sent { //nolint:gosec // of instances that this process has started
			gap, sent, progressed = max(gap, now.Sub(progressed)), got, now
			p.Set(sent)
		}
		switch {
		case err == nil && status == client.Completed && kill:
			return 0, 0, errors.New("the batch has ended before its owner was killed")
		case err == nil && status == client.Completed:
			return now.Sub(began), gap, nil
		case now.Sub(progressed) > canaryTimeout:
			return 0, 0, fmt.Errorf("batch %s has no progress: %d of %d are sent, %s: %w", id, sent, b.n, status, err)
		case kill && sent >= b.n/batchKillAfter:
			if err := b.killOwner(ctx, id); err != nil {
				return 0, 0, err
			}
			kill = false
		}
		if err := waitUntil(ctx, now.Add(batchPoll)); err != nil {
			return 0, 0, err
		}
	}
}

// killOwner kills the orchestrator that owns an instance, and starts another.
func (b *batchBench) killOwner(ctx context.Context, id string) error {
	i := -1
	if err := until(ctx, func() bool { // a busy owner may answer late
		all, _ := b.c.Partitions(ctx)
		owner := all[queue.PartitionOf(id, len(all))]
		i = slices.IndexFunc(b.f.orchestrators, func(m *member) bool { return m.PID() == owner.PID })
		return i >= 0
	}); err != nil {
		return fmt.Errorf("the owner of %s is not of the fleet: %w", id, err)
	}
	return errors.Join(b.f.orchestrators[i].Kill(), b.f.orchestrators[i].heal())
}

// failed counts the instances that have ended with an error.
func (b *batchBench) failed(ctx context.Context, with *pawl.Error) (int, error) {
	n, err := b.c.Count(ctx, client.CountOptions{Where: fmt.Sprintf("code = %q", with.Code())})
	return int(n.Count), err //nolint:gosec // of instances that this process has started
}
