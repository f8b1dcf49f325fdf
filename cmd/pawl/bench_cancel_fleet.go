package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/fx"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/examples"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/pawlfx"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// What is cancelled: an instance that holds so many activities, each of which ends with its context.
var (
	holdAll = pawl.NewOrchestration[int, int]("bench-hold-all")
	hold    = pawl.NewActivity[pawl.None, int]("bench-hold")
)

func holdN(ctx *pawl.Context, n int) (int, error) {
	held := make([]*pawl.Future[int], n)
	for i := range held {
		held[i] = hold.Start(ctx, pawl.None{})
	}
	_, err := pawl.All(ctx, held...)
	return n, err
}

// report is what a held activity says, in core NATS: that it has begun, or that its context is done.
type report struct {
	Instance string        `json:"instance"`
	At       int64         `json:"at"`            // Unix nanoseconds
	Why      cancel.Reason `json:"why,omitempty"` // that its context is done; zero: it has begun
}

// benchReports is the subject that the activities report to.
const benchReports = "pawl-bench"

// holder runs the held activities of a worker.
type holder struct {
	nc      *nats.Conn
	subject string
}

func (h holder) hold(ctx context.Context, _ pawl.None) (int, error) {
	if err := h.say(ctx, 0, time.Now()); err != nil {
		return 0, err
	}
	<-ctx.Done()
	told := time.Now()
	why, ok := errors.AsType[*pawl.Cancelled](context.Cause(ctx))
	if !ok {
		return 0, fmt.Errorf("a context is done without a reason: %w", context.Cause(ctx))
	}
	return 0, errors.Join(why, h.say(ctx, why.Reason, told))
}

func (h holder) say(ctx context.Context, why cancel.Reason, at time.Time) error {
	b, err := json.Marshal(report{Instance: pawl.Info(ctx).Instance, Why: why, At: at.UnixNano()})
	if err != nil {
		return err
	}
	return h.nc.Publish(h.subject, b)
}

// countGoroutines answers who asks how many goroutines the process has. It ends with the connection.
func (h holder) countGoroutines() error {
	_, err := h.nc.Subscribe(goroutines(h.subject), func(m *nats.Msg) {
		_ = m.Respond([]byte(strconv.Itoa(runtime.NumGoroutine()))) // who asks asks again
	})
	return err
}

func goroutines(subject string) string { return subject + ".goroutines" }

// serveBench is a fleet that has what is cancelled, what goes through gates, and the examples that the load is made of.
type serveBench struct {
	settings.Fleet
	settings.Orchestrator
	settings.Worker

	Role string `arg:"" enum:"orchestrator,worker" help:"What to be."`
}

// Run runs it until a signal, or until standard input ends.
func (c *serveBench) Run(s streams) error {
	return asExit(pawlfx.Run(c.Log.Open(s.err),
		pawlfx.Connections(c.DialNATS, c.DialRedis),
		c.fleet(), fx.Invoke(leashed)))
}

func (c *serveBench) fleet() fx.Option {
	if c.Role == "orchestrator" {
		return fx.Options(
			pawlfx.Orchestrations(func() []pawl.OrchestrationBinding {
				return append(append(examples.Orchestrations(), holdAll.Do(holdN)), newGatePrograms().orchestrations()...)
			}),
			pawlfx.Orchestrator(orchestrator.Config{Namespace: c.Namespace.Namespace, Partitions: c.Partitions, Look: c.Look}))
	}
	return fx.Options(
		pawlfx.Activities(func(nc *nats.Conn) ([]pawl.ActivityBinding, error) {
			h := holder{nc: nc, subject: benchReports}
			m := newTurnstile()
			all := append(append(examples.Activities(), hold.Do(h.hold)), newGatePrograms().activities(m)...)
			return all, errors.Join(h.countGoroutines(), m.serve(nc))
		}),
		pawlfx.Worker(worker.Config{Namespace: c.Namespace.Namespace, LeaseTTL: c.LeaseTTL, Concurrency: c.Concurrency, Drain: c.Drain}))
}

// deafUser may not hear the hints that leases were deleted. What is measured with a worker
// that is this user is what a worker does whose hints are lost: nothing in the worker is
// switched off, and what the server refuses here is what it refuses to a user in earnest.
const deafUser = "deaf"

// serveDeafNATS is nats-server where deafUser hears no hints, and everybody else all.
type serveDeafNATS struct{ serveNATSCmd }

// Run runs it until standard input ends.
func (c *serveDeafNATS) Run(ctx context.Context) error {
	const everybody = "everybody"
	return serveServer(ctx, &server.Options{
		Host: "127.0.0.1", Port: c.Port, JetStream: true, StoreDir: filepath.Clean(c.Dir), NoSigs: true,
		NoAuthUser: everybody,
		Users: []*server.User{{Username: everybody}, {
			Username: deafUser, Password: deafUser,
			Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Deny: []string{"pawl.*.hint.>"}}},
		}},
	})
}

// serveServer runs a nats-server until standard input ends.
func serveServer(ctx context.Context, o *server.Options) error {
	ctx, cancel := untilLeashed(ctx)
	defer cancel()
	s, err := server.NewServer(o)
	if err != nil {
		return fmt.Errorf("nats-server: %w", err)
	}
	s.Start()
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}
