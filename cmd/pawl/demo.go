package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/examples"
	"github.com/pawlrun/pawl/examples/audit"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/embedded"
	"github.com/pawlrun/pawl/internal/fleet"
	"github.com/pawlrun/pawl/internal/gateway"
	"github.com/pawlrun/pawl/internal/process"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/orchestrator"
)

const (
	demoWorkers           = 3
	demoConcurrency       = 8 // concurrency of each worker
	demoLeaseTTL          = 2 * time.Second
	demoReconcileInterval = 2 * time.Second
	demoPartitions        = 8
	demoStopTimeout       = 15 * time.Second

	auditID = "audit" // the same for every run, which so finds the instance of an interrupted run
)

type demoCmd struct {
	settings.Log
	Dir  *string `placeholder:"DIR" help:"Directory tree to audit. Default: the source of the Go distribution."`
	Out  string  `type:"path" default:"pawl-audit" placeholder:"DIR" help:"Directory of the report."`
	Data string  `name:"data" type:"path" placeholder:"DIR" help:"Directory of the embedded NATS and Redis, from which an interrupted audit resumes. Default: .data in --out."`
	JSON bool    `name:"json" help:"Write one JSON object as the last line."`
}

// Run audits a tree. It stops everything that it has started before it returns.
func (c *demoCmd) Run(ctx context.Context, s streams) error {
	dir, err := c.tree(ctx)
	if err != nil {
		return settings.Usage(err)
	}
	total, err := count(dir)
	if err != nil {
		return settings.Usage(err)
	}
	if err := writable(c.Out); err != nil {
		return settings.Usage(err)
	}
	begun := time.Now()
	d, err := c.start(ctx, s)
	if ctx.Err() != nil && err != nil {
		return errors.New("interrupted before the audit began")
	}
	if err != nil {
		return err
	}
	result, err := d.audit(ctx, dir, c.Out, total)
	d.progress.End()
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("interrupted at %d of %d; the same command %s", d.inspected, total, d.next)
	}
	if err = errors.Join(err, d.stop()); err != nil {
		return err
	}
	return d.show(s.out, result, time.Since(begun), c.JSON)
}

// tree returns the directory to audit. An empty --dir is an error: it is probably a variable that is not set.
func (c *demoCmd) tree(ctx context.Context) (string, error) {
	switch {
	case c.Dir == nil:
		return goSource(ctx)
	case *c.Dir == "":
		return "", errors.New("--dir is empty; name a directory, or leave the flag out for the source of the Go distribution")
	}
	return filepath.Abs(*c.Dir)
}

// goSource finds the Go distribution's source.
func goSource(ctx context.Context) (string, error) {
	root := runtime.GOROOT() //nolint:staticcheck // may be set although there is no go command
	if out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output(); err == nil {
		root = strings.TrimSpace(string(out))
	}
	dir := filepath.Join(root, "src")
	if _, err := os.Stat(dir); root == "" || err != nil {
		return "", errors.New("the source of the Go distribution was not found; give a directory with --dir")
	}
	return dir, nil
}

// count lists the packages of the tree, and returns their number. A tree that cannot be audited is an error before anything is started.
func count(dir string) (int, error) {
	list, err := audit.List(dir)
	switch {
	case err != nil:
		return 0, fmt.Errorf("--dir cannot be audited: %s", strings.TrimPrefix(err.Error(), audit.ErrNoDirectory.Code()+": "))
	case len(list.Packages) == 0:
		return 0, fmt.Errorf("--dir %s has no Go packages: no directory with .go files outside testdata and vendor", dir)
	case len(list.Packages) > audit.MaxPackages:
		return 0, fmt.Errorf("--dir %s has %d packages, at most %d can be audited at once", dir, len(list.Packages), audit.MaxPackages)
	}
	return len(list.Packages), nil
}

// writable creates the directory of the report, and checks that files can be created in it, before anything is started.
func writable(dir string) error {
	err := os.MkdirAll(dir, 0o750)
	if err == nil {
		var f *os.File
		if f, err = os.CreateTemp(dir, ".pawl-*"); err == nil {
			err = errors.Join(f.Close(), os.Remove(f.Name()))
		}
	}
	if err != nil {
		return fmt.Errorf("--out %s cannot hold the report: %w", dir, err)
	}
	return nil
}

// demo is a running demonstration.
type demo struct {
	stack    *embedded.Stack
	nc       *nats.Conn
	rdb      redis.UniversalClient
	fleet    *orchestrator.Orchestrator
	client   *client.Client
	workers  []*process.Process
	ui       *gateway.Server
	ready    atomic.Pointer[client.Client] // client of the console; nil until everything has started
	next     string                        // what the next demonstration does if this one is interrupted
	killed   string                        // name of the killed worker; empty: none yet
	progress *term.Progress
	faults   *faults
	*watch
}

// start starts the servers, the orchestrator in this process, and the workers as child processes.
func (c *demoCmd) start(ctx context.Context, s streams) (_ *demo, err error) {
	d := &demo{watch: newWatch(s.err), progress: term.NewProgress(io.Discard, 0, "")}
	d.faults = &faults{leaseTTL: demoLeaseTTL, partitions: demoPartitions, namespace: defaultNamespace}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.stop())
		}
	}()
	if d.ui, err = d.serve(ctx, fleet.DefaultUI); err != nil { // another program uses the address
		if d.ui, err = d.serve(ctx, "127.0.0.1:0"); err != nil {
			return nil, err
		}
	}
	_, _ = fmt.Fprintf(s.err, "Starting NATS, Redis, an orchestrator and %d workers…\n", demoWorkers)
	log := c.Log.Open(demoLog(c.LogLevel, s.err))
	if err = d.startStack(ctx, cmp.Or(c.Data, filepath.Join(c.Out, ".data")), log); err != nil {
		return nil, err
	}
	if d.nc, err = (settings.NATS{NATSURL: settings.URL(d.stack.NATSURL())}).OpenNATS(log); err != nil {
		return nil, err
	}
	if d.rdb, err = (settings.Redis{RedisURL: settings.URL(d.stack.RedisURL())}).OpenRedis(ctx, log); err != nil {
		return nil, err
	}
	d.fleet, err = orchestrator.New(orchestrator.Config{
		NATS: d.nc, Redis: d.rdb, Partitions: demoPartitions, ReconcileInterval: demoReconcileInterval, Logger: log,
	}, examples.Orchestrations()...)
	if err != nil {
		return nil, err
	}
	if err = d.fleet.Start(ctx); err != nil {
		return nil, err
	}
	for i := range demoWorkers {
		w, err := process.Start(fmt.Sprintf("worker-%d", i+1), demoLog(c.LogLevel, s.err), "serve-worker", "--examples",
			"--nats", d.stack.NATSURL(), "--redis", d.stack.RedisURL(), "--name", fmt.Sprintf("worker-%d", i+1),
			"--lease-ttl", demoLeaseTTL.String(), "--concurrency", strconv.Itoa(demoConcurrency), "--drain", "2s",
			"--log-level", c.LogLevel, "--log-format", c.LogFormat)
		if err != nil {
			return nil, err
		}
		d.workers = append(d.workers, w)
	}
	if d.client, err = client.New(ctx, d.nc, client.Options{By: userName(), Logger: log}); err != nil {
		return nil, err
	}
	d.ready.Store(d.client)
	_, _ = fmt.Fprintf(s.err, "Watch it in a browser: %sinstances/%s\n", d.ui.URL(), auditID)
	return d, nil
}

// startStack starts NATS and Redis. If Redis can only run in memory, NATS is not persistent either: messages could not be processed
// without their histories.
func (d *demo) startStack(ctx context.Context, dir string, log *slog.Logger) (err error) {
	d.next = "resumes there"
	if !embedded.RedisInstalled() {
		dir, d.next = "", "starts over, because Redis runs in memory"
	}
	d.stack, err = embedded.Start(ctx, embedded.Options{Dir: dir, Logger: log})
	d.faults.stack = d.stack
	if errors.Is(err, embedded.ErrInUse) {
		return fmt.Errorf("%w: is another pawl demo running? --data names another directory", err)
	}
	if err == nil && d.stack.Warning() != "" {
		_, _ = fmt.Fprintln(d.err, d.stack.Warning()+"; an interrupted audit starts over")
	}
	return err
}

func (d *demo) serve(ctx context.Context, addr string) (*gateway.Server, error) {
	return gateway.Open(ctx, gateway.Options{Config: gateway.Config{Client: d.ready.Load, Faults: d.faults.buttons()}, Addr: addr})
}

// demoLog discards logs at the default level, which would hide the output of the demonstration.
func demoLog(level string, w io.Writer) io.Writer {
	if level == "info" {
		return io.Discard
	}
	return w
}

// stop stops everything in reverse order.
func (d *demo) stop() error {
	var errs []error
	if d.ui != nil {
		ctx, cancel := context.WithTimeout(context.Background(), demoStopTimeout)
		defer cancel()
		errs = append(errs, d.ui.Stop(ctx))
	}
	errs = append(errs, process.StopAll(d.workers))
	if d.client != nil {
		d.client.Close()
	}
	if d.fleet != nil {
		ctx, cancel := context.WithTimeout(context.Background(), demoStopTimeout)
		defer cancel()
		errs = append(errs, d.fleet.Stop(ctx))
	}
	if d.nc != nil {
		d.nc.Close()
	}
	if d.rdb != nil {
		errs = append(errs, d.rdb.Close())
	}
	if d.stack != nil {
		errs = append(errs, d.stack.Stop())
	}
	return errors.Join(errs...)
}

// begin starts the audit, or attaches to the same audit of an interrupted demonstration. The instance of a different audit is purged.
func (d *demo) begin(ctx context.Context, in audit.Request) (*client.Instance[audit.Result], error) {
	found, err := d.client.Describe(ctx, auditID)
	switch {
	case errors.Is(err, client.ErrNotFound):
		return client.Start(ctx, d.client, audit.Audit, auditID, in)
	case err != nil:
		return nil, err
	case found.Status == client.Running && found.Stalled == "":
		for more := true; more; {
			if more, err = d.read(ctx, auditID); err != nil {
				return nil, err
			}
		}
		if d.input == in && !d.ended {
			return client.Attach(d.client, audit.Audit, auditID), nil
		}
	}
	d.watch = newWatch(d.err)
	if err := d.client.Purge(ctx, auditID, client.Force(), client.Reason("another audit")); err != nil && !errors.Is(err, client.ErrNotFound) {
		return nil, err
	}
	return client.Start(ctx, d.client, audit.Audit, auditID, in)
}

// audit runs the audit, during which a worker is killed.
func (d *demo) audit(ctx context.Context, dir, out string, total int) (audit.Result, error) {
	run, err := d.begin(ctx, audit.Request{Dir: dir, Out: out, Parallel: 2 * demoWorkers * demoConcurrency})
	if err != nil {
		return audit.Result{}, err
	}
	_ = term.Line(d.err, fmt.Sprintf("Auditing %s below %s: one orchestrator, %d workers as processes of their own, lease TTL %s",
		diagnose.Counted(total, "package"), dir, demoWorkers, demoLeaseTTL))
	if d.events > 0 {
		_ = term.Line(d.err, fmt.Sprintf("resuming at %d of %d", d.inspected, total))
	}
	d.progress = term.NewProgress(d.err, total, "packages") // draws the bar
	d.progress.StartAt(d.inspected)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if err := d.follow(ctx, auditID, total); err != nil {
			cancel(err) // ends the wait for a result that does not arrive
		}
	}()
	result, err := run.Result(ctx)
	if err != nil {
		cancel(err)
	}
	<-watched
	if cause := context.Cause(ctx); cause != nil {
		return result, fmt.Errorf("the audit did not finish: %w", cause)
	}
	return result, nil
}
