package orchestrator_test

import (
	"fmt"
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
)

// Trap: message ids without a scope, so that one publisher can take the ids of another.
func TestMessageIDSuppressesRepeatsOnItsOwnSubjectOnly(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	noise := pawl.NewEvent[int]("noise")
	s.orchestrate(orchestrator.Config{}, hello.Do(func(ctx *pawl.Context, _ string) (string, error) {
		if _, err := ping.Receive(ctx); err != nil { // until all inputs have arrived
			return "", err
		}
		adds, err := add.Drain(ctx)
		if err != nil {
			return "", err
		}
		noises, err := noise.Drain(ctx)
		return fmt.Sprint(adds, noises), err
	}))
	s.start("hello", "d-1", `"x"`)
	event := func(from message.Sender, name, json string) message.OutInput {
		return message.OutInput{
			Sender: from, Instance: "d-1", Kind: message.KindEvent, Name: name, ID: "p-77", Payload: history.Payload{Type: history.TypeJSON, Data: []byte(json)},
		}
	}
	start := event(message.SenderClient, "hello", `"x"`)
	start.Kind, start.Event = message.KindStart, &message.OutEvent{Name: "add", Payload: history.Payload{Type: history.TypeJSON, Data: []byte("3")}}
	for _, in := range []message.OutInput{
		event(message.SenderClient, "noise", "1"),
		event(message.SenderClient, "noise", "1"), // a repeat
		event(message.SenderClient, "add", "1"),
		event(message.SenderOrchestrator, "add", "2"),
		event(message.SenderOrchestrator, "add", "2"), // a repeat
		start, // its event is a repeat of an earlier one
	} {
		s.publish(in)
	}
	s.event("ping", "d-1", `"go"`)
	s.wantResult("d-1", "[1 2] [1]")
}
