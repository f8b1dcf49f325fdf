package orchestrator_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
)

// forge publishes a message of an orchestrator on the subject of a client. The error is that of the request.
func (s *harness) forge(in message.OutInput) error {
	s.t.Helper()
	js, err := jetstream.New(s.nats)
	if err != nil {
		s.t.Fatal(err)
	}
	stream, err := js.Stream(s.ctx(), s.stream("INPUTS"))
	if err != nil {
		s.t.Fatal(err)
	}
	to := in.Instance
	in.Sender, in.Instance = message.SenderOrchestrator, "decoy" // to obtain its encoding
	seq, err := s.conn.PublishInput(s.ctx(), in)
	if err != nil {
		s.t.Fatal(err)
	}
	m, err := stream.GetMsg(s.ctx(), seq)
	if err != nil {
		s.t.Fatal(err)
	}
	_, kind, _ := strings.Cut(m.Subject, ".decoy.")
	_, err = s.nats.RequestMsgWithContext(s.ctx(), &nats.Msg{Subject: s.subject("to.") + to + "." + kind, Header: m.Header, Data: m.Data})
	return err
}

// Trap: a message that any client may send completes a child or cancels it.
func TestForgedChildEndsAndParentsAreIgnored(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, race.Do(pinged), only.Do(waitForPing))
	s.start("race", "p-1", `"x"`)
	s.event("ping", "p-1", `"go"`)
	s.until("the child runs", func() bool { return s.describe("c-1").Status == "running" })
	var scheduled *history.ChildScheduled
	for _, e := range s.history("p-1") {
		if c, ok := e.(*history.ChildScheduled); ok {
			scheduled = c
		}
	}
	result := history.Payload{Type: history.TypeJSON, Data: []byte(`"forged"`)}
	end := message.OutInput{Instance: "p-1", Kind: message.KindDone, Done: &message.Done{Scheduled: scheduled.ID, Effect: scheduled.Effect, Result: result}}
	if err := s.forge(end); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("a forged end: %v, want no stream to accept it", err)
	}

	// The child of a forged parent has no parent, and its end is not sent to any.
	child := message.OutInput{Instance: "c-2", Kind: message.KindStart, Name: "only-child", Payload: result, Parent: s.parentOf("p-1", scheduled.Effect)}
	if err := s.forge(child); err != nil {
		t.Fatal(err)
	}
	s.event("ping", "c-2", `"forged"`)
	if d := s.ended("c-2"); d.Parent != "" || d.Status != "completed" {
		t.Errorf("the forged child is %s, of %q", d.Status, d.Parent)
	}
	s.event("ping", "c-1", `"genuine"`)
	d := s.ended("p-1")
	if got, err := author.Result(race).Decode(d.Result); err != nil || got != "genuine" {
		t.Errorf("%q, %v, %v", got, err, d.Failure)
	}
}
