// Command pawl is Pawl's command line: a development server (dev), a demo, operations on instances, limits and workers, the
// invariant checker, and the benchmarks.
//
// Exit codes: 0 success, 1 failure, 2 wrong usage.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/bench"
	"github.com/pawlrun/pawl/internal/build"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/term"
)

// commands is the grammar of the command line.
type commands struct {
	Dev              devCmd              `cmd:"" group:"Run Pawl" help:"Run NATS, Redis, an orchestrator and a worker with the examples in one process."`
	Demo             demoCmd             `cmd:"" group:"Run Pawl" help:"Audit a tree of Go packages on three workers, one of which is killed."`
	UI               uiCmd               `cmd:"" group:"Run Pawl" name:"ui" help:"Serve the web console of a fleet."`
	Start            startCmd            `cmd:"" group:"Instances" help:"Start an instance."`
	Run              runCmd              `cmd:"" group:"Instances" help:"Run an activity as a job."`
	Batch            batchCmd            `cmd:"" group:"Batches and schedules" help:"Send a request or an event to all instances that pass a filter."`
	Schedule         scheduleCmd         `cmd:"" group:"Batches and schedules" help:"Create, change and show schedules."`
	Get              getCmd              `cmd:"" group:"Instances" help:"Describe an instance."`
	List             listCmd             `cmd:"" group:"Instances" help:"List instances."`
	Count            countCmd            `cmd:"" group:"Instances" help:"Count instances, by status or another field."`
	History          historyCmd          `cmd:"" group:"Instances" help:"Show the history of an instance."`
	Export           exportCmd           `cmd:"" group:"Instances" help:"Write an instance and its histories as JSON, for replay and import."`
	Import           importCmd           `cmd:"" group:"Instances" help:"Create an instance from an export."`
	Replay           replayCmd           `cmd:"" group:"Instances" help:"Check that the code of a binary matches exported histories."`
	Status           statusCmd           `cmd:"" group:"Instances" help:"Show or follow the custom status of an instance."`
	Send             sendCmd             `cmd:"" group:"Instances" help:"Send an event to an instance."`
	Update           updateCmd           `cmd:"" group:"Instances" help:"Send an update to an instance, and show its answer."`
	Query            queryCmd            `cmd:"" group:"Instances" help:"Query the state of an instance."`
	Cancel           cancelCmd           `cmd:"" group:"Instances" help:"Request the cancellation of an instance."`
	Pause            pauseCmd            `cmd:"" group:"Instances" help:"Pause an instance or an action until it is resumed."`
	Resume           resumeCmd           `cmd:"" group:"Instances" help:"Resume a paused instance or action."`
	Terminate        terminateCmd        `cmd:"" group:"Instances" help:"End an instance without running its code, and keep its history."`
	Rewind           rewindCmd           `cmd:"" group:"Instances" help:"Continue an instance from an earlier event of its history."`
	Retry            retryCmd            `cmd:"" group:"Instances" help:"Continue a failed instance from before its failure, or from its start."`
	Purge            purgeCmd            `cmd:"" group:"Instances" help:"Remove ended instances, or any with --force."`
	Policy           policyCmd           `cmd:"" group:"Limits" help:"Set, show and delete limits at run time."`
	Queue            queueCmd            `cmd:"" group:"Limits" help:"Show limits with their waiters and holders, and reject waiters."`
	Workers          workersCmd          `cmd:"" group:"Fleet" help:"List the connected workers with their errors."`
	Versions         versionsCmd         `cmd:"" group:"Fleet" help:"Count running instances by version, and list the orchestrators that have its code."`
	Drain            drainCmd            `cmd:"" group:"Fleet" help:"Stop a worker from taking tasks."`
	Requeue          requeueCmd          `cmd:"" group:"Fleet" help:"Retry a stalled instance now."`
	Partitions       partitionsCmd       `cmd:"" group:"Fleet" help:"Change the number of partitions."`
	Refused          refusedCmd          `cmd:"" group:"Fleet" help:"List refused inputs with the reason, or remove them from the list."`
	Health           healthCmd           `cmd:"" group:"Fleet" help:"Describe the state of Redis and NATS, as an orchestrator sees it."`
	Check            checkCmd            `cmd:"" group:"Fleet" help:"Check the invariants of a namespace in Redis."`
	CheckPermissions checkPermissionsCmd `cmd:"" group:"Fleet" name:"check-permissions" help:"Compare the permissions of a NATS and Redis user with those that its role requires."`
	Permissions      permissionsCmd      `cmd:"" group:"Fleet" help:"Print the minimum permissions of each role."`
	Bench            benchCmd            `cmd:"" group:"Fleet" help:"Measure throughput, latency and recovery."`

	Context    contextCmd    `cmd:"" group:"This program" help:"Manage named connections; PAWL_CONTEXT selects one."`
	Completion completionCmd `cmd:"" group:"This program" help:"Print the completion script of a shell."`
	Version    versionCmd    `cmd:"" group:"This program" help:"Show the version of this program."`
	Complete   completeCmd   `cmd:"" hidden:"" help:"Print the candidates of a command line."`

	Probe             probeCmd             `cmd:"" hidden:"" help:"GET a URL; exit 0 if it answers 200. For health checks."`
	ServeWorker       serveWorkerCmd       `cmd:"" hidden:"" help:"Run a worker until standard input ends."`
	ServeOrchestrator serveOrchestratorCmd `cmd:"" hidden:"" help:"Run an orchestrator until standard input ends."`
	bench.Programs
}

const description = `Pawl, a durable-execution runtime.

Exit codes: 0 success, 1 failure, 2 wrong usage. Settings are flags or variables: --nats is PAWL_NATS.`

// defaults are those of "pawl dev", so that other commands connect to it.
func defaults() kong.Vars {
	return kong.Vars{"redis": fmt.Sprintf("redis://127.0.0.1:%d", devRedisPort), "redisport": strconv.Itoa(devRedisPort)}
}

func version() string {
	b := build.Read()
	return "pawl " + b.Version + " " + b.Go
}

// streams are the outputs of a command.
type streams struct {
	out, err io.Writer
}

// fail writes an error, with --json as a JSON object.
func (s streams) fail(args []string, err error) {
	if slices.Contains(args, "--json") {
		_ = writeJSON(s.err, map[string]string{"error": userMessage(err)}) // the exit code reports the failure, too
		return
	}
	_ = s.note("%s", userMessage(err))
}

// warn writes a warning to standard error, with --json as a JSON object.
func (s streams) warn(asJSON bool, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if asJSON {
		return writeJSON(s.err, map[string]string{"warning": text})
	}
	return s.note("warning: %s", text)
}

// note writes a line to standard error.
func (s streams) note(format string, args ...any) error {
	return term.Line(s.err, "pawl: "+fmt.Sprintf(format, args...))
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], streams{os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}

// grammar returns a struct with the named command alone, because kong takes ten milliseconds for all commands. For the command complete, and
// for names that are no command, it returns all.
func grammar(name string) any {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[commands]()) {
		named := cmp.Or(f.Tag.Get("name"), strings.ToLower(f.Name))
		if _, ok := f.Tag.Lookup("cmd"); ok && len(f.Index) == 1 && named == name && name != "complete" {
			return reflect.New(reflect.StructOf([]reflect.StructField{f})).Interface()
		}
	}
	return &commands{}
}

func run(ctx context.Context, args []string, s streams) int {
	if len(args) == 0 { // show the help
		_, _, _ = settings.Commands(&commands{}, "pawl", description, []string{"--help"}, s.err, s.err, defaults(), help(term.Width(s.err)))
		return settings.ExitUsage
	}
	if len(args) == 1 && args[0] == "--version" { // not in the grammar, where start has a flag of that name
		_, _ = fmt.Fprintln(s.out, version())
		return settings.ExitDone
	}
	if args[0] == "help" {
		args = append(slices.Clone(args[1:]), "--help")
	}
	resolver, failed := contextFlags()
	k, code, ok := settings.Commands(grammar(args[0]), "pawl", description, args, s.out, s.err, defaults(), kong.Resolvers(resolver), help(term.Width(s.out)))
	if !ok {
		return code
	}
	k.BindTo(ctx, (*context.Context)(nil))
	var opened closers
	err := failed()
	if err == nil {
		err = k.Run(s, &opened)
	}
	for _, end := range opened {
		end()
	}
	var e settings.ExitCode
	switch {
	case err == nil:
		return settings.ExitDone
	case errors.As(err, &e):
		return int(e)
	}
	code = settings.ExitFailed
	if _, wrong := errors.AsType[settings.UsageError](err); wrong || errors.Is(err, pawl.ErrBadID) || errors.Is(err, pawl.ErrBadName) {
		code, err = settings.ExitUsage, fmt.Errorf("%w; see %s --help", err, k.Selected().FullPath())
	}
	s.fail(args, err)
	return code
}
