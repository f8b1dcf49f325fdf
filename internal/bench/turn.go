package bench

import (
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

// turnResult reports the cost of the turn engine alone, on one core and without servers.
type turnResult struct {
	Scenario   string           `json:"scenario"`
	TurnNS     float64          `json:"turn_ns"`             // per turn of a parked instance: a completion that schedules the next activity
	TurnAllocs float64          `json:"turn_allocs"`         // allocations per turn
	ReplayPerS float64          `json:"replay_events_per_s"` // replays of the history of a chain
	JoinNS     map[string]int64 `json:"join_ns"`             // starting and gathering n activities, by n
}

const (
	turnTime    = time.Second // duration of a measurement
	replayLen   = 10_000      // events
	joinTotal   = 20_000      // activities per batch of joins
	joinBatches = 5
)

// turnBench contains the handles of a chain that does not end, and of a join.
type turnBench struct {
	step  pawl.Activity[int, int]
	chain pawl.Orchestration[int, int]
	join  pawl.Orchestration[int, int]
}

func newTurnBench() turnBench {
	return turnBench{
		step:  pawl.NewActivity[int, int]("step"),
		chain: pawl.NewOrchestration[int, int]("chain"),
		join:  pawl.NewOrchestration[int, int]("join"),
	}
}

// turn measures the turn, the replay and the join.
func (r *run) turn() error {
	b := newTurnBench()
	result := turnResult{Scenario: "turn", JoinNS: make(map[string]int64)}
	var err error
	if result.TurnNS, result.TurnAllocs, err = b.turn(turnTime); err != nil {
		return err
	}
	if result.ReplayPerS, err = b.replay(turnTime); err != nil {
		return err
	}
	for _, n := range []int{100, 1_000, 10_000} {
		took, err := b.gather(n)
		if err != nil {
			return err
		}
		result.JoinNS[fmt.Sprint(n)] = took.Nanoseconds()
	}
	return r.report.add(result)
}

func execution(o pawl.OrchestrationBinding) *replay.Execution {
	return replay.New(effectid.Identity{Instance: "bench"}, author.Program(o),
		replay.Options{Limits: replay.Limits{Events: math.MaxInt64, WarnEvents: math.MaxInt64}})
}

func (b turnBench) endless() pawl.OrchestrationBinding {
	return b.chain.Do(func(ctx *pawl.Context, n int) (int, error) {
		for {
			var err error
			if n, err = b.step.Call(ctx, n); err != nil {
				return 0, err
			}
		}
	})
}

// start starts an execution with an input, and returns the result that its activities are completed with.
func (b turnBench) start(x *replay.Execution, o pawl.Orchestration[int, int], in int) (result history.Payload, err error) {
	p, err := author.Input(o).Encode(in)
	if err == nil {
		_, err = x.Apply(&history.Started{Name: o.Name(), Payload: p})
	}
	if err != nil {
		return result, err
	}
	return author.Result(b.step).Encode(1)
}

// turn applies completions to a parked chain for a duration.
func (b turnBench) turn(d time.Duration) (ns, allocs float64, err error) {
	x := execution(b.endless())
	defer func() { _ = x.Evict() }()
	result, err := b.start(x, b.chain, 1)
	if err != nil {
		return 0, 0, err
	}
	x.Take()
	scheduled, turns := x.Len(), 0
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	for time.Since(began) < d {
		for range 1000 {
			if _, err := x.Apply(&history.ActivityCompleted{Scheduled: scheduled, Result: result}); err != nil {
				return 0, 0, err
			}
			x.Take()
			scheduled = x.Len()
		}
		turns += 1000
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	return float64(took.Nanoseconds()) / float64(turns), float64(after.Mallocs-before.Mallocs) / float64(turns), nil
}

// replay replays the history of a chain repeatedly for a duration.
func (b turnBench) replay(d time.Duration) (perSecond float64, err error) {
	x := execution(b.endless())
	result, err := b.start(x, b.chain, 1)
	if err != nil {
		return 0, err
	}
	for x.Len() < replayLen {
		if _, err := x.Apply(&history.ActivityCompleted{Scheduled: x.Len(), Result: result}); err != nil {
			return 0, err
		}
	}
	events := x.Take()
	if err := x.Evict(); err != nil {
		return 0, err
	}
	rounds := 0
	began := time.Now()
	for time.Since(began) < d {
		x := execution(b.endless())
		if err := x.Replay(events); err != nil {
			return 0, err
		}
		if err := x.Evict(); err != nil {
			return 0, err
		}
		rounds++
	}
	return float64(rounds*len(events)) / time.Since(began).Seconds(), nil
}

// gather measures one join of n activities. The joins of a batch have joinTotal activities in total, so that the results of all widths
// include garbage collection. The fastest batch counts, because the slower ones were disturbed by other load on the machine.
func (b turnBench) gather(n int) (best time.Duration, err error) {
	for range joinBatches {
		began := time.Now()
		rounds := joinTotal / n
		for range rounds {
			if err := b.joined(n); err != nil {
				return 0, err
			}
		}
		if took := time.Since(began) / time.Duration(rounds); best == 0 || took < best {
			best = took
		}
	}
	return best, nil
}

// joined starts n activities, completes them in reverse order, and collects their results.
func (b turnBench) joined(n int) error {
	all := b.join.Do(func(ctx *pawl.Context, n int) (int, error) {
		fs := make([]*pawl.Future[int], n)
		for i := range fs {
			fs[i] = b.step.Start(ctx, i)
		}
		results, err := pawl.All(ctx, fs...)
		return len(results), err
	})
	x := execution(all)
	result, err := b.start(x, b.join, n)
	if err != nil {
		return err
	}
	for i := n; i > 0; i-- {
		scheduled := uint64(i) + 1
		if _, err := x.Apply(&history.ActivityCompleted{Scheduled: scheduled, Result: result}); err != nil {
			return err
		}
	}
	if !x.Ended() || len(x.Take()) != 2*n+2 {
		return fmt.Errorf("a join of %d activities has an unexpected history", n)
	}
	return nil
}
