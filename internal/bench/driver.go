package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"golang.org/x/sync/errgroup"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/examples"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
)

const (
	connectInterval = 100 * time.Millisecond
	connectTimeout  = 30 * time.Second
	purgeTimeout    = 2 * time.Minute
	purgeInFlight   = 256
)

// driver is the client of a benchmark: it starts instances and waits for them.
type driver struct {
	nc  *nats.Conn
	js  jetstream.JetStream
	c   *client.Client
	ns  string // namespace
	run string // part of every instance id, so that concurrent benchmarks do not collide
	n   atomic.Uint64

	purges bool // remove the instances at the end
	mu     sync.Mutex
	ids    []string // instances to remove
}

// scenario describes the instances to measure.
type scenario struct {
	name       string
	activities int // per instance
	instances  int // default number
	// begin is not timed. It returns the function that is: finish returns at the end of the instance.
	begin func(ctx context.Context, id string) (finish func(context.Context) error, err error)
}

// timed returns a scenario that is timed as a whole.
func timed(name string, activities, instances int, do func(ctx context.Context, id string) error) scenario {
	return scenario{name: name, activities: activities, instances: instances, begin: func(_ context.Context, id string) (func(context.Context) error, error) {
		return func(ctx context.Context) error { return do(ctx, id) }, nil
	}}
}

// run runs one instance to its end.
func (sc scenario) run(ctx context.Context, id string) error {
	finish, err := sc.begin(ctx, id)
	if err == nil {
		err = finish(ctx)
	}
	return err
}

// connect connects, and waits until the fleet has created its namespace.
func (r *run) connect(ctx context.Context) (d *driver, err error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	_ = poll(ctx, connectInterval, func() (bool, error) { // the error of the last attempt is returned
		d, err = r.dial(ctx)
		return err == nil, nil
	})
	return d, err
}

func (r *run) dial(ctx context.Context) (*driver, error) {
	nc, err := r.opts.OpenNATS(r.log)
	if err != nil {
		return nil, err
	}
	d := &driver{nc: nc, ns: r.opts.Namespace.Namespace, run: nuid.Next()}
	if d.js, err = jetstream.New(nc); err == nil {
		d.c, err = client.New(ctx, nc, client.Options{Namespace: d.ns, Logger: r.log})
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return d, nil
}

func (d *driver) close() {
	d.c.Close()
	d.nc.Close()
}

// stream returns the name of INPUTS or TASKS.
func (d *driver) stream(kind string) string { return "PAWL-" + d.ns + "-" + kind }

// id returns an id for a new instance.
func (d *driver) id(name string) string {
	id := name + "-" + d.run + "-" + strconv.FormatUint(d.n.Add(1), 10)
	if d.purges {
		d.mu.Lock()
		d.ids = append(d.ids, id)
		d.mu.Unlock()
	}
	return id
}

// purge removes every instance of this run.
func (d *driver) purge(ctx context.Context, errw io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, purgeTimeout)
	defer cancel()
	d.mu.Lock()
	ids := slices.Clone(d.ids)
	d.mu.Unlock()
	p := term.NewProgress(errw, len(ids), "instances removed")
	defer p.End()
	err := each(ctx, len(ids), purgeInFlight, func(ctx context.Context, i int) error {
		err := d.c.Purge(ctx, ids[i], client.Force())
		if errors.Is(err, client.ErrNotFound) { // its start failed
			err = nil
		}
		p.Add(1)
		return err
	})
	if err != nil {
		return fmt.Errorf("remove the instances of run %s: %w", d.run, err)
	}
	return nil
}

// scenario returns a scenario by name; n is the width of a fanout.
func (d *driver) scenario(name string, n int) scenario {
	switch name {
	case "chain":
		return plain(d, name, examples.ChainLength, 6_000, examples.Chain, 0)
	case "fanout":
		return plain(d, name, n, max(40_000/max(n, 1), 1), examples.FanOut, n)
	case "event":
		return scenario{name: name, instances: 10_000, begin: d.beginEvent}
	default:
		return plain(d, name, 1, 15_000, examples.Hello, "world")
	}
}

// plain returns a scenario that is timed from the start of an instance to its end.
func plain[In, Out any](d *driver, name string, activities, instances int, o pawl.Orchestration[In, Out], in In) scenario {
	return timed(name, activities, instances, func(ctx context.Context, id string) error { return runOne(ctx, d, o, id, in) })
}

// runOne starts an instance and waits for its end.
func runOne[In, Out any](ctx context.Context, d *driver, o pawl.Orchestration[In, Out], id string, in In, opts ...client.StartOption) error {
	run, err := client.Start(ctx, d.c, o, id, in, opts...)
	if err == nil {
		_, err = run.Result(ctx)
	}
	return err
}

// beginEvent starts an instance that waits for an event. The instance is timed from the event.
func (d *driver) beginEvent(ctx context.Context, id string) (func(context.Context) error, error) {
	run, err := client.Start(ctx, d.c, examples.Wait, id, pawl.None{})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		if err := client.Send(ctx, d.c, examples.Poke, id, "now"); err != nil {
			return err
		}
		_, err := run.Result(ctx)
		return err
	}, nil
}

// load runs n instances, at most inFlight at a time, and returns the time for which they are timed together.
func (d *driver) load(ctx context.Context, sc scenario, n, inFlight int, progress io.Writer) (time.Duration, error) {
	finishes := make([]func(context.Context) error, n)
	if err := each(ctx, n, inFlight, func(ctx context.Context, i int) (err error) {
		finishes[i], err = sc.begin(ctx, d.id(sc.name))
		return err
	}); err != nil {
		return 0, err
	}
	p := term.NewProgress(progress, n, sc.name+" instances")
	defer p.End()
	began := time.Now()
	err := each(ctx, n, inFlight, func(ctx context.Context, i int) error {
		err := finishes[i](ctx)
		p.Add(1)
		return err
	})
	return time.Since(began), err
}

// sequential runs n instances one after the other, and returns the median and the 99th percentile of their times in milliseconds.
func (d *driver) sequential(ctx context.Context, sc scenario, n int) (p50, p99 float64, err error) {
	took := make([]time.Duration, n)
	for i := range took {
		finish, err := sc.begin(ctx, d.id(sc.name))
		if err != nil {
			return 0, 0, err
		}
		began := time.Now()
		if err := finish(ctx); err != nil {
			return 0, 0, fmt.Errorf("one at a time: %w", err)
		}
		took[i] = time.Since(began)
	}
	p50, p99, _ = quantiles(took)
	return p50, p99, nil
}

// count counts the instances of an orchestration with a status, or all if s is empty. It returns 0 while a partition has no owner.
func (d *driver) count(ctx context.Context, orchestration string, s client.Status) int {
	c, err := d.c.Count(ctx, client.CountOptions{Where: fmt.Sprintf("orchestration = %q", orchestration), By: "status"})
	n := c.Count
	if s != "" {
		n = c.Status[s]
	}
	if err != nil {
		return 0
	}
	return int(n) //nolint:gosec // at most the instances of this run
}

// each calls fn for 0 to n-1, at most limit at a time, and stops at the first error.
func each(ctx context.Context, n, limit int, fn func(context.Context, int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range min(n, max(limit, 1)) {
		g.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := fn(ctx, i); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

// until polls a condition for at most 30 s.
func until(ctx context.Context, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, recoveryTimeout)
	defer cancel()
	return poll(ctx, canaryInterval, func() (bool, error) { return ok(), nil })
}

// untilAll polls a count until it is n, and returns it. It gives up when the count does not grow for 30 s.
func untilAll(ctx context.Context, n int, count func() int) (last int, err error) {
	for last < n {
		before := last
		_ = until(ctx, func() bool { last = count(); return last > before }) // a lower count is the result
		if last <= before {
			return before, ctx.Err()
		}
	}
	return last, nil
}

// poll calls done at intervals until it returns true or an error, or ctx ends.
func poll(ctx context.Context, interval time.Duration, done func() (bool, error)) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
