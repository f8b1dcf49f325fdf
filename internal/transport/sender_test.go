package transport

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/wire"
	"github.com/pawlrun/pawl/pkg/history"
)

// Trap: a subject shared by roles. Assertions that only orchestrators may make were accepted from every sender, which could complete other parents.
func TestOnlySubjectsOfOrchestratorsCarryTheirAssertions(t *testing.T) {
	t.Parallel()
	root := subjectsOf("default").root
	end := wire.Encode(doneFields(&message.Done{Scheduled: 1, Effect: "e"}))
	family := nats.Header{HeaderParent: {parentText(parent())}, HeaderHolds: {"charge=t1"}, HeaderOf: {"e"}, HeaderReason: {"scope-ended"}}
	broken := nats.Header{HeaderParent: {"order-42 1 -2 3 4 e 1 -"}, HeaderOf: {"an effect"}}
	for _, k := range []struct {
		subject string
		header  nats.Header
		body    []byte
		trusted bool
		problem bool
	}{
		{subject: "own.a.start.x", header: family, trusted: true},
		{subject: "own.a.start.x", header: broken, problem: true},
		{subject: "own.a.cancel", header: family, trusted: true},
		{subject: "own.a.cancel", header: broken, problem: true},
		{subject: "own.a.done", body: end, trusted: true},
		{subject: "own.a.event.x"},
		{subject: "own.a.purge", header: family, trusted: true},
		{subject: "own.a.operate.pause"},
		{subject: "own.a.update.x", problem: true},
		{subject: "own.a.start.pawl.batch"},
		{subject: "to.a.operate.batch"},
		{subject: "to.a.start.pawl.batch", problem: true},
		{subject: "own.a.operate.batch", problem: true},
		{subject: "to.a.operate.restart.x"},
		{subject: "to.a.operate.restart.x", header: nats.Header{HeaderReuse: {"reject"}}, problem: true},
		{subject: "to.a.operate.restart.pawl.batch", problem: true},
		{subject: "to.a.start.x", header: nats.Header{HeaderReuse: {"terminate-existing"}}, problem: true},
		{subject: "to.a.start.x", header: nats.Header{HeaderUpdate: {"u"}}},
		{subject: "to.a.start.x", header: nats.Header{HeaderReuse: {"after-failure"}, HeaderUpdate: {"u"}}, problem: true},
		{subject: "to.a.operate.restart.x", header: nats.Header{HeaderUpdate: {"u"}}, problem: true},
		{subject: "own.a.operate.restart.x", problem: true},
		{subject: "to.a.operate.pause"},
		{subject: "to.a.operate.destroy", problem: true},
		{subject: "to.a.start.x", header: family},
		{subject: "to.a.start.x", header: broken},
		{subject: "to.a.cancel", header: family},
		{subject: "to.a.cancel", header: broken},
		{subject: "to.a.done", body: end, problem: true},
		{subject: "to.a.purge"},
		{subject: "else.a.event.x", problem: true},
	} {
		in := decodeInput(&nats.Msg{Subject: root + "in.0." + k.subject, Header: k.header, Data: k.body}, root, history.Position{Seq: 1})
		trusted := in.Parent != nil || in.Of != "" || in.Reason != 0 || in.Done != nil
		if (in.Problem != nil) != k.problem || in.Problem == nil && trusted != k.trusted {
			t.Errorf("%s %v: %+v", k.subject, k.header, in)
		}
	}
}

func TestInputsOfClientsAndOrchestratorsAreInOneOrder(t *testing.T) {
	t.Parallel()
	c := newHarness(t).open(Options{})
	const n = 20
	for i := range n {
		in := event("a", fmt.Sprint("e", i), "1")
		in.Sender = message.Sender(i % 2)
		_, err := c.PublishInput(soon(t), in)
		ok(t, err)
	}
	r, err := c.Attach(soon(t), c.PartitionOf("a"), history.Position{})
	ok(t, err)
	defer r.Stop()
	for i, in := range read(t, r, n) {
		if in.Name != fmt.Sprint("e", i) || in.Sender != message.Sender(i%2) {
			t.Errorf("input %d: %+v", i, in)
		}
	}
}
