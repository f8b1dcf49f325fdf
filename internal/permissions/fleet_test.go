package permissions

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

var (
	family  = pawl.NewOrchestration[string, string]("family")
	member  = pawl.NewOrchestration[string, string]("member")
	limited = pawl.NewActivity[string, string]("limited", pawl.Concurrency(1))
	hold    = pawl.NewActivity[string, string]("hold")
	ready   = pawl.NewEvent[string]("ready")
	stage   = pawl.NewStatus[string]()
)

// raise uses all features of orchestrations: activities, limits, children, events to other instances, a status, a timer, cancellation.
func raise(ctx *pawl.Context, name string) (string, error) {
	if err := stage.Set(ctx, "begun"); err != nil {
		return "", err
	}
	held, child := hold.Start(ctx, name), member.Start(ctx, name, pawl.ID(name+"-child"))
	first, second := limited.Start(ctx, name), limited.Start(ctx, name)
	if _, err := pawl.All(ctx, first, second); err != nil {
		return "", err
	}
	if err := ready.Send(ctx, name+"-child", "from its parent"); err != nil {
		return "", err
	}
	held.Cancel("enough")
	if err := pawl.Sleep(ctx, 10*time.Millisecond); err != nil {
		return "", err
	}
	return child.Get(ctx)
}

func grow(ctx *pawl.Context, _ string) (string, error) { return ready.Receive(ctx) }

// roleFleet is a fleet in which every process has the user of its role.
type roleFleet struct {
	*secured
	ctx   context.Context
	store *redistest.Server
}

func (f *roleFleet) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *roleFleet) orchestrator(member_ string) *orchestrator.Orchestrator {
	f.t.Helper()
	o, err := orchestrator.New(orchestrator.Config{
		NATS: f.as("default", transport.RoleOrchestrator), Redis: f.store.Client(f.t), Partitions: 4, Member: member_, ReconcileInterval: 500 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	}, family.Do(raise), member.Do(grow))
	f.must(err)
	f.must(o.Start(f.ctx))
	f.t.Cleanup(func() { _ = o.Stop(context.WithoutCancel(f.ctx)) }) // perhaps again
	return o
}

func (f *roleFleet) client(r transport.Role) *client.Client {
	f.t.Helper()
	c, err := client.New(f.ctx, f.as("default", r), client.Options{By: string(r)})
	f.must(err)
	f.t.Cleanup(c.Close)
	return c
}

func TestFleetOfRolesRunsWithoutAPermissionsViolation(t *testing.T) {
	f := &roleFleet{secured: secure(t, "default"), ctx: soon(t), store: redistest.Start(t)}
	first := f.orchestrator("a")
	w, err := worker.New(worker.Config{NATS: f.as("default", transport.RoleWorker), Redis: f.store.Client(t)},
		limited.Do(func(_ context.Context, s string) (string, error) { return s, nil }),
		hold.Do(func(ctx context.Context, _ string) (string, error) { <-ctx.Done(); return "", context.Cause(ctx) }))
	f.must(err)
	f.must(w.Start(f.ctx))
	t.Cleanup(func() { f.must(w.Stop(context.WithoutCancel(f.ctx))) })

	c, operator := f.client(transport.RoleClient), f.client(transport.RoleOperator)
	run, err := client.Start(f.ctx, c, family, "smith", "smith")
	f.must(err)
	if got, err := run.Result(f.ctx); err != nil || got != "from its parent" {
		t.Fatalf("%q, %v", got, err)
	}
	f.orchestrator("b") // takes half of the partitions, and then all
	f.must(first.Stop(f.ctx))
	if got, err := client.Attach(c, family, "smith").Result(f.ctx); err != nil || got != "from its parent" {
		t.Fatalf("%q, %v", got, err)
	}
	f.reads(c)
	f.administers(c, operator)
	f.maintains()
	if lines := f.log.all(); len(lines) > 0 {
		t.Errorf("the server has refused:\n%v", lines)
	}
	// A sender of events may only publish to their subjects. It cannot read a stream, and can still send.
	e := f.as("default", transport.RoleEvents)
	if _, err := e.Request("pawl.default.to.jones.event.ready", []byte(`"from outside"`), time.Minute); err != nil {
		t.Error(err)
	}
	_, err = client.Start(f.ctx, c, member, "jones", "")
	f.must(err)
	if got, err := client.Attach(c, member, "jones").Result(f.ctx); err != nil || got != "from outside" {
		t.Errorf("%q, %v", got, err)
	}
	if lines := f.log.all(); len(lines) > 0 {
		t.Errorf("the server has refused:\n%v", lines)
	}
}

// reads makes every request that a client may make.
func (f *roleFleet) reads(c *client.Client) {
	f.t.Helper()
	status, err := client.CustomStatus(f.ctx, c, stage, "smith")
	f.must(err)
	if status.Value != "begun" {
		f.t.Errorf("%+v", status)
	}
	_, err = c.Describe(f.ctx, "smith")
	f.must(err)
	for _, err := range c.History(f.ctx, "smith", 0) {
		f.must(err)
	}
	for _, err := range c.List(f.ctx, client.ListOptions{}) {
		f.must(err)
	}
	for _, err := range c.Stalled(f.ctx) {
		f.must(err)
	}
	_, err = c.QueueStats(f.ctx, "limited", "")
	f.must(err)
	_, err = c.Policies(f.ctx)
	f.must(err)
	f.must(client.Send(f.ctx, c, ready, "absent", "x"))
	f.must(c.Cancel(f.ctx, "absent", "x"))
}

// administers performs the operations that only an operator may perform.
func (f *roleFleet) administers(c, operator *client.Client) {
	f.t.Helper()
	f.must(operator.SetPolicy(f.ctx, "action:limited", client.Policy{Concurrency: 2}))
	f.must(operator.DeletePolicy(f.ctx, "action:limited"))
	_, err := operator.ClearQueue(f.ctx, "limited", "")
	f.must(err)
	all, err := operator.Workers(f.ctx)
	f.must(err)
	if len(all) != 1 {
		f.t.Errorf("%d workers", len(all))
	}
	_, err = client.Start(f.ctx, c, member, "brown", "")
	f.must(err)
	f.must(operator.Purge(f.ctx, "brown", client.Force()))
	f.must(operator.Purge(f.ctx, "smith"))
}

// maintains performs the periodic tasks of an orchestrator: it trims INPUTS, requests the oldest task, creates a lost stream again, and
// creates the stream of objects, which an operator checks.
func (f *roleFleet) maintains() {
	f.t.Helper()
	conn, err := transport.Open(f.ctx, f.as("default", transport.RoleOrchestrator), transport.Options{Partitions: 4, InputsMaxBytes: 128 << 20})
	f.must(err)
	defer conn.Close()
	accepted, err := conn.Accepted(f.ctx, conn.PartitionOf("smith"), history.Position{})
	f.must(err)
	if n, err := conn.Trim(f.ctx, accepted.Last, 0); n == 0 || err != nil {
		f.t.Errorf("%d trimmed, %v", n, err)
	}
	_, _, err = conn.OldestTask(f.ctx, "default")
	f.must(err)
	f.must(conn.EnsureObjects(f.ctx))
	f.must(conn.PutObject(f.ctx, sealing.Object{Name: sealing.ByOrchestrator + "." + strings.Repeat("0", 32), Owners: []string{"smith"}, Body: []byte("x")}))
	audit, err := transport.JoinToPublish(f.ctx, f.as("default", transport.RoleOperator), transport.Options{})
	f.must(err)
	defer audit.Close()
	n := 0
	f.must(audit.Objects(f.ctx, 0, func(page []transport.StoredObject) error { n += len(page); return nil }))
	if n != 1 {
		f.t.Errorf("an operator sees %d objects", n)
	}
	admin := f.dial("admin", "_INBOX")
	_, err = admin.Request("$JS.API.STREAM.DELETE.PAWL-default-TASKS", nil, time.Minute)
	f.must(err)
	watch := conn.WatchTasks(0)
	poll.Until(f.t, time.Minute, "tasks are there again", func() bool { _, err := watch.Check(f.ctx); return err == nil })
}

// A lacking permission is returned as the error of the call, without a timeout, although the server reports it asynchronously and does not
// answer the call.
func TestMissingPermissionIsTheErrorOfTheCall(t *testing.T) {
	f := &roleFleet{secured: secure(t, "default"), ctx: soon(t), store: redistest.Start(t)}
	f.orchestrator("a")
	c := f.client(transport.RoleClient)
	_, err := client.Start(f.ctx, c, member, "smith", "")
	f.must(err)
	denied := func(what string, err error, subject string) {
		t.Helper()
		missing, ok := errors.AsType[*transport.PermissionError](err)
		if !ok || missing.Operation != "publish" || missing.Subject != subject || errors.Is(err, client.ErrUnknown) {
			t.Errorf("%s: %v, want that %s may not be published", what, err, subject)
		}
	}
	denied("purge", c.Purge(f.ctx, "smith"), "pawl.default.to.smith.purge")
	_, err = c.Workers(f.ctx)
	denied("workers", err, "pawl.default.workers")
	err = c.DeletePolicy(f.ctx, "action:limited")
	if missing, ok := errors.AsType[*transport.PermissionError](err); !ok || missing.Operation != "publish" {
		t.Errorf("policy delete: %v", err)
	}
	if _, err := transport.Open(f.ctx, f.as("default", transport.RoleWorker), transport.Options{Partitions: 4, Namespace: "new"}); !errors.Is(err, transport.ErrPermission) {
		t.Errorf("a namespace made by a worker: %v", err)
	}

	// A client that may publish inputs, and nothing else.
	e := f.client(transport.RoleEvents)
	f.must(client.Send(f.ctx, e, ready, "smith", "x"))
	denied("start", second(client.Start(f.ctx, e, member, "jones", "")), "pawl.default.to.jones.start.member")
	denied("cancel", e.Cancel(f.ctx, "smith", ""), "pawl.default.to.smith.cancel")
	denied("describe", second(e.Describe(f.ctx, "smith")), "$JS.API.STREAM.INFO.PAWL-default-INPUTS")
	for _, err := range e.List(f.ctx, client.ListOptions{}) {
		denied("list", err, "$JS.API.STREAM.INFO.PAWL-default-INPUTS")
	}
	if _, err := client.Attach(e, member, "smith").Result(f.ctx); !errors.Is(err, transport.ErrPermission) {
		t.Errorf("a result: %v", err)
	}
	if _, err := client.New(f.ctx, f.dial(NATSUser("default", transport.RoleClient), "_INBOX"), client.Options{}); !errors.Is(err, transport.ErrPermission) {
		t.Errorf("with another inbox prefix: %v", err)
	}
}

// A publisher that may not subscribe to its replies receives that error, which states that the message may have been accepted.
func TestMissingInboxPermissionIsTheErrorOfThePublish(t *testing.T) {
	f := &roleFleet{secured: secure(t, "default"), ctx: soon(t), store: redistest.Start(t)}
	f.orchestrator("a")
	c, err := client.New(f.ctx, f.dial("publisher", "_INBOX"), client.Options{})
	if err == nil {
		defer c.Close()
		err = client.Send(f.ctx, c, ready, "smith", "x")
	}
	if missing, ok := errors.AsType[*transport.PermissionError](err); !ok || !missing.Inbox {
		t.Errorf("%v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestPublishPermissionsSufficeToStartSendAndCancel(t *testing.T) {
	f := &roleFleet{secured: secure(t, "default"), ctx: soon(t), store: redistest.Start(t)}
	f.orchestrator("a")
	c, err := client.New(f.ctx, f.dial("publisher", NATSInbox("default", transport.RoleClient)), client.Options{})
	f.must(err)
	t.Cleanup(c.Close)
	run, err := client.Start(f.ctx, c, member, "smith", "")
	f.must(err)
	f.must(client.Send(f.ctx, c, ready, "smith", "sent"))
	if got, err := run.Result(f.ctx); err != nil || got != "sent" {
		t.Errorf("%q, %v", got, err)
	}
	run, err = client.Start(f.ctx, c, member, "jones", "")
	f.must(err)
	f.must(c.Cancel(f.ctx, "jones", "enough"))
	if _, err := run.Result(f.ctx); !errors.As(err, new(*pawl.Cancelled)) {
		t.Errorf("%v", err)
	}
}
