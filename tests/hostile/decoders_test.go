package hostile

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/queue"
	"github.com/pawlrun/pawl/pkg/worker"
	"github.com/pawlrun/pawl/tests/stack"
)

var (
	asking  = pawl.NewOrchestration[string, string]("asking")
	working = pawl.NewOrchestration[string, string]("working")
	parent  = pawl.NewOrchestration[string, string]("parent")
	answer  = pawl.NewEvent[string]("answer")
	held    = pawl.NewActivity[string, string]("held")
)

// journal records the log of a process.
type journal struct {
	slog.Handler
	mu    sync.Mutex
	lines map[string]int // number of lines by message
}

func (j *journal) Enabled(context.Context, slog.Level) bool { return true }
func (j *journal) WithAttrs([]slog.Attr) slog.Handler       { return j }
func (j *journal) WithGroup(string) slog.Handler            { return j }

func (j *journal) Handle(_ context.Context, r slog.Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines[r.Message]++
	return nil
}

func (j *journal) all() map[string]int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.lines)
}

func (j *journal) count(message string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lines[message]
}

// doors is a fleet in this process. A test can reach all of its decoders.
type doors struct {
	*stack.Fleet
	t       *testing.T
	nats    *nats.Conn
	redis   redis.UniversalClient
	journal *journal
}

func openDoors(t *testing.T) *doors {
	t.Helper()
	d := &doors{t: t, nats: natstest.Dial(t, natstest.Start(t).ClientURL()), redis: redistest.Start(t).Client(t), journal: &journal{lines: map[string]int{}}}
	log := slog.New(d.journal)
	o, err := orchestrator.New(orchestrator.Config{NATS: d.nats, Redis: d.redis, Namespace: namespace, Partitions: partitions, ReconcileInterval: time.Second, Logger: log},
		asking.Do(func(ctx *pawl.Context, _ string) (string, error) { return answer.Receive(ctx) }),
		working.Do(func(ctx *pawl.Context, in string) (string, error) { return held.Call(ctx, in) }),
		parent.Do(func(ctx *pawl.Context, child string) (string, error) { return asking.Call(ctx, "", pawl.ID(child)) }))
	d.serve(o, err)
	w, err := worker.New(worker.Config{NATS: d.nats, Redis: d.redis, Namespace: namespace, Name: "w", Logger: log, Drain: time.Millisecond},
		held.Do(func(ctx context.Context, _ string) (string, error) { <-ctx.Done(); return "", context.Cause(ctx) }))
	d.serve(w, err)
	d.Fleet = stack.NewFleet(t, namespace, partitions, d.redis)
	d.Join(d.nats, client.Options{})
	return d
}

func (d *doors) serve(m stack.Member, err error) {
	d.t.Helper()
	if err == nil {
		err = m.Start(d.t.Context())
	}
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), within)
		defer stop()
		_ = m.Stop(ctx) // its activities are held
	})
}

// publish sends the same message repeatedly, so that one log line per message would be noticed.
func (d *doors) publish(subject, header, body string) {
	d.t.Helper()
	m := &nats.Msg{Subject: "pawl." + namespace + "." + subject, Data: []byte(body)}
	if name, value, ok := strings.Cut(header, ": "); ok {
		m.Header = nats.Header{name: {value}}
	}
	for range repeats {
		if err := d.nats.PublishMsg(m); err != nil {
			d.t.Fatal(err)
		}
	}
}

const (
	repeats  = 30
	maxLines = 11 // ten that name different instances, and one that counts the others
)

// begin starts an instance, and waits for its first turn and the first turn of its child.
func (d *doors) begin(o pawl.Orchestration[string, string], id, in string) {
	d.t.Helper()
	if _, err := client.Start(d.t.Context(), d.Client, o, id, in); err != nil {
		d.t.Fatal(err)
	}
	d.until(id+" has begun", func() bool {
		events, err := d.Store.History(d.t.Context(), d.PartitionOf(id), id, 1)
		return err == nil && len(events) > 0 && (o.Name() == asking.Name() || len(events) > 1)
	})
}

func (d *doors) until(what string, yes func() bool) {
	d.t.Helper()
	poll.Until(d.t, within, what, yes)
}

// element pushes an element to an inbox with the permissions of a worker, and makes the instance due.
func (d *doors) element(id, element string) {
	d.t.Helper()
	part := redisx.NewSpace(namespace).Part(d.PartitionOf(id))
	ctx := d.t.Context()
	if err := d.redis.RPush(ctx, part.Inbox(id), element).Err(); err != nil {
		d.t.Fatal(err)
	}
	if err := d.redis.ZAdd(ctx, part.Wakeups(), redis.Z{Member: id, Score: 1}).Err(); err != nil {
		d.t.Fatal(err)
	}
}

const (
	skipped = "invalid input skipped"
	foreign = "malformed message ignored"
)

// Every place that decodes external bytes receives bytes that cannot be decoded. Either the instance fails with a named
// error, or the bytes are skipped with few log lines. Other instances are not affected.
func TestGarbageFailsItsInstanceByNameOrIsSkipped(t *testing.T) {
	t.Parallel()
	d := openDoors(t)
	d.begin(asking, "neighbor", "")
	bell := fmt.Sprint("doorbell.", d.PartitionOf("neighbor"))
	tests := []struct {
		door   string
		send   func()
		fails  string // an instance with a payload that cannot be decoded
		logged string // a log message
	}{
		{"start, payload", func() { d.publish("to.start-1.start.asking", "", longArray) }, "start-1", ""},
		{"start, content type", func() { d.publish("to.start-2.start.parent", "Content-Type: application/msgpack", longArray) }, "start-2", ""},
		{"start, header", func() { d.publish("to.start-3.start.parent", "Pawl-Version: x", `"x"`) }, "", skipped},
		{"start, parent", func() { d.publish("own.start-4.start.parent", "Pawl-Parent: a b", `"x"`) }, "", skipped},
		{"event", func() { d.begin(asking, "event-1", ""); d.publish("to.event-1.event.answer", "", longString) }, "event-1", ""},
		{"cancel", func() { d.publish("to.neighbor.cancel", "", "\xff\xfe") }, "", skipped},
		{"purge", func() { d.publish("to.neighbor.purge", "", "\xff\xfe") }, "", skipped},
		{"child end", func() { d.begin(parent, "parent-1", "child-1"); d.publish("own.parent-1.done", "", longString) }, "", skipped},
		{"child end, result", func() {
			d.begin(parent, "parent-2", "child-2")
			d.end("parent-2")
		}, "parent-2", ""},
		{"completion", func() { d.begin(working, "work-1", "x"); d.complete("work-1") }, "work-1", ""},
		{"inbox element", func() { d.element("neighbor", "aeffect.token\n1\n"+longString) }, "", ""},
		{"inbox element, forged", func() { d.element("neighbor", forgedElement()) }, "", "forged input dropped"},
		{"policy", func() {
			if err := d.redis.HSet(t.Context(), redisx.NewSpace(namespace).Policies(), "action:held", "{").Err(); err != nil {
				t.Fatal(err)
			}
		}, "", "policies not read, keeping known ones"},
		{"task", func() { d.publish("task.held", "", longString) }, "", "task not decodable"},
		{"task, other version", func() { d.publish("task.held", "", "\x91\xcc\xff") }, "", "task not decodable"},
		{"doorbell", func() { d.publish(bell, "", longString) }, "", foreign},
		{"limit notice", func() { d.publish("limit.0", "", longString) }, "", foreign},
		{"notice", func() { d.publish("notice", "", longString) }, "", foreign},
		{"hint", func() { d.publish("hint.w", "", longString) }, "", foreign},
		{"owner", func() { d.publish("owner.x", "", longString) }, "", ""}, // read by clients
	}
	for _, c := range tests {
		before := d.journal.count(c.logged)
		c.send()
		if c.fails != "" {
			if f, ok := d.End(within, c.fails).(*history.Failed); !ok || f.Failure.Code != pawl.ErrUndecodable.Code() {
				t.Errorf("%s: %+v, want failure %s", c.door, f, pawl.ErrUndecodable.Code())
			}
		}
		if c.logged != "" && before == 0 {
			d.until(c.door+": "+c.logged, func() bool { return d.journal.count(c.logged) > 0 })
		}
	}
	d.refuses()
	for message, n := range d.journal.all() {
		if n > maxLines && message != foreign { // logged at level debug
			t.Errorf("%q was logged %d times", message, n)
		}
	}
	if err := client.Send(t.Context(), d.Client, answer, "neighbor", "well"); err != nil {
		t.Fatal(err)
	}
	if got, err := client.Attach(d.Client, asking, "neighbor").Result(t.Context()); got != "well" || err != nil {
		t.Errorf("the neighbor: %q, %v", got, err)
	}
}

// refuses sends requests that cannot be decoded to an owner and to the workers.
func (d *doors) refuses() {
	d.t.Helper()
	conn, err := queue.Join(d.t.Context(), d.nats, queue.Options{Namespace: namespace})
	if err != nil {
		d.t.Fatal(err)
	}
	defer conn.Close()
	for _, subject := range []string{"request.0.read", "request.0.admin"} {
		m, err := d.nats.Request("pawl."+namespace+"."+subject, []byte(longString), within)
		if err != nil || !strings.Contains(string(m.Data), "malformed") {
			d.t.Errorf("%s: %v, want a named problem", subject, err)
		}
	}
	sub, err := d.nats.Subscribe("pawl."+namespace+".workers", func(m *nats.Msg) { _ = m.Respond([]byte(longString)) })
	if err != nil {
		d.t.Fatal(err)
	}
	if err := d.nats.Flush(); err != nil {
		d.t.Fatal(err)
	}
	if all, err := d.Client.Workers(d.t.Context()); err != nil || len(all) != 1 {
		d.t.Errorf("workers: %+v, %v, want one", all, err)
	}
	if err := sub.Unsubscribe(); err != nil {
		d.t.Error(err)
	}
}

func garbage() history.Payload {
	return history.Payload{Type: history.TypeJSON, Data: []byte(longString)}
}

// complete completes the activity of an instance with a result that cannot be decoded.
func (d *doors) complete(id string) {
	d.t.Helper()
	s, ok := d.History(id, 1)[1].(*history.ActivityScheduled)
	if !ok {
		d.t.Fatalf("%+v", s)
	}
	d.element(id, encoded(d.t, "a"+s.Effect+".token", &history.ActivityCompleted{Scheduled: s.ID, Result: garbage()}))
}

// end sends a parent the end of its child, with a result that cannot be decoded.
func (d *doors) end(id string) {
	d.t.Helper()
	s, ok := d.History(id, 1)[1].(*history.ChildScheduled)
	if !ok {
		d.t.Fatalf("%+v", s)
	}
	conn, err := queue.Join(d.t.Context(), d.nats, queue.Options{Namespace: namespace})
	if err != nil {
		d.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.PublishInput(d.t.Context(), message.OutInput{
		Sender: message.SenderOrchestrator, Instance: id, Kind: message.KindDone, Done: &message.Done{Scheduled: s.ID, Effect: s.Effect, Result: garbage()},
	}); err != nil {
		d.t.Fatal(err)
	}
}

func encoded(t *testing.T, id string, e history.Event) string {
	t.Helper()
	body, err := history.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(history.Element{ID: id, At: time.Now().UnixMilli(), Body: body}.Encode())
}

func forgedElement() string {
	body, _ := history.Encode(&history.EventReceived{Name: answer.Name(), Payload: history.Payload{Type: history.TypeJSON, Data: []byte(`"forged"`)}})
	return string(history.Element{ID: "s1.1", At: 1, Body: body}.Encode())
}
