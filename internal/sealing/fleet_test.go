package sealing_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/embedded"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// canary is part of all payloads, and of no name.
const canary = "canary-5f1c0a"

var (
	everything = pawl.NewOrchestration[string, string]("everything")
	broken     = pawl.NewOrchestration[string, string]("broken")
	echo       = pawl.NewActivity[string, string]("echo")
	decline    = pawl.NewActivity[string, string]("decline")
	unserved   = pawl.NewActivity[string, string]("unserved")
	step       = pawl.NewEvent[string]("step")
	change     = pawl.NewUpdate[string, string]("change")
	refuse     = pawl.NewUpdate[string, string]("refuse")
	peek       = pawl.NewQuery[string, string]("peek")
	progress   = pawl.NewStatus[string]()
	declined   = pawl.NewError("declined")
)

// runEverything uses a payload everywhere an orchestration can have one; its first execution continues as new.
func runEverything(ctx *pawl.Context, in string) (string, error) {
	if err := errors.Join(
		change.Handle(ctx, func(_ *pawl.Context, v string) (string, error) { return v, nil }),
		refuse.Handle(ctx, func(_ *pawl.Context, v string) (string, error) { return "", errors.New(v) }),
		peek.Handle(ctx, func(v string) (string, error) { return v, nil }),
		progress.Set(ctx, in),
	); err != nil {
		return "", err
	}
	if _, err := pawl.SideEffect(ctx, func() (string, error) { return canary, nil }); err != nil {
		return "", err
	}
	if _, err := echo.Call(ctx, in); err != nil {
		return "", err
	}
	if _, err := decline.Call(ctx, in); !errors.Is(err, declined) || !strings.Contains(err.Error(), canary) {
		return "", err
	}
	if _, err := broken.Call(ctx, in); err == nil || !strings.Contains(err.Error(), canary) {
		return "", err
	}
	got, err := step.Receive(ctx)
	if err != nil || strings.HasSuffix(in, "again") {
		return got, err
	}
	return everything.ContinueAsNew(ctx, in+" again")
}

func runBroken(ctx *pawl.Context, in string) (string, error) {
	_, err := pawl.SideEffect(ctx, func() (string, error) { return "", errors.New(in) })
	return "", err
}

// servers are the servers of a test, with the logs of everything that runs on them.
type servers struct {
	t    *testing.T
	dir  string
	nats *nats.Conn
	rdb  redis.UniversalClient
	stop func()
	log  *slog.Logger
	logs *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func start(t *testing.T) *servers {
	t.Helper()
	s := &servers{t: t, dir: t.TempDir(), logs: &lockedBuffer{}}
	s.log = slog.New(slog.NewTextHandler(s.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	stack, err := embedded.Start(t.Context(), embedded.Options{Dir: s.dir, Redis: embedded.RedisServer})
	if errors.Is(err, embedded.ErrNoRedisServer) {
		t.Skip(err)
	}
	s.must(err)
	s.nats, err = transport.Dial(stack.NATSURL())
	s.must(err)
	o, err := redis.ParseURL(stack.RedisURL())
	s.must(err)
	s.rdb = redis.NewClient(o)
	s.stop = sync.OnceFunc(func() {
		s.nats.Close()
		_ = s.rdb.Close()
		if err := stack.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(s.stop)
	return s
}

func (s *servers) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// run starts both fleets, and returns the function that stops them.
func (s *servers) run(c *sealing.Codec) (stop func()) {
	s.t.Helper()
	o, err := orchestrator.New(orchestrator.Config{NATS: s.nats, Redis: s.rdb, Partitions: 4, Codec: (*pawlcodec.Codec)(c), Logger: s.log},
		everything.Do(runEverything), broken.Do(runBroken), echoes.Do(runEchoes),
		sub.Do(func(_ *pawl.Context, in string) (string, error) { return in, nil }))
	s.must(err)
	w, err := worker.New(worker.Config{NATS: s.nats, Redis: s.rdb, Codec: (*pawlcodec.Codec)(c), Logger: s.log},
		echo.Do(func(_ context.Context, in string) (string, error) { return in, nil }),
		decline.Do(func(_ context.Context, in string) (string, error) { return "", fmt.Errorf("%w: %s", declined, in) }))
	s.must(err)
	s.must(o.Start(s.t.Context()))
	s.must(w.Start(s.t.Context()))
	return func() {
		s.must(errors.Join(w.Stop(context.Background()), o.Stop(context.Background())))
	}
}

func (s *servers) client(c *sealing.Codec) *client.Client {
	s.t.Helper()
	cl, err := client.New(s.t.Context(), s.nats, client.Options{Codec: (*pawlcodec.Codec)(c), Logger: s.log})
	s.must(err)
	s.t.Cleanup(cl.Close)
	return cl
}

// builtins puts payloads into a job, a schedule, a batch, and a task that no worker takes. The event of the batch is for readable-id.
func (s *servers) builtins(cl *client.Client) {
	s.t.Helper()
	ctx := s.t.Context()
	job, err := client.Run(ctx, cl, echo, "readable-id-job", canary)
	s.must(err)
	if got, err := job.Result(ctx); err != nil || got != canary {
		s.t.Errorf("job: %q, %v", got, err)
	}
	_, err = client.Run(ctx, cl, unserved, "readable-id-task", canary)
	s.must(err)
	action, err := client.NewScheduleStart(sub, canary)
	s.must(err)
	s.must(cl.CreateSchedule(ctx, "readable-id-schedule", client.Schedule{Times: client.Times{Cron: []string{"0 0 1 1 *"}}, Start: action}))
	s.must(cl.TriggerSchedule(ctx, "readable-id-schedule"))
	poll.Until(s.t, time.Minute, "the schedule has started an instance, and the task waits", func() bool {
		st, err := cl.DescribeSchedule(ctx, "readable-id-schedule")
		if err != nil || len(st.Recent) == 0 {
			return false
		}
		d, err := cl.Demand(ctx, unserved.Queue())
		return err == nil && d.Unclaimed == 1
	})
	batch, err := cl.StartBatch(ctx, "readable-id-batch", client.Batch{Verb: client.BatchEvent, Event: step.Name(), Data: []byte(`"` + canary + `"`), Where: "orchestration = everything"})
	s.must(err)
	if _, err := batch.Result(ctx); err != nil {
		s.t.Errorf("batch: %v", err)
	}
}

// files returns the names of the files of both servers that contain a text.
func (s *servers) files(text string) (found []string) {
	s.t.Helper()
	s.must(filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(text)) {
			found = append(found, path)
		}
		return err
	}))
	return found
}

// task returns the task that no worker takes; its stream is in the memory of its server.
func (s *servers) task() string {
	s.t.Helper()
	js, err := jetstream.New(s.nats)
	s.must(err)
	stream, err := js.Stream(s.t.Context(), "PAWL-default-TASKS")
	s.must(err)
	m, err := stream.GetLastMsgForSubject(s.t.Context(), "pawl.default.task."+unserved.Queue())
	s.must(err)
	return fmt.Sprint(m.Subject, m.Header, string(m.Data))
}

// sees fails the test if a readable text is not found in the files of a store, because the test would then miss what is written.
func (s *servers) sees(text string, stores ...string) {
	s.t.Helper()
	found := s.files(text)
	for _, name := range stores {
		if !slices.ContainsFunc(found, func(path string) bool { return strings.Contains(path, name) }) {
			s.t.Errorf("%s is in %q, and in no file of %s", text, found, name)
		}
	}
}

// TestNothingOfAPayloadIsReadableAtRest reads every file of both servers, and the logs.
func TestNothingOfAPayloadIsReadableAtRest(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := codec(t, pawlcodec.Options{Keys: pawlcodec.Keys(key(t, "k1"))}) // without compression, which would hide the canary, too
	stop := s.run(c)
	cl, ctx := s.client(c), t.Context()
	run, err := client.Start(ctx, cl, everything, "readable-id", canary)
	s.must(err)
	if got, err := client.Update(ctx, cl, change, "readable-id", canary); err != nil || got != canary {
		t.Errorf("update: %q, %v", got, err)
	}
	if _, err := client.Update(ctx, cl, refuse, "readable-id", canary); err == nil || !strings.Contains(err.Error(), canary) {
		t.Errorf("rejected update: %v", err)
	}
	if got, err := client.Query(ctx, cl, peek, "readable-id", canary); err != nil || got.Value != canary {
		t.Errorf("query: %q, %v", got.Value, err)
	}
	s.must(client.Send(ctx, cl, step, "readable-id", canary))
	s.builtins(cl)
	if got, err := run.Result(ctx); err != nil || got != canary {
		t.Errorf("result: %q, %v", got, err)
	}
	if got, err := client.CustomStatus(ctx, cl, progress, "readable-id"); err != nil || got.Value != canary+" again" {
		t.Errorf("status: %q, %v", got.Value, err)
	}
	if d, err := cl.Describe(ctx, "readable-id"); err != nil || !strings.Contains(string(d.Result.Data), canary) {
		t.Errorf("described: %s, %v", d.Result.Data, err)
	}
	if _, err := client.Attach(s.client(nil), everything, "readable-id").Result(ctx); !errors.As(err, new(*sealing.KeyError)) || !strings.Contains(err.Error(), "readable-id") {
		t.Errorf("result without the key: %v", err)
	}
	task := s.task()
	if !strings.Contains(task, "readable-id-task") || strings.Contains(task, "canary") {
		t.Errorf("the task has no id, or the canary: %q", task)
	}
	stop()
	s.stop()
	s.sees("readable-id", "appendonly", "PAWL-default-INPUTS")
	if found := s.files("canary"); len(found) > 0 {
		t.Errorf("the canary is in %q", found)
	}
	if log := s.logs.String(); strings.Contains(log, canary) || !strings.Contains(log, "orchestrator started") {
		t.Errorf("the canary is in the logs, or nothing is:\n%s", log)
	}
}

// The test also rotates keys: the fleet continues with another key, and then receives the old one in addition.
func TestInstanceWithoutItsKeyIsStalledUntilTheKeyIsThere(t *testing.T) {
	t.Parallel()
	s := start(t)
	old, current := key(t, "k1"), key(t, "k2")
	before := codec(t, pawlcodec.Options{Keys: pawlcodec.Keys(old)})
	after := codec(t, pawlcodec.Options{Keys: pawlcodec.Keys(current, old), Compress: true})
	ctx := t.Context()
	stop := s.run(before)
	cl := s.client(before)
	run, err := client.Start(ctx, cl, everything, "order-1", canary)
	s.must(err)
	poll.Until(t, time.Minute, "it waits for an event", func() bool {
		d, err := cl.Describe(ctx, "order-1")
		return err == nil && len(d.AwaitedEvents) == 1
	})
	stop()

	stop = s.run(codec(t, pawlcodec.Options{Keys: pawlcodec.Keys(current)}))
	s.must(client.Send(ctx, cl, step, "order-1", canary))
	poll.Until(t, time.Minute, "it is stalled", func() bool {
		d, err := cl.Describe(ctx, "order-1")
		return err == nil && strings.Contains(d.Stalled, `"k1"`) && strings.Contains(d.Stalled, "order-1")
	})
	stop()

	stop = s.run(after)
	defer stop()
	s.must(client.Send(ctx, s.client(after), step, "order-1", canary))
	if got, err := client.Attach(s.client(after), everything, "order-1").Result(ctx); err != nil || got != canary {
		t.Errorf("result: %q, %v", got, err)
	}
	if _, err := run.Result(ctx); !errors.As(err, new(*sealing.KeyError)) { // this client has only the old key
		t.Errorf("result without the new key: %v", err)
	}
}
