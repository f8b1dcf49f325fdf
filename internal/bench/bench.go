package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"github.com/pawlrun/pawl/internal/settings"
)

// Command is the command pawl bench.
type Command struct {
	Scenario  string        `arg:"" enum:"hello,chain,fanout,event,all,floor,turn,cancel,limit,recover,long,idle,scale,mass,payload,job,schedule,batch,update,list,rolling,demand,tracing" help:"What to measure; see above."`
	Instances int           `placeholder:"N" help:"Instances to run. Default: a few seconds' worth on two cores; batch, limit and mass: 100,000; list: 20,000; demand: 2,000. long: activities of the one instance, 2,000. update: updates, 20,000, with --kill 100,000. recover: further instances that wait for an event, 0."`
	N         int           `default:"100" help:"Activities of one fanout."`
	InFlight  int           `default:"1000" help:"Maximum number of concurrent instances."`
	Load      bool          `help:"cancel: cancel while the fleet runs at half of its capacity."`
	Single    bool          `help:"hello, chain, fanout, event, all, long, mass, payload, job: run orchestrator and worker in one process, which pass tasks to each other without NATS."`
	NoHints   bool          `help:"cancel: withhold hints from the worker, so that it notices cancellations when it renews its leases."`
	Fanout    int           `default:"1" help:"cancel: activities of one instance, up to 10,000."`
	Rounds    int           `default:"10" help:"recover: number of times that each fault is injected. rolling: number of restarts of each member. tracing: number of pairs."`
	Fleets    int           `default:"1" help:"recover: concurrent rounds, each on a fleet of its own; rounds with targets below a second run alone."`
	Fault     []string      `placeholder:"NAME" help:"recover: only these faults."`
	Schedules int           `default:"10000" help:"schedule: number of schedules."`
	Kill      bool          `help:"schedule: kill an orchestrator with SIGKILL during the run. batch: kill the owner of the first batch. update: kill one orchestrator after the other, and count updates that are lost or executed twice."`
	Elsewhere bool          `help:"hello: compare the instances of two orchestrators, one of which lacks the code, so that the other decides its turns. update --kill: every second orchestrator lacks the code."`
	Rollback  bool          `help:"update --kill: also repeatedly discard up to a second of writes of Redis."`
	Fsync     string        `default:"everysec" enum:"everysec,always" help:"When Redis writes its append-only file to disk: ${enum}. Not in a Redis Cluster."`
	Settle    time.Duration `default:"30s" placeholder:"DURATION" help:"idle: pause before memory is measured, and time over which the processor time of an idle fleet is measured. Clients are remembered for 15 s."`
	Rate      int           `default:"2000" help:"rolling: instances started per second."`
	Workers   int           `default:"20" help:"demand: maximum number of workers."`
	JSON      bool          `name:"json" xor:"format" help:"Write one JSON object per scenario."`
	Benchstat bool          `name:"benchstat" xor:"format" help:"Write the format of Go benchmarks, which benchstat reads."`
	given     bool          // whether --nats was given

	settings.Namespace `group:"Connection"`
	settings.NATS      `group:"Connection"`
	settings.Log       `group:"Connection"`
}

// Help lists the scenarios, under the usage line.
func (c *Command) Help() string {
	return `Scenarios:

  hello       one activity
  chain       5 activities in sequence
  fanout      --n activities in parallel
  event       one event
  floor       the scripts and messages of a chain, without an engine
  all         the five above, with the ratio of their rates to the floor
  turn        the turn engine alone, without servers
  cancel      from the commit that cancels an activity to the end of its
              context in another process
  limit       many instances at one limit, and the cost of the limit
  recover     how long instances wait because of a fault
  long        the last of many activities of one instance, and the first
  idle        memory of waiting instances, and their cost to others
  scale       fleets of several sizes
  mass        many starts at once
  payload     inputs and results of 1, 64 and 500 KiB
  job         one activity as a job, compared with hello
  schedule    from the times of schedules to the commits of their starts
  batch       an event to each instance, by each of two batches
  update      updates of instances, one at a time and at half load
  list        pages and counts by attributes
  rolling     a rolling restart while instances are started
  demand      workers follow the demand of a queue, up to --workers
  tracing     --rounds pairs of fleets with and without traces

Without --nats, it starts a fleet of processes on this machine.`
}

// Validate rejects invalid combinations.
func (c *Command) Validate() error {
	for _, o := range []struct {
		flag       string
		value, min int
	}{{"instances", c.Instances, 0}, {"n", c.N, 1}, {"in-flight", c.InFlight, 1}, {"rounds", c.Rounds, 1}, {"fleets", c.Fleets, 1}, {"schedules", c.Schedules, 1}, {"rate", c.Rate, 1}, {"workers", c.Workers, 1}, {"settle", int(c.Settle.Milliseconds()), 1}} {
		if o.value < o.min {
			return fmt.Errorf("--%s must be at least %d (got %d)", o.flag, o.min, o.value)
		}
	}
	return errors.Join(c.validateCancel(), c.validateUpdate())
}

// AfterApply records whether --nats selects a running fleet, and rejects it for scenarios that start their own, before it checks their numbers.
func (c *Command) AfterApply(k *kong.Context) error {
	c.given = slices.ContainsFunc(k.Path, func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == "nats" })
	r := &run{opts: c}
	_, one := r.experiments()[c.Scenario]
	if c.given && (one || r.several()[c.Scenario] != nil || c.Elsewhere || c.Fsync == fsyncAlways) {
		return fmt.Errorf("%s starts a fleet of its own: omit --nats", c.Scenario)
	}
	return c.validateLimit()
}

// several returns the scenarios that run on several fleets of their own, or on none, by name.
func (r *run) several() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"recover": r.recover, "scale": r.scale, "tracing": r.tracing, floorQueue: func(ctx context.Context) error { _, err := r.floor(ctx); return err },
	}
}

// Measure runs the scenario and writes its results to out; progress goes to errw.
func (c *Command) Measure(ctx context.Context, out, errw io.Writer) (err error) {
	r := &run{opts: c, report: report{w: out, json: c.JSON, benchstat: c.Benchstat}, errw: errw, log: slog.New(slog.DiscardHandler), childLog: io.Discard}
	if c.LogLevel != "info" { // at the default level only results and progress are shown
		r.log, r.childLog = c.Open(errw), errw
	}
	onFleet, one := r.experiments()[c.Scenario]
	several := r.several()[c.Scenario]
	switch {
	case one:
		err = r.experiment(ctx, onFleet)
	case several != nil:
		err = several(ctx)
	case c.Scenario == "turn":
		err = r.turn()
	default:
		err = r.load(ctx)
	}
	return errors.Join(err, r.report.end())
}

// experiment is a scenario that runs on one fleet of its own.
type experiment struct {
	layout  layout
	balance bool // wait until the fleet is complete before measuring
	measure func(context.Context, *fleet, *driver) error
}

// experiments returns the scenarios that run on one fleet of their own, by name.
func (r *run) experiments() map[string]experiment {
	one := layout{orchestrators: 1, workers: 1}
	single := layout{orchestrators: 1, workers: 1, single: r.opts.Single}
	batch := experiment{layout{orchestrators: 1}, true, r.batch}
	if r.opts.Kill {
		batch.layout.orchestrators++
	}
	update := experiment{layout{orchestrators: 1}, false, r.update}
	if r.opts.Kill {
		update = experiment{layout{orchestrators: killOrchestrators}, true, r.updateKill}
	}
	all := map[string]experiment{
		"batch":    batch,
		"cancel":   {r.cancelLayout(), false, r.cancel},
		"demand":   {layout{orchestrators: 1}, false, r.demand},
		"limit":    {one, false, r.limit},
		"idle":     {one, false, r.idle},
		"job":      {r.loadLayout(), false, r.job},
		"list":     {layout{orchestrators: 1}, false, r.list},
		"long":     {single, false, r.long},
		"mass":     {single, false, r.mass},
		"payload":  {single, false, r.payload},
		"rolling":  {layout{orchestrators: rollingFleet, workers: rollingFleet}, true, r.rolling},
		"schedule": {layout{orchestrators: 2}, true, r.schedule},
		"update":   update,
	}
	if r.opts.Elsewhere {
		all["hello"] = experiment{layout{orchestrators: 2, lacking: 1, workers: 1}, true, r.elsewhere}
		update.layout.orchestrators++
		update.layout.lacking = update.layout.orchestrators / 2
		all["update"] = update
	}
	return all
}

// experiment starts the fleet of an experiment, and measures.
func (r *run) experiment(ctx context.Context, e experiment) error {
	return r.onFleet(ctx, e.layout, func(f *fleet, d *driver) error {
		if e.balance {
			if err := f.awaitComplete(ctx, d); err != nil {
				return err
			}
		}
		return e.measure(ctx, f, d)
	})
}

// onFleet starts a fleet, measures on it, and stops it.
func (r *run) onFleet(ctx context.Context, l layout, measure func(*fleet, *driver) error) error {
	f, d, stop, err := r.start(ctx, l)
	if err != nil {
		return err
	}
	return errors.Join(measure(f, d), stop())
}

// run is one run of the command.
type run struct {
	opts   *Command
	report report

	errw     io.Writer
	log      *slog.Logger
	childLog io.Writer
}

// start starts a fleet and connects to it. With --nats it connects to that fleet instead, f is nil, and stop removes the instances of
// this run. The caller must call stop.
func (r *run) start(ctx context.Context, l layout) (f *fleet, d *driver, stop func() error, err error) {
	if r.opts.given {
		if d, err = r.connect(ctx); err != nil {
			return nil, nil, nil, err
		}
		d.purges = true
		return nil, d, func() error {
			defer d.close()
			return d.purge(context.WithoutCancel(ctx), r.errw)
		}, nil
	}
	if f, err = startFleet(ctx, r.log, r.childLog, l); err != nil {
		return nil, nil, nil, err
	}
	if r.opts.Fsync == fsyncAlways {
		if err := f.fsync(ctx); err != nil {
			return nil, nil, nil, errors.Join(err, f.stop())
		}
	}
	r.opts.NATSURL = settings.URL(f.nats.url())
	if d, err = r.connect(ctx); err != nil {
		return nil, nil, nil, errors.Join(err, f.stop())
	}
	return f, d, func() error {
		d.close()
		return f.stop()
	}, nil
}

// quantiles sorts durations, and returns their median, 99th percentile and maximum in milliseconds.
func quantiles(all []time.Duration) (p50, p99, longest float64) {
	slices.Sort(all)
	return percentile(all, 0.5), percentile(all, 0.99), percentile(all, 1)
}

// percentile returns a percentile of ascending durations, in milliseconds.
func percentile(sorted []time.Duration, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return millis(sorted[min(int(p*float64(len(sorted))), len(sorted)-1)])
}

func millis(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
