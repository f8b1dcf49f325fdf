package history

import (
	"fmt"

	"github.com/pawlrun/pawl/internal/wire"
)

// Broadcast sends one message to many instances: an event, a cancellation, a purge, or an operator request. Each instance receives it
// as an input of its own. All of them have the id BroadcastID, by which an instance recognizes duplicates, also those of a later
// Broadcast by the same sender.
type Broadcast struct {
	Head      `msgpack:"-"`
	Verb      string // event, cancel, purge, or the name of a Verb
	Instances []string
	Text      string  // reason
	Name      string  // name of an event
	Payload   Payload // payload of an event
	Stop      bool    // pause: see OperatorRequested
	Start     bool    // retry: from the start
	To        uint64  // rewind: last event that is kept
	Force     bool    // purge: see PurgeRequested
	Of        string  // termination of a child: effect id of its start; empty: any instance with the id
}

// Verbs of a Broadcast that are not operator requests.
const (
	BroadcastEvent  = "event"
	BroadcastCancel = "cancel"
	BroadcastPurge  = "purge"
)

// BroadcastID returns the id of all messages that an instance broadcasts. It is stable over executions and rewinds.
func BroadcastID(instance string, origin Position) string {
	return Digest(Identity{Instance: instance, Origin: origin}.Append([]byte("broadcast")))
}

// String returns the verb and the recipients.
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
