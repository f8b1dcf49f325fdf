// Command pawl is Pawl's command line: a whole Pawl in one process (dev), a
// demonstration, what one does with instances, the invariant checker, and the benchmark.
//
// Exit codes: 0 done, 1 failed, 2 used wrongly.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/bench"
	"github.com/pawlrun/pawl/internal/settings"
)

// commands is the command line's grammar.
type commands struct {
	Dev              devCmd              `cmd:"" help:"Run NATS, Redis and both fleets in one process, with the examples."`
	Demo             demoCmd             `cmd:"" help:"Audit a tree of Go packages on three workers, and lose one of them on the way."`
	UI               uiCmd               `cmd:"" name:"ui" help:"Serve the web console of a fleet."`
	Start            startCmd            `cmd:"" help:"Start an instance."`
	Get              getCmd              `cmd:"" help:"Tell about an instance."`
	List             listCmd             `cmd:"" help:"List instances."`
	History          historyCmd          `cmd:"" help:"Show an instance's history."`
	Status           statusCmd           `cmd:"" help:"Show or follow what an instance says of itself: its custom status."`
	Send             sendCmd             `cmd:"" help:"Send an event to an instance."`
	Cancel           cancelCmd           `cmd:"" help:"Ask an instance to end."`
	Purge            purgeCmd            `cmd:"" help:"Remove instances that have ended, or, by force, any."`
	Policy           policyCmd           `cmd:"" help:"Limit actions at run time."`
	Queue            queueCmd            `cmd:"" help:"See and clear the queues in front of limited actions."`
	Workers          workersCmd          `cmd:"" help:"List the workers that are connected, and what goes wrong on them."`
	Check            checkCmd            `cmd:"" help:"Check the invariants of a namespace in Redis."`
	CheckPermissions checkPermissionsCmd `cmd:"" name:"check-permissions" help:"Compare what a NATS user may do with what its role needs."`
	Permissions      permissionsCmd      `cmd:"" help:"Print the least permissions of each role."`
	Bench            benchCmd            `cmd:"" help:"Measure throughput and latency, of a stack started for it or of the fleet at --nats."`

	Probe       probeCmd       `cmd:"" hidden:"" help:"GET a URL; exit 0 if it answers 200. For health checks."`
	ServeWorker serveWorkerCmd `cmd:"" hidden:"" help:"Run a worker until standard input ends."`
	bench.Programs
}

const description = `Pawl, a durable-execution runtime.

Exit codes: 0 done, 1 failed, 2 used wrongly. Settings are flags or variables: --nats is PAWL_NATS.
pawl --version shows the version of this program.`

// defaults are those of "pawl dev", so that the other commands find it.
func defaults() kong.Vars {
	return kong.Vars{"redis": fmt.Sprintf("redis://127.0.0.1:%d", devRedisPort), "redisport": strconv.Itoa(devRedisPort)}
}

func version() string {
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		return "pawl " + b.Main.Version + " " + b.GoVersion
	}
	return "pawl (development)"
}

// streams is where a command reads and writes.
type streams struct {
	out, err io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], streams{os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, s streams) int {
	var c commands
	if len(args) == 0 { // whoever does not know what to say is helped
		_, _, _ = settings.Commands(&c, "pawl", description, []string{"--help"}, s.err, s.err, defaults())
		return settings.ExitUsage
	}
	if len(args) == 1 && args[0] == "--version" { // not in the grammar, where start has a flag of that name
		_, _ = fmt.Fprintln(s.out, version())
		return settings.ExitDone
	}
	k, code, ok := settings.Commands(&c, "pawl", description, args, s.out, s.err, defaults())
	if !ok {
		return code
	}
	k.BindTo(ctx, (*context.Context)(nil))
	err := k.Run(s)
	var e settings.ExitCode
	switch {
	case err == nil:
		return settings.ExitDone
	case errors.As(err, &e):
		return int(e)
	}
	_, _ = fmt.Fprintln(s.err, "pawl: "+spoken(err))
	if _, wrong := errors.AsType[settings.UsageError](err); wrong || errors.Is(err, pawl.ErrBadID) || errors.Is(err, pawl.ErrBadName) {
		return settings.ExitUsage
	}
	return settings.ExitFailed
}
