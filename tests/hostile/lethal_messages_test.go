package hostile

import (
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/examples"
	"github.com/pawlrun/pawl/internal/imported"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

// Trap: a decoder that trusts a length. Messages that once crashed every process of a fleet, and again after each restart,
// are published on every subject. The instances that they start fail with a typed error, and the processes and all other
// instances continue. So does a fleet that is killed and reads the stream again.
func TestMessagesThatCrashedProcessesFailOnlyTheirInstance(t *testing.T) {
	h := newHarness(t, 1, 1)
	ctx, stop := context.WithTimeout(t.Context(), 5*within)
	defer stop()
	other := start(ctx, h, examples.Expense, "other", examples.Claim{Cents: 10_000, Approvers: []string{"finance"}})
	h.committed("other")
	nc := h.nats.Client()

	lethal := &nats.Msg{
		Subject: "pawl." + namespace + ".to.lethal.start.bill-tenant", Header: nats.Header{"Content-Type": {"application/msgpack"}}, Data: []byte(longArray),
	}
	failing := append(h.attack(ctx, nc, lethal), h.imports(nc))
	for round := range 2 {
		for _, id := range failing {
			failure, ok := h.End(within, id).(*history.Failed)
			if !ok || id != "wide" && failure.Failure.Code != pawl.ErrUndecodable.Code() {
				t.Errorf("%s: ended with %+v", id, failure)
			}
		}
		h.runsHello(ctx, fmt.Sprint("hello-", round))
		h.Alive()
		for _, p := range h.Processes { // the published messages are still in the stream
			p.Kill()
			p.Start()
		}
		if err := nc.PublishMsg(lethal); err != nil {
			t.Fatal(err)
		}
	}
	h.runsHello(ctx, "hello-after")
	if err := client.Send(ctx, h.Client, examples.Answered, "other", examples.Verdict{By: "finance", Approved: true}); err != nil {
		t.Fatal(err)
	}
	if got, err := other.Result(ctx); err != nil || !got.Approved {
		t.Errorf("the other instance: %+v, %v", got, err)
	}
	h.checkBounds()
}

// attack publishes each of the bodies on each subject, and returns the instances that must fail because of their input.
func (h *harness) attack(ctx context.Context, nc *nats.Conn, lethal *nats.Msg) (failing []string) {
	h.t.Helper()
	publish := func(m *nats.Msg) {
		h.t.Helper()
		if err := nc.PublishMsg(m); err != nil {
			h.t.Fatal(err)
		}
	}
	publish(lethal)
	failing = append(failing, "lethal")
	root := "pawl." + namespace + "."
	for range 400 { // each of them used to enlarge a pooled decoder
		for _, from := range []string{"to", "own"} {
			publish(&nats.Msg{Subject: root + from + ".x.done", Data: []byte(longString)})
		}
	}
	subjects := []string{"task.greet", "hint.worker", "notice", "workers", "to.x.done", "own.x.done", "to.other.cancelled", "to.x.purge", "own.other.done", "code.greet.any", "turn.x"}
	for p := range partitions {
		for _, kind := range []string{"doorbell.%d", "limit.%d", "request.%d.read", "request.%d.admin", "owner.%d"} {
			subjects = append(subjects, fmt.Sprintf(kind, p))
		}
	}
	for i, name := range slices.Sorted(maps.Keys(bodies)) {
		for _, s := range subjects {
			publish(&nats.Msg{Subject: root + s, Data: bodies[name], Reply: nats.NewInbox()})
		}
		for _, kind := range []string{"", "application/msgpack"} {
			id := fmt.Sprintf("body-%d-%d", i, len(kind))
			publish(&nats.Msg{Subject: root + "to." + id + ".start.bill-tenant", Header: nats.Header{"Content-Type": {kind}}, Data: bodies[name]})
			if ok := name == "empty" || kind == "" && (name == "null" || name == "long text"); !ok && len(bodies[name]) <= 512<<10 {
				failing = append(failing, id)
			}
			publish(&nats.Msg{Subject: root + "to.other.event.verdict", Header: nats.Header{"Content-Type": {kind}}, Data: bodies[name]})
		}
		if err := nc.FlushWithContext(ctx); err != nil {
			h.t.Fatal(err)
		}
	}
	publish(&nats.Msg{Subject: root + "to.wide.start.fanout", Data: []byte("4000000000")}) // would allocate 32 GB of futures
	return append(failing, "wide")
}

// imports publishes 12 KiB that announce an import of 12 million events, and returns the instance that must fail.
func (h *harness) imports(nc *nats.Conn) string {
	h.t.Helper()
	var b bytes.Buffer
	z, err := flate.NewWriter(&b, flate.BestSpeed)
	if err == nil {
		const n = 12<<20 - 100
		_, err = z.Write(append([]byte{0x94, 1, 0xa1, 'a', 0xa0, 0xdd, n >> 24, n >> 16 & 0xff, n >> 8 & 0xff, n & 0xff}, bytes.Repeat([]byte{0xc0}, n)...))
	}
	m := &nats.Msg{Subject: "pawl." + namespace + ".to.imported.operate.import", Header: nats.Header{"Content-Type": {imported.ContentType}}}
	if err = errors.Join(err, z.Close()); err == nil {
		m.Data = b.Bytes()
		err = nc.PublishMsg(m)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return "imported"
}

// runsHello runs an instance to its end.
func (h *harness) runsHello(ctx context.Context, id string) {
	h.t.Helper()
	began := time.Now()
	if got, err := start(ctx, h, examples.Hello, id, "Ada").Result(ctx); err != nil || got != "Hello, Ada!" {
		h.t.Fatalf("%s: %q, %v", id, got, err)
	}
	h.t.Logf("%s took %v", id, time.Since(began).Round(time.Millisecond))
}
