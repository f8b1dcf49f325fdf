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
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
	"github.com/pawlrun/pawl/tests/stack"
)

var (
	receiving = pawl.NewOrchestration[string, string]("receiving")
	working   = pawl.NewOrchestration[string, string]("working")
	parent    = pawl.NewOrchestration[string, string]("parent")
	answer    = pawl.NewEvent[string]("answer")
	hold      = pawl.NewActivity[string, string]("hold")
)

// logCounter counts the log lines of a process.
type logCounter struct {
	slog.Handler
	mu    sync.Mutex
	lines map[string]int // number of lines by message
}

func (c *logCounter) Enabled(context.Context, slog.Level) bool { return true }
func (c *logCounter) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c *logCounter) WithGroup(string) slog.Handler            { return c }

func (c *logCounter) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines[r.Message]++
	return nil
}

func (c *logCounter) all() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.lines)
}

func (c *logCounter) count(message string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lines[message]
}

// decoderHarness is a fleet in this process. A test can send bytes to all of its decoders.
type decoderHarness struct {
	*stack.Fleet
	t     *testing.T
	nats  *nats.Conn
	redis redis.UniversalClient
	log   *logCounter
}

func newDecoderHarness(t *testing.T) *decoderHarness {
	t.Helper()
	d := &decoderHarness{t: t, nats: natstest.Dial(t, natstest.Start(t).ClientURL()), redis: redistest.Start(t).Client(t), log: &logCounter{lines: map[string]int{}}}
	log := slog.New(d.log)
	o, err := orchestrator.New(orchestrator.Config{NATS: d.nats, Redis: d.redis, Namespace: namespace, Partitions: partitions, ReconcileInterval: time.Second, Logger: log},
		receiving.Do(func(ctx *pawl.Context, _ string) (string, error) { return answer.Receive(ctx) }),
		working.Do(func(ctx *pawl.Context, in string) (string, error) { return hold.Call(ctx, in) }),
		parent.Do(func(ctx *pawl.Context, child string) (string, error) { return receiving.Call(ctx, "", pawl.ID(child)) }))
	d.serve(o, err)
	w, err := worker.New(worker.Config{NATS: d.nats, Redis: d.redis, Namespace: namespace, Name: "w", Logger: log, Drain: time.Millisecond},
		hold.Do(func(ctx context.Context, _ string) (string, error) { <-ctx.Done(); return "", context.Cause(ctx) }))
	d.serve(w, err)
	d.Fleet = stack.NewFleet(t, namespace, partitions, d.redis)
	d.Join(d.nats, client.Options{})
	return d
}

func (d *decoderHarness) serve(m stack.Member, err error) {
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
		_ = m.Stop(ctx) // its activities do not end
	})
}

// publish sends the same message repeatedly, so that the test detects one log line per message.
func (d *decoderHarness) publish(subject, header, body string) {
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
	maxLines = 11 // in a minute: ten for different instances, and one with the count of the others
)

// startInstance starts an instance and waits for its first turn and the first turn of its child.
func (d *decoderHarness) startInstance(o pawl.Orchestration[string, string], id, in string) {
	d.t.Helper()
	if _, err := client.Start(d.t.Context(), d.Client, o, id, in); err != nil {
		d.t.Fatal(err)
	}
	d.until(id+" has begun", func() bool {
		events, err := d.Store.History(d.t.Context(), d.PartitionOf(id), id, 1)
		return err == nil && len(events) > 0 && (o.Name() == receiving.Name() || len(events) > 1)
	})
}

func (d *decoderHarness) until(what string, met func() bool) {
	d.t.Helper()
	poll.Until(d.t, within, what, met)
}

// element pushes an element to an inbox with the permissions of a worker, and makes the instance due.
func (d *decoderHarness) element(id, element string) {
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

// Every place that decodes external bytes receives bytes that cannot be decoded. Either the instance fails with a typed
// error, or the bytes are skipped with few log lines. Other instances are not affected.
func TestUndecodableBytesFailTheirInstanceOrAreSkipped(t *testing.T) {
	t.Parallel()
	d := newDecoderHarness(t)
	began := time.Now()
	d.startInstance(receiving, "other", "")
	subject := fmt.Sprint("doorbell.", d.PartitionOf("other"))
	tests := []struct {
		decoder string
		send    func()
		fails   string // an instance with a payload that cannot be decoded
		logged  string // a log message
	}{
		{"start, payload", func() { d.publish("to.start-1.start.receiving", "", longArray) }, "start-1", ""},
		{"start, content type", func() { d.publish("to.start-2.start.parent", "Content-Type: application/msgpack", longArray) }, "start-2", ""},
		{"start, header", func() { d.publish("to.start-3.start.parent", "Pawl-Version: x", `"x"`) }, "", skipped},
		{"start, parent", func() { d.publish("own.start-4.start.parent", "Pawl-Parent: a b", `"x"`) }, "", skipped},
		{"event", func() {
			d.startInstance(receiving, "event-1", "")
			d.publish("to.event-1.event.answer", "", longString)
		}, "event-1", ""},
		{"cancel", func() { d.publish("to.other.cancel", "", "\xff\xfe") }, "", skipped},
		{"purge", func() { d.publish("to.other.purge", "", "\xff\xfe") }, "", skipped},
		{"child end", func() { d.startInstance(parent, "parent-1", "child-1"); d.publish("own.parent-1.done", "", longString) }, "", skipped},
		{"child end, result", func() {
			d.startInstance(parent, "parent-2", "child-2")
			d.end("parent-2")
		}, "parent-2", ""},
		{"completion", func() { d.startInstance(working, "work-1", "x"); d.complete("work-1") }, "work-1", ""},
		{"inbox element", func() { d.element("other", "aeffect.token\n1\n"+longString) }, "", ""},
		{"inbox element, forged", func() { d.element("other", forgedElement()) }, "", "forged input dropped"},
		{"policy", func() {
			if err := d.redis.HSet(t.Context(), redisx.NewSpace(namespace).Policies(), "action:hold", "{").Err(); err != nil {
				t.Fatal(err)
			}
		}, "", "policies not read, keeping known ones"},
		{"task", func() { d.publish("task.hold", "", longString) }, "", "task not decodable"},
		{"task, other version", func() { d.publish("task.hold", "", "\x91\xcc\xff") }, "", "task not decodable"},
		{"doorbell", func() { d.publish(subject, "", longString) }, "", foreign},
		{"limit notice", func() { d.publish("limit.0", "", longString) }, "", foreign},
		{"notice", func() { d.publish("notice", "", longString) }, "", foreign},
		{"hint", func() { d.publish("hint.w", "", longString) }, "", foreign},
		{"owner", func() { d.publish("owner.x", "", longString) }, "", ""}, // read by clients
	}
	for _, c := range tests {
		before := d.log.count(c.logged)
		c.send()
		if c.fails != "" {
			if f, ok := d.End(within, c.fails).(*history.Failed); !ok || f.Failure.Code != pawl.ErrUndecodable.Code() {
				t.Errorf("%s: %+v, want failure %s", c.decoder, f, pawl.ErrUndecodable.Code())
			}
		}
		if c.logged != "" && before == 0 {
			d.until(c.decoder+": "+c.logged, func() bool { return d.log.count(c.logged) > 0 })
		}
	}
	d.rejectsRequests()
	most := maxLines * (1 + int(time.Since(began)/time.Minute))
	for message, n := range d.log.all() {
		if n > most && message != foreign { // logged at level debug
			t.Errorf("%q was logged %d times", message, n)
		}
	}
	if err := client.Send(t.Context(), d.Client, answer, "other", "well"); err != nil {
		t.Fatal(err)
	}
	if got, err := client.Attach(d.Client, receiving, "other").Result(t.Context()); got != "well" || err != nil {
		t.Errorf("the other instance: %q, %v", got, err)
	}
}

// rejectsRequests sends undecodable requests to an owner and to the workers, which must reject them.
func (d *decoderHarness) rejectsRequests() {
	d.t.Helper()
	conn, err := transport.Join(d.t.Context(), d.nats, transport.Options{Namespace: namespace})
	if err != nil {
		d.t.Fatal(err)
	}
	defer conn.Close()
	for _, subject := range []string{"request.0.read", "request.0.admin"} {
		m, err := d.nats.Request("pawl."+namespace+"."+subject, []byte(longString), within)
		if err != nil || !strings.Contains(string(m.Data), "malformed") {
			d.t.Errorf("%s: %v, want a typed problem", subject, err)
		}
	}
	sub, err := d.nats.Subscribe("pawl."+namespace+".workers", func(m *nats.Msg) { _ = m.Respond([]byte(longString)) })
	if err != nil {
		d.t.Fatal(err)
	}
	if err := d.nats.Flush(); err != nil {
		d.t.Fatal(err)
	}
	d.until("one worker answers", func() bool { // a slow answer is missing
		all, err := d.Client.Workers(d.t.Context())
		if err != nil {
			d.t.Fatal(err)
		}
		return len(all) == 1
	})
	if err := sub.Unsubscribe(); err != nil {
		d.t.Error(err)
	}
}

func garbage() history.Payload {
	return history.Payload{Type: history.TypeJSON, Data: []byte(longString)}
}

// complete completes the activity of an instance with a result that cannot be decoded.
func (d *decoderHarness) complete(id string) {
	d.t.Helper()
	s, ok := d.History(id, 1)[1].(*history.ActivityScheduled)
	if !ok {
		d.t.Fatalf("%+v", s)
	}
	d.element(id, encoded(d.t, "a"+s.Effect+".token", &history.ActivityCompleted{Scheduled: s.ID, Result: garbage()}))
}

// end sends a parent the end of its child, with a result that cannot be decoded.
func (d *decoderHarness) end(id string) {
	d.t.Helper()
	s, ok := d.History(id, 1)[1].(*history.ChildScheduled)
	if !ok {
		d.t.Fatalf("%+v", s)
	}
	conn, err := transport.Join(d.t.Context(), d.nats, transport.Options{Namespace: namespace})
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
	body, err := eventcodec.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(eventcodec.Element{ID: id, At: time.Now().UnixMilli(), Body: body}.Encode())
}

func forgedElement() string {
	body, _ := eventcodec.Encode(&history.EventReceived{Name: answer.Name(), Payload: history.Payload{Type: history.TypeJSON, Data: []byte(`"forged"`)}})
	return string(eventcodec.Element{ID: "s1.1", At: 1, Body: body}.Encode())
}
