package crash

import (
	"context"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/tests/crash/work"
)

// Without NATS, a parent starts a child, cancels both of its children and ends, all in Redis. Its pending messages are
// published when NATS is back, by the same or another owner: the activity of the first child is cancelled, and the second
// child is started and cancelled.
func TestOutboxOfEndedParentIsPublishedAfterNATSOutage(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(map[bool]string{false: "the orchestrator continues", true: "the orchestrator dies"}[killed], func(t *testing.T) {
			t.Parallel()
			f := newFamily(t, startDurableServers(t), "PAWL_RECONCILE_INTERVAL=500ms", "FLEET_OWNER_TTL=600ms")
			o := f.orchestrator("orchestrator")
			f.worker("worker")
			f.join()
			_, err := client.Start(f.ctx, f.Client, work.SlowParent, "parent", 1500*time.Millisecond)
			f.must(err)
			f.until("the activity of the first child runs", func() bool { return len(f.lines("began")) > 0 })
			f.nats.Kill()
			f.untilEnded("parent")
			if killed {
				o.Kill()
			}
			f.nats.Start()
			if killed {
				o.Start()
			}
			// A published input that is not ingested yet is neither pending nor in an inbox.
			f.until("a parent and two children exist", func() bool {
				all, err := f.instances()
				return err == nil && len(all) == 3
			})
			all := f.settled()
			f.check()
			f.cancelled()
			f.describesNothingPending(all)
			for id, r := range all {
				for _, e := range r.events {
					if c, ok := e.(*history.CancelRequested); ok && c.Reason != cancel.OrchestrationCompleted {
						t.Errorf("%s received %+v", id, c)
					}
				}
			}
		})
	}
}

// Events, and the cancellation by a parent, arrive for an instance that is not started. They wait for its start across
// crashes and a rollback of Redis. A client's cancellation does not wait.
func TestEarlyInputsSurviveCrashesUntilStart(t *testing.T) {
	t.Parallel()
	f := newFamily(t, startDurableServers(t), "PAWL_RECONCILE_INTERVAL=500ms", "FLEET_OWNER_TTL=600ms")
	o := f.orchestrator("orchestrator")
	f.worker("worker")
	f.join()
	conn, err := transport.Join(f.ctx, f.nats.Client(), transport.Options{Namespace: f.Namespace})
	f.must(err)
	t.Cleanup(conn.Close)
	publish := func(in message.OutInput) {
		ctx, stop := context.WithTimeout(f.ctx, within)
		defer stop()
		_, err := conn.PublishInput(ctx, in)
		f.must(err)
	}
	parent := &history.Parent{Instance: "absent", Origin: history.Position{Seq: 1, Time: 1}, Execution: 1, Event: 2, Effect: "effect-of-the-start-00"}
	kept := f.keep(f.redis)

	publish(message.OutInput{Sender: message.SenderOrchestrator, Instance: "withdrawn", Kind: message.KindCancel, Of: "effect-of-another-0000", Reason: cancel.LostSelect})
	publish(message.OutInput{Sender: message.SenderOrchestrator, Instance: "withdrawn", Kind: message.KindCancel, Of: parent.Effect, Reason: cancel.ScopeEnded, By: "absent"})
	f.must(f.Client.Cancel(f.ctx, "greeted", "too early", client.MessageID("cancel")))
	f.must(client.Send(f.ctx, f.Client, work.Go, "greeted", 1, client.MessageID("go")))
	visible := func() bool {
		n := 0
		for d, err := range f.Client.Stalled(f.ctx) {
			if err != nil {
				return false
			}
			if d.Instance == "greeted" || d.Instance == "withdrawn" {
				n++
			}
		}
		return n == 2
	}
	f.until("both wait", visible)
	o.Kill()
	f.restore(f.redis, kept)
	o.Start()
	f.until("both wait again", visible)
	o.Kill()
	publish(message.OutInput{
		Sender: message.SenderOrchestrator, Instance: "withdrawn", Kind: message.KindStart, Name: work.EndlessChild.Name(), Parent: parent,
		Payload: history.Payload{Type: history.TypeJSON, Data: []byte("0")},
	})
	_, err = client.Start(f.ctx, f.Client, work.Child, "greeted", work.ChildInput{Wait: true})
	f.must(err)
	o.Start()
	f.untilEnded("withdrawn")
	f.untilEnded("greeted")
	if rec := f.Record("withdrawn"); rec.Status != record.Cancelled {
		t.Errorf("the child that was cancelled is %s", rec.Status)
	}
	if rec := f.Record("greeted"); rec.Status != record.Completed {
		t.Errorf("the instance that received an event, and a client's cancellation, before its start is %s", rec.Status)
	}
	f.show("withdrawn", "greeted")
}
