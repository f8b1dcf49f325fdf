package history

import (
	"fmt"
)

// Broadcast sends one message to many instances: an event, a cancellation, a purge, or an operator request. Each instance receives it
// as an input of its own. All of them have the id BroadcastID, by which an instance recognizes duplicates, also those of a later
// Broadcast by the same sender.
type Broadcast struct {
	Head
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
