package orchestrator_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/imported"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// An order has completed "reserve", and its activity "hold" and its child are running when it is exported. Its import under another id keeps what
// the code has observed, and runs "hold" again with the same idempotency key. The id of the child belongs to the child of the original, which continues.
func TestImportedInstanceContinuesBesideItsOriginal(t *testing.T) {
	s := newHarness(t)
	var l runLedger
	causes := make(chan error, 4)
	s.orchestrate(orchestrator.Config{},
		parcel.Do(func(ctx *pawl.Context, in string) (string, error) { return proceed.Receive(ctx) }),
		order.Do(func(ctx *pawl.Context, in string) (string, error) {
			first := pawl.NewID(ctx)
			if _, err := step.Call(ctx, "reserve "+first); err != nil {
				return "", err
			}
			box, hold := parcel.Start(ctx, in), step.Start(ctx, "hold")
			if _, err := box.Get(ctx); err != nil && !errors.Is(err, pawl.ErrIDTaken) {
				return "", err
			}
			if _, err := hold.Get(ctx); err != nil {
				return "", err
			}
			return first, nil
		}))
	s.work(worker.Config{}, l.steps(causes))
	s.start("order", "o-1", `"x"`)
	s.until("it runs", func() bool { return l.count("hold") == 1 })
	op := s.operator()
	x, err := api.ExportInstance(s.ctx(), op, "o-1")
	if err != nil {
		t.Fatal(err)
	}
	export, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := op.Import(s.ctx(), "o-1", export); !errors.Is(err, client.ErrIDTaken) {
		t.Errorf("import over its original: %v", err)
	}
	if _, err := op.Import(s.ctx(), "o-3", []byte(`{"pawl_export":1}`)); !errors.Is(err, client.ErrNoImport) {
		t.Errorf("import of nothing: %v", err)
	}
	got, err := op.Import(s.ctx(), "o-2", export, client.Continue(), client.Reason("moved"))
	if err != nil || got.Status != client.Running || got.Execution != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	s.until("the activity runs again", func() bool { return l.count("hold") == 2 })
	if keys := l.runs["hold"]; keys[0] != keys[1] {
		t.Errorf("the idempotency key has changed: %q", keys)
	}
	d := s.ended("o-2")
	var first string
	if err := json.Unmarshal(d.Result.Data, &first); err != nil || d.Status != "completed" || l.count("reserve "+first) != 1 {
		t.Errorf("%+v: reserved %d times, %v", d, l.count("reserve "+first), err)
	}
	n, err := op.Count(s.ctx(), client.CountOptions{Where: "status = running"}) // the original, and its child
	if err != nil || n.Count != 2 {
		t.Errorf("%d instances run, %v", n.Count, err)
	}
	if again, err := op.Import(s.ctx(), "o-4", export); err != nil || again.Status != client.Cancelled {
		t.Errorf("%+v, %v", again, err)
	}
	s.publish(message.OutInput{ // an input that this owner cannot read
		ID: "unreadable", Instance: "o-5", Kind: message.KindStart, Name: message.ImportName, Reuse: history.ReuseReject,
		Payload: history.Payload{Type: imported.ContentType, Data: []byte("x")},
	})
	if again, err := op.Import(s.ctx(), "o-5", export, client.MessageID("unreadable"), client.Continue()); !errors.Is(err, client.ErrNoImport) {
		t.Errorf("its owner has refused it: %+v, %v", again, err)
	}
	codec, err := sealing.New(sealing.Options{Store: true})
	if err != nil {
		t.Fatal(err)
	}
	start := &history.Started{Name: "order", Execution: 1}
	start.At = 1
	start.Payload, _ = codec.SealStored(sealing.ByClient, history.Payload{Type: history.TypeJSON, Data: make([]byte, 1<<20)})
	b, err := eventcodec.Encode(start)
	if err != nil {
		t.Fatal(err)
	}
	p, err := (&imported.Instance{Instance: "o-1", Events: [][]byte{b}}).Payload()
	if err != nil {
		t.Fatal(err)
	}
	s.publish(message.OutInput{ID: "reference", Instance: "o-6", Kind: message.KindStart, Name: message.ImportName, Reuse: history.ReuseReject, Payload: p})
	if d := s.ended("o-6"); d.Failure == nil || !strings.Contains(d.Failure.Message, sealing.ErrNotPortable.Error()) {
		t.Errorf("its owner has imported a reference to an object: %+v", d)
	}
	if _, err := op.Terminate(s.ctx(), "o-1"); err != nil {
		t.Error(err)
	}
}
