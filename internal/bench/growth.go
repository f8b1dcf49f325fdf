package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/examples"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

// What grows: the history of one instance, the number of instances, the size of payloads, and the fleet.

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

// The numbers of a short run.
const (
	longActivities = 2000
	longPart       = 100 // activities of which the time is compared
	idleInstances  = 30_000
	idleParked     = 8000 // of them: fewer than an orchestrator keeps in memory, which are 10,000
	idleFull       = 4000 // after which it keeps no more
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
	FirstMS    float64 `json:"first_ms"` // each of the first 100
	LastMS     float64 `json:"last_ms"`
	Ratio      float64 `json:"ratio"` // of the last to the first
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

// watchEvents shows how many activities an instance has completed.
func (d *driver) watchEvents(ctx context.Context, p *term.Progress, id string) {
	defer p.End()
	tick := time.NewTicker(time.Second / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if s, err := d.c.Describe(ctx, id); err == nil {
				p.Set(int(s.Events / 2)) //nolint:gosec // of one history
			}
		}
	}
}

// idleResult is what instances cost that wait.
type idleResult struct {
	Scenario     string   `json:"scenario"`
	Instances    int      `json:"instances"`
	RedisBytes   float64  `json:"redis_bytes"`             // of one
	ParkedBytes  float64  `json:"parked_bytes"`            // of one that an orchestrator keeps in memory
	EvictedBytes *float64 `json:"evicted_bytes,omitempty"` // of one that it does not; nil: it keeps all of so few
	ChainPerS    float64  `json:"chain_per_s"`             // activities, with nothing else
	BesidePerS   float64  `json:"beside_per_s"`            // beside them
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
	var started atomic.Int64
	wait := func(n int) (redisBytes, memory float64, err error) {
		if err = d.waiting(ctx, n, &started, p); err == nil && n > 0 {
			err = waitUntil(ctx, time.Now().Add(r.opts.Settle))
		}
		if err == nil {
			redisBytes, err = usedMemory(ctx, f.rdb)
		}
		if err == nil {
			memory, err = d.memory(ctx)
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

// idleCores measures what the processes of a fleet take that has nothing to do, in percent of a core, once it has started.
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

// waiting starts n instances that wait for an event, and waits until their first turns are over.
func (d *driver) waiting(ctx context.Context, n int, started *atomic.Int64, p *term.Progress) error {
	return each(ctx, n, 256, func(ctx context.Context, _ int) error {
		id := d.id("idle")
		if _, err := client.Start(ctx, d.c, examples.Wait, id, pawl.None{}); err != nil {
			return err
		}
		p.Set(int(started.Add(1)))
		return until(ctx, func() bool { _, err := d.c.Describe(ctx, id); return err == nil })
	})
}

// rate runs n instances, after a tenth of them, and returns the activities per second.
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

// serveMemory replies with what this process uses of heap and stacks behind a collection, in bytes. It ends with the connection.
func serveMemory(nc *nats.Conn) error {
	_, err := nc.Subscribe(memorySubject, func(m *nats.Msg) {
		var s runtime.MemStats
		debug.FreeOSMemory()
		runtime.ReadMemStats(&s)
		_ = m.Respond([]byte(strconv.FormatUint(s.HeapAlloc+s.StackInuse, 10))) // the requester repeats its request
	})
	return err
}

// memory requests what the orchestrator uses.
func (d *driver) memory(ctx context.Context) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	m, err := d.nc.RequestWithContext(ctx, memorySubject, nil)
	if err != nil {
		return 0, fmt.Errorf("memory of the orchestrator: %w", err)
	}
	var n float64
	return n, json.Unmarshal(m.Data, &n)
}

// massResult is many starts at once.
type massResult struct {
	Scenario      string             `json:"scenario"`
	Instances     int                `json:"instances"`
	StartsPerS    float64            `json:"starts_per_s"` // until INPUTS has all of them
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
	var done atomic.Int64
	runs := make([]*client.Instance[string], m.Instances)
	before, began := f.cpu(), time.Now()
	if err := each(ctx, m.Instances, massInFlight, func(ctx context.Context, i int) (err error) {
		runs[i], err = client.Start(ctx, d.c, examples.Hello, d.id("mass"), "world")
		p.Set(int(done.Add(1)))
		return err
	}); err != nil {
		return err
	}
	m.StartsPerS = float64(m.Instances) / time.Since(began).Seconds()
	if err := each(ctx, m.Instances, massInFlight, func(ctx context.Context, i int) error {
		_, err := runs[i].Result(ctx)
		p.Set(int(done.Add(1)))
		return err
	}); err != nil {
		return err
	}
	m.Seconds = time.Since(began).Seconds()
	m.InstancesPerS = float64(m.Instances) / m.Seconds
	m.CPU = perThousand(before, f.cpu(), m.Instances)
	return r.report.add(m)
}

// payload runs instances whose input, and that of their activity, and its result have several sizes.
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
		m, err := one.measureAs(ctx, sc, n, d, f)
		if err != nil {
			return fmt.Errorf("%s: %w", sc.name, err)
		}
		if err := r.report.add(m); err != nil {
			return err
		}
	}
	return nil
}

// scaleResult is the rate of chains of one fleet.
type scaleResult struct {
	Scenario       string  `json:"scenario"`
	Members        int     `json:"members"` // orchestrators, and as many workers
	RedisMasters   int     `json:"redis_masters"`
	ActivitiesPerS float64 `json:"activities_per_s"`
	Ratio          float64 `json:"ratio"` // to the first fleet
}

// scale measures fleets of several sizes, on one machine: what they gain depends on its cores.
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
		rate, err := r.rateOf(ctx, layout{orchestrators: size.members, workers: size.members, redisCluster: size.cluster}, n)
		if err != nil {
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

// rateOf returns the activities per second of chains in a fleet of its own.
func (r *run) rateOf(ctx context.Context, l layout, n int) (rate float64, err error) {
	_, d, stop, err := r.start(ctx, l)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	return d.rate(ctx, d.scenario("chain", 1), n)
}
