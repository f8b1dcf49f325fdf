package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
	"golang.org/x/sync/errgroup"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/examples"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
)

const (
	openEvery    = 100 * time.Millisecond
	openPatience = 30 * time.Second
)

// bench is the client of a benchmark.
type bench struct {
	nc  *nats.Conn
	c   *client.Client
	ns  string // namespace
	run string // in every instance id, so that two benchmarks do not meet
	n   atomic.Uint64
}

// scenario is one thing to measure.
type scenario struct {
	name       string
	activities int // of one instance
	usual      int // instances, if nobody says otherwise
	// begin is done before the clock starts, and gives what is timed: to the end of the instance.
	begin func(ctx context.Context, id string) (finish func(context.Context) error, err error)
}

// fleet starts a fleet of these members, unless one is given (then there is no rig), and connects to it. end is the
// caller's to call.
func (c *benchCmd) fleet(ctx context.Context, s streams, log *slog.Logger, m members) (r *rig, b *bench, end func() error, err error) {
	stop := func() error { return nil }
	if !c.given {
		if r, err = startRig(ctx, log, demoLog(c.LogLevel, s.err), m); err != nil {
			return nil, nil, nil, err
		}
		stop, c.NATSURL = r.stop, settings.URL(r.natsURL())
	}
	if b, err = c.open(ctx, log); err != nil {
		return nil, nil, nil, errors.Join(err, stop())
	}
	return r, b, func() error {
		b.close()
		return stop()
	}, nil
}

// open connects, waiting for the fleet to make its namespace.
func (c *benchCmd) open(ctx context.Context, log *slog.Logger) (*bench, error) {
	ctx, cancel := context.WithTimeout(ctx, openPatience)
	defer cancel()
	tick := time.NewTicker(openEvery)
	defer tick.Stop()
	for {
		b, err := c.dial(ctx, log)
		if err == nil {
			return b, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, err
		}
	}
}

func (c *benchCmd) dial(ctx context.Context, log *slog.Logger) (*bench, error) {
	nc, err := c.OpenNATS(log)
	if err != nil {
		return nil, err
	}
	cl, err := client.New(ctx, nc, client.Options{Namespace: c.Namespace.Namespace, Logger: log})
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &bench{nc: nc, c: cl, ns: c.Namespace.Namespace, run: nuid.Next()}, nil
}

// stream returns the name of INPUTS or TASKS.
func (b *bench) stream(kind string) string { return "PAWL-" + b.ns + "-" + kind }

func (b *bench) close() {
	b.c.Close()
	b.nc.Close()
}

// scenario finds one by its name; n is the width of a fanout.
func (b *bench) scenario(name string, n int) scenario {
	switch name {
	case "chain":
		return plain(b, name, examples.ChainLength, 6_000, examples.Chain, 0)
	case "fanout":
		return plain(b, name, n, max(40_000/max(n, 1), 1), examples.FanOut, n)
	case "event":
		return scenario{name: name, usual: 10_000, begin: b.beginEvent}
	default:
		return plain(b, name, 1, 15_000, examples.Hello, "world")
	}
}

// plain is a scenario that is timed from its start.
func plain[In, Out any](b *bench, name string, activities, usual int, o pawl.Orchestration[In, Out], in In) scenario {
	begin := func(_ context.Context, id string) (func(context.Context) error, error) {
		return func(ctx context.Context) error {
			run, err := client.Start(ctx, b.c, o, id, in)
			if err == nil {
				_, err = run.Result(ctx)
			}
			return err
		}, nil
	}
	return scenario{name: name, activities: activities, usual: usual, begin: begin}
}

// beginEvent starts an instance; what is timed is from the event that it waits for.
func (b *bench) beginEvent(ctx context.Context, id string) (func(context.Context) error, error) {
	run, err := client.Start(ctx, b.c, examples.Wait, id, pawl.None{})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		if err := client.Send(ctx, b.c, examples.Poke, id, "now"); err != nil {
			return err
		}
		_, err := run.Result(ctx)
		return err
	}, nil
}

// load runs n instances, at most inFlight at a time, and gives the time from the first
// that is timed to the last. How far they are is shown.
func (b *bench) load(ctx context.Context, sc scenario, n, inFlight int, show io.Writer) (time.Duration, error) {
	finishes := make([]func(context.Context) error, n)
	if err := each(ctx, n, inFlight, func(ctx context.Context, i int) (err error) {
		finishes[i], err = sc.begin(ctx, b.id(sc.name))
		return err
	}); err != nil {
		return 0, err
	}
	p := term.NewProgress(show, n, sc.name+" instances")
	defer p.End()
	var done atomic.Int64
	begun := time.Now()
	err := each(ctx, n, inFlight, func(ctx context.Context, i int) error {
		err := finishes[i](ctx)
		if d := done.Add(1); d%64 == 0 {
			p.Set(int(d))
		}
		return err
	})
	took := time.Since(begun)
	if err == nil {
		p.Set(n)
	}
	return took, err
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

// idle runs n instances one after the other.
func (b *bench) idle(ctx context.Context, sc scenario, n int) (p50, p99 float64, err error) {
	took := make([]time.Duration, n)
	for i := range took {
		finish, err := sc.begin(ctx, b.id(sc.name))
		if err != nil {
			return 0, 0, err
		}
		begun := time.Now()
		if err := finish(ctx); err != nil {
			return 0, 0, fmt.Errorf("one at a time: %w", err)
		}
		took[i] = time.Since(begun)
	}
	slices.Sort(took)
	return percentile(took, 0.5), percentile(took, 0.99), nil
}

func (b *bench) id(name string) string {
	return name + "-" + b.run + "-" + strconv.FormatUint(b.n.Add(1), 10)
}
