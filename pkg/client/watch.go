package client

import (
	"fmt"
	"time"

	"github.com/pawlrun/pawl/pkg/queue"
)

// Change reports what a commit has changed of an instance.
type Change = queue.Change

// watchEvery is the interval at which a watcher announces itself to the orchestrators.
const watchEvery = queue.WatchTTL / 3

// How long after its first message a watcher may still miss changes, for the message travels: nearly always, and at most.
const (
	watchSettles = 250 * time.Millisecond
	watchSettled = 2 * time.Second
)

// Watcher receives what Watch reports. Its functions are called one at a time per function, and must not wait.
type Watcher struct {
	// Changed is called for every change of an instance in the namespace, in the order of the commits of that instance.
	Changed func(Change)
	// Missed is called when changes may have been missed since Watch returned, or since the last call: what is shown must be
	// read again. The first calls come a moment after the beginning.
	Missed func()
	// Ended is called once, after the last call of the others: by stop, or because the Client was closed.
	Ended func()
}

// Watch reports the changes of all instances of the namespace until stop is called or the Client is closed. Orchestrators
// publish changes only while a watcher is there, so it costs the fleet a message of core NATS a commit.
//
// Changes are notices: after a failure of an orchestrator or of NATS some are missing, and Missed is called.
func (c fleet) Watch(w Watcher) (stop func(), err error) {
	missed := make(chan struct{}, 1)
	note := func() {
		select {
		case missed <- struct{}{}:
		default:
		}
	}
	changes, err := c.client.conn.OnChanges(w.Changed)
	if err != nil {
		return nil, fmt.Errorf("client: watch: %w", err)
	}
	owners, err := c.client.conn.OnOwners(func(int) { note() }) // one before may have died between a commit and its notice
	if err != nil {
		changes.Stop()
		return nil, fmt.Errorf("client: watch: %w", err)
	}
	_ = c.client.conn.Watching() // disconnected: it is repeated
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

// watchLoop repeats that there is a watcher, and finds out that changes were missed.
func (c fleet) watchLoop(end, missed <-chan struct{}, changes *queue.Subscription, report func()) {
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
		case <-missed: // by an orchestrator that may not know of watchers yet
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
