package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/examples"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

// Scenarios of growth: of the history of one instance, the number of instances, the size of payloads, and the fleet.

var (
	longRun  = pawl.NewOrchestration[int, int]("bench-long")
	echoText = pawl.NewOrchestration[string, int]("bench-echo")
	step     = pawl.NewActivity[int, int]("bench-step")
	echo     = pawl.NewActivity[string, string]("bench-text")
)

func growthOrchestrations() []pawl.OrchestrationBinding {
	return []pawl.OrchestrationBinding{
		longRun.Do(func(ctx *pawl.Context, n int) (int, error) {
			for i := range n {
				if _, err := step.Call(ctx, i); err != nil {
					return 0, err
				}
			}
			return n, nil
		}),
		echoText.Do(func(ctx *pawl.Context, text string) (int, error) {
			back, err := echo.Call(ctx, text)
			return len(back), err
		}),
	}
}

func growthActivities() []pawl.ActivityBinding {
	return []pawl.ActivityBinding{
		step.Do(func(_ context.Context, n int) (int, error) { return n, nil }),
		echo.Do(func(_ context.Context, text string) (string, error) { return text, nil }),
	}
}

// Default numbers, for a short run.
const (
	longActivities = 2000
	longPart       = 100 // activities at each end of the history whose times are compared
	idleInstances  = 30_000
	idleParked     = 8000 // instances of the first part: fewer than the 10,000 that an orchestrator keeps in memory
	idleFull       = 4000 // instances of the second part, after which memory is full
	massInstances  = 100_000
	massInFlight   = 4096
	scaleInstances = 1500
	besideChains   = 1500
)

// longResult compares the first and the last activities of a long history.
type longResult struct {
	Scenario   string  `json:"scenario"`
	Activities int     `json:"activities"`
	Seconds    float64 `json:"seconds"`
	FirstMS    float64 `json:"first_ms"` // mean of the first 100
	LastMS     float64 `json:"last_ms"`  // mean of the last 100
	Ratio      float64 `json:"ratio"`    // last to first
}

// long runs one instance of many activities, one after the other.
func (r *run) long(ctx context.Context, _ *fleet, d *driver) error {
	if _, err := d.load(ctx, d.scenario("chain", 1), 200, 20, io.Discard); err != nil {
		return err
	}
	n := max(cmp.Or(r.opts.Instances, longActivities), 2*longPart)
	id, began := d.id("long"), time.Now()
	run, err := client.Start(ctx, d.c, longRun, id, n)
	if err != nil {
		return err
	}
	watched, done := context.WithCancel(ctx)
	joined := make(chan struct{})
	go func() {
		defer close(joined)
		d.watchEvents(watched, term.NewProgress(r.errw, n, "activities"), id)
	}()
	_, err = run.Result(ctx)
	done()
	<-joined
	if err != nil {
		return err
	}
	m := longResult{Scenario: "long", Activities: n, Seconds: time.Since(began).Seconds()}
	var at []time.Time
	for e, err := range d.c.History(ctx, id, 0) {
		if err != nil {
			return fmt.Errorf("history of %s: %w", id, err)
		}
		if _, ok := e.Event.(*history.ActivityCompleted); ok {
			at = append(at, e.At)
		}
	}
	each := func(from int) float64 { return millis(at[from+longPart-1].Sub(at[from])) / (longPart - 1) }
	m.FirstMS, m.LastMS = each(0), each(len(at)-longPart)
	m.Ratio = m.LastMS / m.FirstMS
	return r.report.add(m)
}

// watchEvents shows how many activities an instance has completed, until ctx ends.
func (d *driver) watchEvents(ctx context.Context, p *term.Progress, id string) {
	defer p.End()
	_ = poll(ctx, time.Second/2, func() (bool, error) {
		if s, err := d.c.Describe(ctx, id); err == nil {
			p.Set(int(s.Events / 2)) //nolint:gosec // the length of one history
		}
		return false, nil
	})
}

// idleResult reports the cost of instances that wait.
type idleResult struct {
	Scenario     string   `json:"scenario"`
	Instances    int      `json:"instances"`
	RedisBytes   float64  `json:"redis_bytes"`             // per instance
	ParkedBytes  float64  `json:"parked_bytes"`            // per instance that an orchestrator keeps in memory
	EvictedBytes *float64 `json:"evicted_bytes,omitempty"` // per instance that it has evicted; nil: there are too few for an eviction
	ChainPerS    float64  `json:"chain_per_s"`             // activities of chains, without waiting instances
	BesidePerS   float64  `json:"beside_per_s"`            // activities of chains, with waiting instances
	// IdleCorePercent is the processor time of a fleet without instances, by process, in percent of a core.
	IdleCorePercent map[string]float64 `json:"idle_core_percent,omitempty"`
	ChainRatio      float64            `json:"chain_ratio"`
}

// idle measures instances that wait for an event.
func (r *run) idle(ctx context.Context, f *fleet, d *driver) (err error) {
	m := idleResult{Scenario: "idle", Instances: cmp.Or(r.opts.Instances, idleInstances)}
	if m.IdleCorePercent, err = idleCores(ctx, f, r.opts.Settle); err != nil {
		return err
	}
	chain := d.scenario("chain", 1)
	if m.ChainPerS, err = d.rate(ctx, chain, min(besideChains, m.Instances)); err != nil {
		return err
	}
	parked, full := min(idleParked, m.Instances/2), min(idleFull, m.Instances/4)
	p := term.NewProgress(r.errw, m.Instances, "waiting instances")
	defer p.End()
	wait := func(n int) (redisBytes, memory float64, err error) {
		if err = d.startWaiting(ctx, n, p); err == nil && n > 0 {
			err = waitUntil(ctx, time.Now().Add(r.opts.Settle))
		}
		if err == nil {
			redisBytes, err = usedMemory(ctx, f.rdb)
		}
		if err == nil {
			memory, err = request[float64](ctx, d, memorySubject, "") // of the orchestrator
		}
		return redisBytes, memory, err
	}
	redis0, memory0, err := wait(0)
	if err != nil {
		return err
	}
	_, memory1, err := wait(parked)
	if err != nil {
		return err
	}
	_, memory2, err := wait(full)
	if err != nil {
		return err
	}
	redis3, memory3, err := wait(m.Instances - parked - full)
	if err != nil {
		return err
	}
	m.RedisBytes = (redis3 - redis0) / float64(m.Instances)
	m.ParkedBytes = max(memory1-memory0, 0) / float64(parked)
	if parked == idleParked && full == idleFull {
		evicted := max(memory3-memory2, 0) / float64(m.Instances-parked-full)
		m.EvictedBytes = &evicted
	}
	if m.BesidePerS, err = d.rate(ctx, chain, min(besideChains, m.Instances)); err != nil {
		return err
	}
	m.ChainRatio = m.BesidePerS / m.ChainPerS
	return r.report.add(m)
}

// idleCores measures the processor time of a fleet without work, by process, in percent of a core.
func idleCores(ctx context.Context, f *fleet, settle time.Duration) (map[string]float64, error) {
	if err := waitUntil(ctx, time.Now().Add(settle/2)); err != nil {
		return nil, err
	}
	before, began := f.cpu(), time.Now()
	if err := waitUntil(ctx, began.Add(settle)); err != nil {
		return nil, err
	}
	took, percent := time.Since(began), make(map[string]float64)
	for name, t := range f.cpu() {
		percent[name] = float64(t-before[name]) / float64(took) * 100
	}
	delete(percent, "client")
	return percent, nil
}

// startWaiting starts n instances that wait for an event, and returns after their first turns.
func (d *driver) startWaiting(ctx context.Context, n int, p *term.Progress) error {
	return each(ctx, n, 256, func(ctx context.Context, _ int) error {
		id := d.id("idle")
		if _, err := client.Start(ctx, d.c, examples.Wait, id, pawl.None{}); err != nil {
			return err
		}
		p.Add(1)
		return until(ctx, func() bool { _, err := d.c.Describe(ctx, id); return err == nil })
	})
}

// rate runs n instances after a tenth of them to warm up, and returns the activities per second.
func (d *driver) rate(ctx context.Context, sc scenario, n int) (float64, error) {
	if _, err := d.load(ctx, sc, max(n/10, 1), n, io.Discard); err != nil {
		return 0, err
	}
	took, err := d.load(ctx, sc, n, 1000, io.Discard)
	return float64(n*sc.activities) / took.Seconds(), err
}

var usedMemoryLine = regexp.MustCompile(`(?m)^used_memory:(\d+)`)

func usedMemory(ctx context.Context, rdb redis.UniversalClient) (float64, error) {
	info, err := rdb.Info(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	found := usedMemoryLine.FindStringSubmatch(info)
	if found == nil {
		return 0, errors.New("redis reports no used_memory")
	}
	return strconv.ParseFloat(found[1], 64)
}

const memorySubject = reportSubject + ".memory"

// serveMemory serves the heap and stack memory of this process after a garbage collection, in bytes.
func serveMemory(nc *nats.Conn) error {
	return serve(nc, memorySubject, func(string) any {
		var s runtime.MemStats
		debug.FreeOSMemory()
		runtime.ReadMemStats(&s)
		return s.HeapAlloc + s.StackInuse
	})
}

// massResult reports on many starts at once.
type massResult struct {
	Scenario      string             `json:"scenario"`
	Instances     int                `json:"instances"`
	StartsPerS    float64            `json:"starts_per_s"` // until all are accepted
	Seconds       float64            `json:"seconds"`      // until all have ended
	InstancesPerS float64            `json:"instances_per_s"`
	CPU           map[string]float64 `json:"cpu_s_per_1000,omitempty"`
}

// mass starts many instances at once, and waits for their ends afterwards.
func (r *run) mass(ctx context.Context, f *fleet, d *driver) error {
	m := massResult{Scenario: "mass", Instances: cmp.Or(r.opts.Instances, massInstances)}
	if _, err := d.load(ctx, d.scenario("hello", 1), min(1000, m.Instances), 200, io.Discard); err != nil {
		return err
	}
	p := term.NewProgress(r.errw, 2*m.Instances, "starts and ends")
	defer p.End()
	runs := make([]*client.Instance[string], m.Instances)
	before, began := f.cpu(), time.Now()
	if err := each(ctx, m.Instances, massInFlight, func(ctx context.Context, i int) (err error) {
		runs[i], err = client.Start(ctx, d.c, examples.Hello, d.id("mass"), "world")
		p.Add(1)
		return err
	}); err != nil {
		return err
	}
	m.StartsPerS = float64(m.Instances) / time.Since(began).Seconds()
	if err := each(ctx, m.Instances, massInFlight, func(ctx context.Context, i int) error {
		_, err := runs[i].Result(ctx)
		p.Add(1)
		return err
	}); err != nil {
		return err
	}
	m.Seconds = time.Since(began).Seconds()
	m.InstancesPerS = float64(m.Instances) / m.Seconds
	m.CPU = perThousand(before, f.cpu(), m.Instances)
	return r.report.add(m)
}

// payload runs instances with inputs and results of several sizes, which their activities have, too.
func (r *run) payload(ctx context.Context, f *fleet, d *driver) error {
	for _, size := range []struct {
		name                string
		kib, n, concurrency int
	}{{"1KiB", 1, 5000, 1000}, {"64KiB", 64, 400, 64}, {"500KiB", 500, 60, 8}} {
		sc := plain(d, "payload-"+size.name, 1, size.n, echoText, strings.Repeat("x", size.kib<<10))
		n := size.n
		if r.opts.Instances > 0 {
			n = min(n, r.opts.Instances)
		}
		one := *r
		one.opts = &Command{InFlight: min(size.concurrency, r.opts.InFlight)}
		m, err := one.measure(ctx, sc, n, d, f)
		if err != nil {
			return fmt.Errorf("%s: %w", sc.name, err)
		}
		if err := r.report.add(m); err != nil {
			return err
		}
	}
	return nil
}

// scaleResult reports the rate of chains on one fleet.
type scaleResult struct {
	Scenario       string  `json:"scenario"`
	Members        int     `json:"members"` // number of orchestrators, and of workers
	RedisMasters   int     `json:"redis_masters"`
	ActivitiesPerS float64 `json:"activities_per_s"`
	Ratio          float64 `json:"ratio"` // to the first fleet
}

// scale measures fleets of several sizes on one machine. The gain depends on its number of cores.
func (r *run) scale(ctx context.Context) error {
	n := cmp.Or(r.opts.Instances, scaleInstances)
	sizes := []struct {
		members int
		cluster bool
	}{{1, false}, {2, false}, {4, false}, {2, true}}
	p := term.NewProgress(r.errw, len(sizes), "fleets")
	defer p.End()
	var first float64
	for i, size := range sizes {
		var rate float64
		l := layout{orchestrators: size.members, workers: size.members, redisCluster: size.cluster}
		if err := r.onFleet(ctx, l, func(_ *fleet, d *driver) (err error) {
			rate, err = d.rate(ctx, d.scenario("chain", 1), n)
			return err
		}); err != nil {
			return err
		}
		if i == 0 {
			first = rate
		}
		masters := 1
		if size.cluster {
			masters = clusterMasters
		}
		if err := r.report.add(scaleResult{
			Scenario: "scale-" + strconv.Itoa(size.members) + "x" + strconv.Itoa(masters), Members: size.members, RedisMasters: masters, ActivitiesPerS: rate, Ratio: rate / first,
		}); err != nil {
			return err
		}
		p.Set(i + 1)
	}
	return nil
}
