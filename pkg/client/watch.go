package client

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/transport"
)

// Change describes a change of an instance by one commit. It is only a reason to read the instance again: any member of the namespace can
// publish one.
type Change struct {
	Instance      string `json:"instance"`
	Orchestration string `json:"orchestration,omitempty"`
	Status        string `json:"status"`              // pending, running, completed, failed, cancelled or purged
	Was           string `json:"was,omitempty"`       // the previous status; empty: unchanged, or there was no instance
	Execution     uint64 `json:"execution,omitempty"` // number of the execution
	Events        uint64 `json:"events,omitempty"`    // length of the execution's history
	Stalled       string `json:"stalled,omitempty"`   // why the instance cannot continue; empty: it can
	At            string `json:"at"`                  // RFC 3339 with milliseconds, UTC, by the clock of Redis

	Version    string          `json:"version,omitempty"`    // version of the orchestration
	Parent     string          `json:"parent,omitempty"`     // instance id of the parent
	Code       string          `json:"code,omitempty"`       // code of the failure that ended it
	Unanswered bool            `json:"unanswered,omitempty"` // whether it has an update without an answer
	Attributes json.RawMessage `json:"attributes,omitempty"` // JSON object of its attributes
	Replaced   []string        `json:"replaced,omitempty"`   // filter fields and attributes whose previous value may have been replaced
}

// watchEvery is the interval at which a watcher announces itself to the orchestrators.
const watchEvery = transport.WatchTTL / 3

// Times after its first message for which a watcher may still miss changes, because that message is in transit: nearly always, and at
// most.
const (
	watchSettles = 250 * time.Millisecond
	watchSettled = 2 * time.Second
)

// Watcher receives the reports of Watch. Each function is called by one goroutine at a time, and must not block.
type Watcher struct {
	// Changed is called for every change of an instance in the namespace, in the order of the commits of that instance.
	Changed func(Change)
	// Missed is called when changes may have been missed since Watch returned or since the last call of Missed: displayed state must be
	// read again. The first calls follow shortly after the start of the watch.
	Missed func()
	// Ended is called once, after the last call of the other functions: when stop is called or the Client is closed.
	Ended func()
}

// Watch reports the changes of all instances of the namespace until stop is called or the Client is closed. Orchestrators publish changes
// only while there is a watcher. A watcher costs one core NATS message per commit of the whole fleet.
//
// Changes may be lost in a failure of an orchestrator or of NATS; Missed is called then. The error is that of a subscription.
func (c fleet) Watch(w Watcher) (stop func(), err error) {
	missed := make(chan struct{}, 1)
	notify := func() {
		select {
		case missed <- struct{}{}:
		default:
		}
	}
	changes, err := c.client.conn.OnChanges(func(m message.Change) { w.Changed(Change(m)) })
	if err != nil {
		return nil, fmt.Errorf("client: watch: %w", err)
	}
	owners, err := c.client.conn.OnOwners(func(int) { notify() }) // the previous owner may have died between a commit and its notice
	if err != nil {
		changes.Stop()
		return nil, fmt.Errorf("client: watch: %w", err)
	}
	_ = c.client.conn.Watching() // repeated if disconnected
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer w.Ended()
		defer changes.Stop()
		defer owners.Stop()
		c.watchLoop(end, missed, changes, w.Missed)
	}()
	return func() { close(end); <-ended }, nil
}

// watchLoop announces the watcher periodically, and detects missed changes.
func (c fleet) watchLoop(end, missed <-chan struct{}, changes *transport.Subscription, report func()) {
	nc := c.client.conn.NATS()
	reconnects, dropped := nc.Stats().Reconnects, 0
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	settled, again := time.NewTimer(watchSettles), true
	defer settled.Stop()
	for {
		select {
		case <-end:
			return
		case <-c.client.done:
			return
		case <-settled.C:
			report()
			if again {
				again = false
				settled.Reset(watchSettled)
			}
			continue
		case <-missed: // the new owner may not have received an announcement yet
			again = true
			settled.Reset(watchSettles)
		case <-tick.C:
		}
		_ = c.client.conn.Watching()
		if r, d := nc.Stats().Reconnects, changes.Dropped(); r != reconnects || d != dropped {
			reconnects, dropped, again = r, d, true
			settled.Reset(watchSettles)
		}
	}
}
