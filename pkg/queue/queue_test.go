package queue_test

import (
	"testing"

	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/queue"
)

// The public constants are written out, so that go doc shows their values.
func TestConstantsAreThoseOfTheTransport(t *testing.T) {
	for public, want := range map[any]any{
		queue.DefaultNamespace:           transport.DefaultNamespace,
		queue.HeaderContentType:          transport.HeaderContentType,
		queue.HeaderID:                   transport.HeaderID,
		queue.HeaderReply:                transport.HeaderReply,
		queue.HeaderBy:                   transport.HeaderBy,
		queue.HeaderVersion:              transport.HeaderVersion,
		queue.HeaderDeclared:             transport.HeaderDeclared,
		queue.HeaderAttributes:           transport.HeaderAttributes,
		queue.HeaderStartAt:              transport.HeaderStartAt,
		queue.HeaderRunTimeout:           transport.HeaderRunTimeout,
		queue.HeaderReuse:                transport.HeaderReuse,
		queue.HeaderOrchestrationVersion: transport.HeaderOrchestrationVersion,
		queue.HeaderEvent:                transport.HeaderEvent,
		queue.HeaderSplit:                transport.HeaderSplit,
		queue.HeaderEventType:            transport.HeaderEventType,
		queue.HeaderDeadline:             transport.HeaderDeadline,
		queue.HeaderUpdate:               transport.HeaderUpdate,
	} {
		if public != want {
			t.Errorf("%v is %v in messages", public, want)
		}
	}
	type bounds [4]int
	if got, want := (bounds{queue.MaxInstance, queue.MaxName, queue.MaxPayload, queue.MaxPartitions}),
		(bounds{transport.MaxInstance, transport.MaxName, transport.MaxPayload, transport.MaxPartitions}); got != want {
		t.Errorf("bounds %v, want %v", got, want)
	}
}
