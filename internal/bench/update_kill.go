package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
)

const (
	killUpdates       = 100_000
	killOrchestrators = 3
	killClients       = 4
	updatesOfOne      = 500 // updates per instance: fewer than the answers that it retains
	repeatOfUpdates   = 8   // one in 8 updates is sent by two clients at the same time
	firstKill         = 100 * time.Millisecond
	killInterval      = 3 * time.Second        // shorter than a takeover
	rollbackEvery     = 3                      // every third fault is a rollback
	rollbackOf        = 700 * time.Millisecond // time whose writes are lost
	updateTimeout     = 2 * time.Minute        // after which an update counts as lost
)

// updateKillResult reports on updates that are sent while orchestrators are killed.
type updateKillResult struct {
	Scenario  string  `json:"scenario"`
	Updates   int     `json:"updates"`
	Instances int     `json:"instances"`
	Seconds   float64 `json:"seconds"`
	Kills     int     `json:"kills"`     // of orchestrators, with SIGKILL
	Rollbacks int     `json:"rollbacks"` // of Redis
	Repeats   int     `json:"repeats"`   // requests with an id that was sent before: by two clients, after an error, and for all at the end
	P50MS     float64 `json:"p50_ms"`
	P99MS     float64 `json:"p99_ms"`
	MaxMS     float64 `json:"max_ms"`
	Lost      int     `json:"lost"`    // updates that were not answered or not executed
	Doubled   int     `json:"doubled"` // executions of an update after the first
	Changed   int     `json:"changed"` // repeats with a different answer; a rollback may cause them
}

// updateKill is one run of updates under faults:
//
//	start the instances ──▶ send the updates, some twice ──▶ all are answered ──▶ send all again ──▶ close the instances ──▶ compare
//	                        orchestrators are killed; Redis is rolled back ────▶ heal
//
// The oracle is a counter in each instance, which is carried across continue-as-new, and with which the instance numbers the updates that
// it executes. The answers to n ids must be the numbers 1 to n, each once, and the counter must end at n.
type updateKill struct {
	run *run

	f       *fleet
	clients []*driver
	ids     []string // of instances
	answers []int    // by update; 0: none
	result  updateKillResult
	killed  chan struct{} // closed by the first kill
	repeats atomic.Int64
	changed atomic.Int64
}

// updateKill measures updates under faults.
func (r *run) updateKill(ctx context.Context, f *fleet, d *driver) error {
	k := &updateKill{run: r, f: f, clients: []*driver{d}, killed: make(chan struct{})}
	k.result = updateKillResult{Scenario: "update-kill", Updates: cmp.Or(r.opts.Instances, killUpdates)}
	for len(k.clients) < killClients {
		d, err := r.connect(ctx)
		if err != nil {
			return err
		}
		defer d.close()
		k.clients = append(k.clients, d)
	}
	if err := f.awaitComplete(ctx, d); err != nil {
		return err
	}
	for range max(k.result.Updates/updatesOfOne, updateInstances) {
		id := d.id("update")
		if _, err := client.Start(ctx, d.c, tallied, id, 0); err != nil {
			return err
		}
		k.ids = append(k.ids, id)
	}
	k.result.Instances, k.answers = len(k.ids), make([]int, k.result.Updates)
	if err := k.send(ctx); err != nil {
		return err
	}
	if err := k.compare(ctx); err != nil {
		return err
	}
	k.result.Repeats, k.result.Changed = int(k.repeats.Load()), int(k.changed.Load())
	return r.report.add(k.result)
}

// send sends the updates while faults are injected, and returns when all are answered and the fleet is healed.
func (k *updateKill) send(ctx context.Context) error {
	p := term.NewProgress(k.run.errw, k.result.Updates, "updates")
	defer p.End()
	var faults error
	faulty, stop := context.WithCancel(ctx)
	injected := make(chan struct{})
	go func() { defer close(injected); faults = k.inject(faulty) }()
	took, began := make([]time.Duration, k.result.Updates), time.Now()
	err := each(ctx, k.result.Updates, k.run.opts.InFlight, func(ctx context.Context, i int) error {
		var twin sync.WaitGroup
		var second int
		if i%repeatOfUpdates == 0 {
			twin.Go(func() { second = k.update(ctx, i, i+1) })
			k.repeats.Add(1)
		}
		sent := time.Now()
		k.answers[i] = k.update(ctx, i, i)
		took[i] = time.Since(sent)
		twin.Wait()
		if second != 0 && k.answers[i] != 0 && second != k.answers[i] {
			k.changed.Add(1)
		}
		p.Add(1)
		return ctx.Err()
	})
	k.result.Seconds = time.Since(began).Seconds()
	select { // a few updates may all be answered before the first kill
	case <-k.killed:
	case <-injected:
	case <-ctx.Done():
	}
	stop()
	<-injected
	k.result.P50MS, k.result.P99MS, k.result.MaxMS = quantiles(took)
	return errors.Join(err, faults)
}

// update sends an update with one of the clients until it is answered, and returns the answer, or 0 without one.
func (k *updateKill) update(ctx context.Context, update, with int) int {
	ctx, cancel := context.WithTimeout(ctx, updateTimeout)
	defer cancel()
	n, repeats, err := k.clients[with%killClients].increment(ctx, k.ids[update%len(k.ids)], "u-"+strconv.Itoa(update), update)
	k.repeats.Add(int64(repeats))
	if err != nil {
		return 0
	}
	return n
}

// inject injects faults until ctx ends, and heals the fleet.
func (k *updateKill) inject(ctx context.Context) error {
	next := time.Now().Add(firstKill)
	for round := 0; ; round++ {
		if waitUntil(ctx, next) != nil {
			return k.f.heal()
		}
		next = time.Now().Add(killInterval)
		if k.run.opts.Rollback && round%rollbackEvery == rollbackEvery-1 {
			if err := rollBack(context.WithoutCancel(ctx), k.f); err != nil {
				return fmt.Errorf("roll back Redis: %w", err)
			}
			k.result.Rollbacks++
			continue
		}
		if err := k.f.orchestrators[round%len(k.f.orchestrators)].Kill(); err != nil {
			return err
		}
		if k.result.Kills++; k.result.Kills == 1 {
			close(k.killed)
		}
		if err := k.f.heal(); err != nil {
			return err
		}
	}
}

// rollBack kills Redis, and starts it again without its latest writes, by truncating its append-only file.
func rollBack(ctx context.Context, f *fleet) error {
	one, ok := f.redis.(*singleRedis)
	if !ok {
		return errNoSingle
	}
	file, size, err := newestAOF(one.dir)
	if err != nil {
		return err
	}
	if err := waitUntil(ctx, time.Now().Add(rollbackOf)); err != nil {
		return err
	}
	return one.restart(ctx, func() error {
		if now, _, err := newestAOF(one.dir); err != nil || now != file { // Redis has begun another file: this is only a restart
			return err
		}
		return os.Truncate(file, size)
	})
}

// newestAOF returns the file to which Redis appends, and its size.
func newestAOF(dir string) (file string, size int64, err error) {
	all, err := filepath.Glob(filepath.Join(dir, "appendonlydir", "*.incr.aof"))
	if err != nil || len(all) == 0 {
		return "", 0, errors.Join(err, errors.New("redis has no append-only file"))
	}
	var newest os.FileInfo
	for _, name := range all {
		info, err := os.Stat(name)
		if err != nil {
			return "", 0, err
		}
		if newest == nil || info.ModTime().After(newest.ModTime()) {
			file, newest = name, info
		}
	}
	return file, newest.Size(), nil
}

// compare repeats every update, closes the instances, and counts.
func (k *updateKill) compare(ctx context.Context) error {
	last := make([]int, len(k.answers))
	if err := each(ctx, len(last), k.run.opts.InFlight, func(ctx context.Context, i int) error {
		last[i] = k.update(ctx, i, i+2)
		return ctx.Err()
	}); err != nil {
		return err
	}
	k.repeats.Add(int64(len(last)))
	for i, n := range last {
		if n != 0 && k.answers[i] != 0 && n != k.answers[i] {
			k.changed.Add(1)
		}
	}
	executed := make([]int, len(k.ids))
	if err := each(ctx, len(k.ids), k.run.opts.InFlight, func(ctx context.Context, i int) (err error) {
		executed[i], _, err = k.clients[0].increment(ctx, k.ids[i], "close", closeUpdates)
		return err
	}); err != nil {
		return err
	}
	k.result.Lost, k.result.Doubled = compareUpdates(last, executed)
	return nil
}

// compareUpdates counts updates that were not executed or not answered, and executions after the first. Update i belongs to the instance
// i modulo the number of instances. answers are the numbers of the updates; executed are the counters at the end of the instances.
func compareUpdates(answers, executed []int) (lost, doubled int) {
	used := make(map[[2]int]struct{}, len(answers)) // instance and number of each answer
	for i, n := range answers {
		of := [2]int{i % len(executed), n}
		if _, taken := used[of]; taken || n < 1 || n > executed[of[0]] {
			lost++
			continue
		}
		used[of] = struct{}{}
	}
	for _, n := range executed {
		doubled += n
	}
	return lost, doubled - len(used)
}
