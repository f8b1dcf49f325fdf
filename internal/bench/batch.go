package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/client"
)

const (
	batchInstances = 100_000
	batchKillAfter = 4                     // the owner is killed after 1/4 of the requests
	batchSmall     = 10_000                // instances; a smaller batch is rate-limited, so that it runs long enough to be killed
	batchSeconds   = 10                    // duration of a rate-limited batch
	batchPoll      = 20 * time.Millisecond // interval between two reads of the progress
	batchLast      = "last"                // data of the last batch's event
)

var (
	batched      = pawl.NewOrchestration[pawl.None, int]("bench-batched")
	batchedEvent = pawl.NewEvent[string]("bench-word")

	errBatchMissed  = pawl.NewError("bench-missed")
	errBatchDoubled = pawl.NewError("bench-doubled")
)

// batchOrchestrations returns the receivers of batches. An instance counts its events; at the last one it fails unless it has received
// exactly one before.
func batchOrchestrations() []pawl.OrchestrationBinding {
	return []pawl.OrchestrationBinding{batched.Do(func(ctx *pawl.Context, _ pawl.None) (int, error) {
		for n := 0; ; n++ {
			data, err := batchedEvent.Receive(ctx)
			switch {
			case err != nil:
				return n, err
			case data != batchLast:
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

// batchResult reports how fast a batch sends its requests, and which instances received them. No owner is killed during the last batch.
type batchResult struct {
	Scenario  string             `json:"scenario"`
	Instances int                `json:"instances"`
	Killed    bool               `json:"killed"`                   // the owner of the first batch received SIGKILL
	Seconds   float64            `json:"seconds"`                  // duration of the first batch
	PerS      float64            `json:"sent_per_s"`               // requests of the first batch
	GapS      float64            `json:"gap_s"`                    // longest time without progress
	LastPerS  float64            `json:"last_sent_per_s"`          // requests of the last batch
	EndedPerS float64            `json:"last_ended_per_s"`         // instances, from the start of the last batch to the last end
	Missed    int                `json:"missed"`                   // instances that did not receive both requests
	Doubled   int                `json:"doubled"`                  // instances that received the request of the first batch more than once
	CPU       map[string]float64 `json:"cpu_s_per_1000,omitempty"` // by process, from the start of the last batch to the last end; only without a kill
}

// batchBench is one run:
//
//	start the instances ──▶ batch "go" ──▶ all are sent ──▶ batch "last" ──▶ all have ended ──▶ count outcomes
//	                        its owner is killed
//
// The instances are the oracle: each counts its events before the last one, and the stream keeps the order of the two batches.
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
	ended, err := b.await(ctx, client.Completed, client.Failed)
	if err != nil {
		return err
	}
	m.EndedPerS = float64(ended) / time.Since(began).Seconds()
	if !r.opts.Kill { // the processor time of a killed process is lost
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

// fill starts the instances, and returns when all are running.
func (b *batchBench) fill(ctx context.Context, inFlight int) error {
	p := term.NewProgress(b.errw, b.n, "instances")
	defer p.End()
	if err := each(ctx, b.n, inFlight, func(ctx context.Context, _ int) error {
		_, err := client.Start(ctx, b.c, batched, b.id("batched"), pawl.None{})
		p.Add(1)
		return err
	}); err != nil {
		return err
	}
	if n, err := b.await(ctx, client.Running); err != nil || n < b.n {
		return errors.Join(err, fmt.Errorf("%d of %d instances run", n, b.n))
	}
	return nil
}

// await waits until all instances have one of the statuses, as long as their number grows, and returns the number.
func (b *batchBench) await(ctx context.Context, statuses ...client.Status) (int, error) {
	return untilAll(ctx, b.n, func() (n int) {
		for _, s := range statuses {
			n += b.count(ctx, batched.Name(), s)
		}
		return n
	})
}

// send sends an event to all instances. It returns the duration of the batch and the longest time without progress.
func (b *batchBench) send(ctx context.Context, event string, kill bool) (took, gap time.Duration, err error) {
	p := term.NewProgress(b.errw, b.n, "requests")
	defer p.End()
	data, err := json.Marshal(event)
	if err != nil {
		return 0, 0, err
	}
	batch := client.Batch{Verb: client.BatchEvent, Event: batchedEvent.Name(), Data: data, Where: fmt.Sprintf("orchestration = %q", batched.Name())}
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
		if n := int(st.Sent); err == nil && n > sent { //nolint:gosec // at most the instances of this run
			gap, sent, progressed = max(gap, now.Sub(progressed)), n, now
			p.Set(sent)
		}
		switch {
		case err == nil && status == client.Completed && kill:
			return 0, 0, errors.New("the batch ended before its owner was killed")
		case err == nil && status == client.Completed:
			return now.Sub(began), gap, nil
		case now.Sub(progressed) > canaryTimeout:
			return 0, 0, fmt.Errorf("batch %s makes no progress: %d of %d requests sent, %s: %w", id, sent, b.n, status, err)
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

// killOwner kills the orchestrator that owns an instance, and starts a new one.
func (b *batchBench) killOwner(ctx context.Context, id string) error {
	i := -1
	if err := until(ctx, func() bool { // a busy owner may answer late, so this is repeated
		all, _ := b.c.Partitions(ctx)
		owner := all[transport.PartitionOf(id, len(all))]
		i = slices.IndexFunc(b.f.orchestrators, func(m *member) bool { return m.PID() == owner.PID })
		return i >= 0
	}); err != nil {
		return fmt.Errorf("the owner of %s is not in the fleet: %w", id, err)
	}
	return errors.Join(b.f.orchestrators[i].Kill(), b.f.orchestrators[i].heal())
}

// failed counts the instances that failed with an error.
func (b *batchBench) failed(ctx context.Context, with *pawl.Error) (int, error) {
	n, err := b.c.Count(ctx, client.CountOptions{Where: fmt.Sprintf("code = %q", with.Code())})
	return int(n.Count), err //nolint:gosec // at most the instances of this run
}
