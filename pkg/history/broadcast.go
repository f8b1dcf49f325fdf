package history

import (
	"fmt"

	"github.com/pawlrun/pawl/internal/wire"
)

// Broadcast sends one message to many instances: an event, a cancellation, a purge, or the request of an operator. Each of them gets
// it as an input of its own, under the id BroadcastID, by which it recognizes a repeat, also by a later Broadcast of the sender.
type Broadcast struct {
	Head      `msgpack:"-"`
	Verb      string // event, cancel, purge, or the name of a Verb
	Instances []string
	Text      string  // reason
	Name      string  // of an event
	Payload   Payload // of an event
	Stop      bool    // of a pause, see OperatorRequested
	Start     bool    // of a retry
	To        uint64  // of a rewind
	Force     bool    // of a purge
	Of        string  // of a termination of a child: effect of its start; empty: whatever instance has the id
}

// Verbs of a Broadcast that are no requests of operators.
const (
	BroadcastEvent  = "event"
	BroadcastCancel = "cancel"
	BroadcastPurge  = "purge"
)

// BroadcastID returns the id of the messages of an instance's broadcasts: the same for all of them, over executions and rewinds.
func BroadcastID(instance string, origin Position) string {
	return Digest(Identity{Instance: instance, Origin: origin}.Append([]byte("broadcast")))
}

// Kind returns KindBroadcast.
func (*Broadcast) Kind() Kind { return KindBroadcast }

// Input reports false.
func (*Broadcast) Input() bool { return false }

// String names the verb and the number of instances.
func (e *Broadcast) String() string {
	verb := e.Verb
	if e.Name != "" {
		verb += " " + e.Name
	}
	if len(e.Instances) == 1 {
		return verb + " to " + e.Instances[0]
	}
	return fmt.Sprintf("%s to %d instances", verb, len(e.Instances))
}

func (e *Broadcast) fields(c *wire.Codec) {
	c.String(&e.Verb)
	wire.List(c, &e.Instances, (*wire.Codec).String)
	c.String(&e.Text)
	c.String(&e.Name)
	payload(c, &e.Payload)
	c.Bool(&e.Stop)
	c.Bool(&e.Start)
	c.Uint(&e.To)
	c.Bool(&e.Force)
	c.String(&e.Of)
}
