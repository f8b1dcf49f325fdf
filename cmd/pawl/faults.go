package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nuid"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/examples"
	"github.com/pawlrun/pawl/internal/console"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/embedded"
	"github.com/pawlrun/pawl/internal/fleet"
	"github.com/pawlrun/pawl/internal/process"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

const (
	faultTime      = 2 * time.Minute // maximum time for a fault and the instances that it disturbs
	faultPoll      = 50 * time.Millisecond
	burstInstances = 10
	burstPieces    = 20
	burstMillis    = 1000
	cancelPieces   = 200
)

type serveOrchestratorCmd struct{ fleet.Orchestrator }

// Run runs an orchestrator until a signal or the end of standard input.
func (c *serveOrchestratorCmd) Run(s streams) error {
	return settings.Exit(c.Orchestrator.Run(s.err, stopWithStdin()))
}

// faults injects the faults that pawl dev and pawl demo offer in the console. A process to be killed is started for the purpose, in
// addition to the others.
type faults struct {
	stack      *embedded.Stack
	leaseTTL   time.Duration // lease TTL of the workers
	partitions int
	namespace  string

	mu     sync.Mutex
	counts console.FaultCounts
}

// disturbance is one injected fault.
type disturbance struct {
	*faults
	client *client.Client
}

// buttons returns the faults as the console shows them.
func (f *faults) buttons() *console.Faults {
	return &console.Faults{Counts: f.counted, List: []console.Fault{
		{ID: "worker", Name: "Kill a worker", Text: "An additional worker is started, and killed (SIGKILL) while it runs activities. Other workers repeat them when its claims have expired.", Do: f.do((*disturbance).killWorker)},
		{ID: "orchestrator", Name: "Kill an orchestrator", Text: "An additional orchestrator is started, takes over partitions, and is killed (SIGKILL) while it owns instances.", Do: f.do((*disturbance).killOrchestrator)},
		{ID: "cancel", Name: "Cancel 200 activities", Text: "An instance with 200 activities that would take a minute is cancelled.", Do: f.do((*disturbance).cancelMany)},
		{ID: "redis", Name: "Restart Redis", Text: "The embedded Redis is killed (SIGKILL) and started again with its files while activities run.", Do: f.do((*disturbance).restartRedis)},
	}}
}

func (f *faults) do(fault func(*disturbance, context.Context) (string, error)) func(context.Context, *client.Client) (string, error) {
	return func(ctx context.Context, c *client.Client) (string, error) { return fault(&disturbance{f, c}, ctx) }
}

func (f *faults) counted() console.FaultCounts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts
}

func (f *disturbance) killWorker(ctx context.Context) (string, error) {
	name := "victim-" + nuid.Next()[16:]
	p, err := f.process(name, "serve-worker", "--name", name, "--lease-ttl", f.leaseTTL.String())
	if err != nil {
		return "", err
	}
	defer func() { _ = p.Kill() }() // no effect on a killed process
	ctx, stop := context.WithTimeout(ctx, faultTime)
	defer stop()
	if err := until(ctx, name+" serves", func() bool {
		workers, err := f.client.Workers(ctx)
		return err == nil && slices.ContainsFunc(workers, func(w client.WorkerInfo) bool { return w.Name == name })
	}); err != nil {
		return "", err
	}
	held := 0
	return f.disturb(ctx, func(ctx context.Context, ids []string) (string, error) {
		err := until(ctx, name+" runs an activity", func() bool {
			held = 0
			for _, id := range ids {
				d, err := f.client.Describe(ctx, id)
				for _, a := range d.Activities {
					if err == nil && a.Worker == name {
						held++
					}
				}
			}
			return held > 0
		})
		if err == nil {
			err = p.Kill()
		}
		return fmt.Sprintf("%s (process %d) was killed while it ran %d activities.", name, p.PID(), held), err
	})
}

func (f *disturbance) killOrchestrator(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	addr := l.Addr().String()
	_ = l.Close() // frees the address for the process
	p, err := f.process("victim", "serve-orchestrator", "--http", addr, "--partitions", strconv.Itoa(f.partitions))
	if err != nil {
		return "", err
	}
	defer func() { _ = p.Kill() }() // no effect on a killed process
	ctx, stop := context.WithTimeout(ctx, faultTime)
	defer stop()
	if err := until(ctx, "the second orchestrator is ready", func() bool { return probe(ctx, "http://"+addr+"/readyz") == nil }); err != nil {
		return "", err
	}
	return f.disturb(ctx, func(ctx context.Context, ids []string) (string, error) {
		err := f.claimed(ctx, ids...)
		if err == nil {
			err = p.Kill()
		}
		return fmt.Sprintf("An orchestrator (process %d) was killed; the other took over its partitions.", p.PID()), err
	})
}

func (f *disturbance) restartRedis(ctx context.Context) (string, error) {
	return f.disturb(ctx, func(ctx context.Context, ids []string) (string, error) {
		if err := f.claimed(ctx, ids...); err != nil {
			return "", err
		}
		before, begin := f.stack.RedisPID(), time.Now()
		err := f.stack.RestartRedis(ctx)
		return fmt.Sprintf("Redis (process %d) was killed and answered again after %s (process %d).", before, diagnose.Duration(time.Since(begin)), f.stack.RedisPID()), err
	})
}

// claimed waits until a worker runs an activity of one of the instances.
func (f *disturbance) claimed(ctx context.Context, ids ...string) error {
	return until(ctx, "a worker runs an activity", func() bool {
		return slices.ContainsFunc(ids, func(id string) bool {
			d, err := f.client.Describe(ctx, id)
			return err == nil && slices.ContainsFunc(d.Activities, func(a client.Activity) bool { return a.Worker != "" })
		})
	})
}

func (f *disturbance) cancelMany(ctx context.Context) (string, error) {
	ctx, stop := context.WithTimeout(ctx, faultTime)
	defer stop()
	run, err := f.start(ctx, examples.Pieces{Count: cancelPieces, Millis: int(time.Minute / time.Millisecond)})
	if err != nil {
		return "", err
	}
	err = f.claimed(ctx, run.ID())
	begin := time.Now()
	if err == nil {
		err = f.client.Cancel(ctx, run.ID(), "fault injected in the console")
	}
	err = errors.Join(err, f.check(ctx, run))
	return fmt.Sprintf("%s: %d activities were cancelled; %s after the request the instance had ended and was checked.", run.ID(), cancelPieces, diagnose.Duration(time.Since(begin))), err
}

// disturb starts instances, injects a fault, and checks the instances when they have ended.
func (f *disturbance) disturb(ctx context.Context, do func(ctx context.Context, ids []string) (string, error)) (string, error) {
	ctx, stop := context.WithTimeout(ctx, faultTime)
	defer stop()
	begin := time.Now()
	runs, err := f.startBurst(ctx)
	var ids []string
	for _, run := range runs {
		ids = append(ids, run.ID())
	}
	text := ""
	if err == nil {
		text, err = do(ctx, ids)
	}
	errs := []error{err}
	for _, run := range runs {
		errs = append(errs, f.check(ctx, run))
	}
	return fmt.Sprintf("%s %d instances with %d activities ended within %s.", text, len(runs), len(runs)*burstPieces, diagnose.Duration(time.Since(begin))), errors.Join(errs...)
}

// startBurst starts the instances at the same time, so that all their activities are outstanding together: more than one worker has slots
// for, whether or not the machine is busy.
func (f *disturbance) startBurst(ctx context.Context) (runs []*client.Instance[int], _ error) {
	started := make([]*client.Instance[int], burstInstances)
	errs := make([]error, burstInstances)
	var wg sync.WaitGroup
	for i := range started {
		wg.Go(func() { started[i], errs[i] = f.start(ctx, examples.Pieces{Count: burstPieces, Millis: burstMillis}) })
	}
	wg.Wait()
	for _, run := range started {
		if run != nil {
			runs = append(runs, run)
		}
	}
	return runs, errors.Join(errs...)
}

func (f *disturbance) start(ctx context.Context, in examples.Pieces) (*client.Instance[int], error) {
	run, err := client.Start(ctx, f.client, examples.Burst, "fault-"+nuid.Next(), in)
	if err == nil {
		f.add(console.FaultCounts{Running: 1})
	}
	return run, err
}

// check waits for the end of an instance and counts the ends of its activities.
func (f *disturbance) check(ctx context.Context, run *client.Instance[int]) error {
	n := console.FaultCounts{Running: -1, Instances: 1}
	defer func() { f.add(n) }()
	_, err := run.Result(ctx)
	if _, cancelled := errors.AsType[*pawl.Cancelled](err); err != nil && !cancelled {
		n.Lost++
		return fmt.Errorf("%s: %w", run.ID(), err)
	}
	cancelled, ends := err != nil, make(map[uint64]int)
	for e, err := range f.client.History(ctx, run.ID(), 0) {
		if err != nil {
			return fmt.Errorf("%s: %w", run.ID(), err)
		}
		switch e := e.Event.(type) {
		case *history.ActivityScheduled:
			n.Activities++
			ends[e.ID] += 0
		case *history.ActivityCompleted:
			ends[e.Scheduled]++
		case *history.ActivityFailed:
			ends[e.Scheduled]++
		default: // no end of an activity
		}
	}
	for _, times := range ends {
		if times > 1 {
			n.Duplicated++
		}
		if times == 0 && !cancelled {
			n.Lost = 1
		}
	}
	return nil
}

func (f *faults) add(n console.FaultCounts) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts.Instances += n.Instances
	f.counts.Activities += n.Activities
	f.counts.Running += n.Running
	f.counts.Lost += n.Lost
	f.counts.Duplicated += n.Duplicated
}

func (f *faults) process(name, command string, args ...string) (*process.Process, error) {
	args = append([]string{command, "--examples", "--nats", f.stack.NATSURL(), "--redis", f.stack.RedisURL(), "--namespace", f.namespace, "--log-level", "error"}, args...)
	return process.Start(name, io.Discard, args...)
}

// until polls a condition until its context ends.
func until(ctx context.Context, what string, done func() bool) error {
	tick := time.NewTicker(faultPoll)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("timed out waiting until %s", what)
		}
	}
	return nil
}

// probe returns an error unless a URL answers 200.
func probe(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return settings.Usage(err)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // only for the message
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", url, resp.Status, body)
	}
	return nil
}
