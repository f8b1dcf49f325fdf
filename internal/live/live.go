// Package live distributes the changes of a namespace to streams of server-sent events.
//
// All streams of a process share one subscription, which exists while there are streams and a little longer. Streams of
// the same filter are a topic: its changes are encoded once, in batches.
//
//	subscription ──▶ ring of the latest changes ──▶ topic: pending changes ──batch──▶ stream: 16 batches ──▶ writer
//
// An event has the id EPOCH-NUMBER. The epoch changes when changes may have been missed. A stream that begins with an id
// receives what the ring has behind it; if that is not complete, if the stream was too slow for its 16 batches, or if a
// topic had more than 200 instances in a batch, it receives a resync: read again what is shown.
package live

import (
	"encoding/json"
	"errors"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nuid"

	"github.com/pawlrun/pawl/pkg/client"
)

const (
	ringSize   = 4096 // changes
	roomBatch  = 16   // batches that a stream may be behind
	maxBatch   = 200  // instances of a batch
	linger     = 30 * time.Second
	pace       = 50 * time.Millisecond // between two batches of a topic
	perStream  = time.Millisecond      // is added for each stream, so that all of them are written 1,000 times a second
	maxStreams = 1500
)

// ErrFull reports that a process has as many streams as it serves.
var ErrFull = errors.New("live: too many streams")

// Filter selects changes. Empty fields select all.
type Filter struct{ Instance, Orchestration, Prefix, Status string }

func (f Filter) matches(c *client.Change) bool {
	return (f.Instance == "" || f.Instance == c.Instance) && (f.Orchestration == "" || f.Orchestration == c.Orchestration) &&
		strings.HasPrefix(c.Instance, f.Prefix) && (f.Status == "" || f.Status == c.Status || f.Status == c.Was)
}

// Source watches a namespace: see the method Watch of client.Client.
type Source func(client.Watcher) (stop func(), err error)

// Hub distributes changes. It is safe for concurrent use.
type Hub struct {
	source Source

	mu      sync.Mutex
	closed  bool
	stop    func() // ends the watching; nil: there is none
	tenure  int    // counts the watchings
	idle    *time.Timer
	epoch   string
	seq     uint64 // of the latest change
	ring    []client.Change
	streams int
	topics  map[Filter]*topic
	single  map[string]*topic // of filters that are an instance, by it
}

// topic are the streams of a filter.
type topic struct {
	filter  Filter
	streams map[*Stream]struct{}
	pending map[string]client.Change
	lost    bool // there were too many
	timer   *time.Timer
	sent    time.Time
}

// New makes a hub. Nothing is watched before the first stream.
func New(source Source) *Hub {
	return &Hub{source: source, epoch: nuid.Next(), topics: make(map[Filter]*topic), single: make(map[string]*topic)}
}

// Close ends the streams and the watching.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	stop := h.detach()
	h.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// detach forgets the watching, and returns what ends it. The streams end.
func (h *Hub) detach() (stop func()) {
	stop, h.stop = h.stop, nil
	h.tenure++
	h.epoch = nuid.Next()
	if h.idle != nil {
		h.idle.Stop()
		h.idle = nil
	}
	for t := range h.all() {
		for s := range t.streams {
			close(s.ended)
		}
		if t.timer != nil {
			t.timer.Stop()
		}
	}
	clear(h.topics)
	clear(h.single)
	h.streams = 0
	return stop
}

func (h *Hub) all() func(yield func(*topic) bool) {
	return func(yield func(*topic) bool) {
		for t := range maps.Values(h.topics) {
			if !yield(t) {
				return
			}
		}
		for t := range maps.Values(h.single) {
			if !yield(t) {
				return
			}
		}
	}
}

// Position is an id to begin a stream with: the stream receives what changes from now on. Watching begins.
func (h *Hub) Position() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watch() != nil {
		return ""
	}
	h.rest()
	return h.id()
}

func (h *Hub) id() string { return h.epoch + "-" + strconv.FormatUint(h.seq, 10) }

// watch begins to watch, unless it does.
func (h *Hub) watch() error {
	switch {
	case h.closed:
		return errors.New("live: stopped")
	case h.stop != nil:
		return nil
	}
	h.tenure++
	tenure := h.tenure
	stop, err := h.source(client.Watcher{
		Changed: func(c client.Change) { h.change(tenure, c) },
		Missed:  func() { h.missed(tenure) },
		Ended:   func() { h.ended(tenure) },
	})
	if err != nil {
		return err
	}
	if h.stop = stop; h.ring == nil {
		h.ring = make([]client.Change, ringSize)
	}
	return nil
}

// rest ends the watching later, if there are no streams then.
func (h *Hub) rest() {
	if h.streams > 0 {
		return
	}
	if h.idle != nil {
		h.idle.Stop()
	}
	tenure := h.tenure
	h.idle = time.AfterFunc(linger, func() {
		h.mu.Lock()
		var stop func()
		if h.tenure == tenure && h.streams == 0 {
			stop = h.detach()
		}
		h.mu.Unlock()
		if stop != nil {
			stop()
		}
	})
}

// ended is called when the client was closed, or after stop.
func (h *Hub) ended(tenure int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tenure == tenure {
		h.detach()
	}
}

// missed has every stream read again what it shows.
func (h *Hub) missed(tenure int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tenure != tenure {
		return
	}
	h.epoch = nuid.Next()
	for t := range h.all() {
		t.lost = true
		h.flushSoon(t)
	}
}

func (h *Hub) change(tenure int, c client.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tenure != tenure {
		return
	}
	h.seq++
	h.ring[h.seq%ringSize] = c
	if t := h.single[c.Instance]; t != nil {
		h.add(t, c)
	}
	for _, t := range h.topics {
		if t.filter.matches(&c) {
			h.add(t, c)
		}
	}
}

func (h *Hub) add(t *topic, c client.Change) {
	if _, known := t.pending[c.Instance]; !known && len(t.pending) == maxBatch {
		t.lost = true
	} else {
		if known && t.pending[c.Instance].Was != "" {
			c.Was = t.pending[c.Instance].Was
		}
		t.pending[c.Instance] = c
	}
	h.flushSoon(t)
}

// flushSoon sends at once what is the first after a while, and otherwise when it is time.
func (h *Hub) flushSoon(t *topic) {
	if t.timer != nil {
		return
	}
	wait := max(pace, time.Duration(h.streams)*perStream) - time.Since(t.sent)
	if wait <= 0 {
		h.flush(t)
		return
	}
	t.timer = time.AfterFunc(wait, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if t.timer != nil {
			t.timer = nil
			h.flush(t)
		}
	})
}

func (h *Hub) flush(t *topic) {
	t.sent = time.Now()
	f := h.resync()
	if !t.lost {
		f = h.changes(t.pending)
	}
	t.lost = false
	clear(t.pending)
	for s := range t.streams {
		select {
		case s.frames <- f:
		default:
			s.slow.Do(func() { close(s.lost) })
		}
	}
}

// changes encodes a batch.
func (h *Hub) changes(by map[string]client.Change) []byte {
	all := make([]client.Change, 0, len(by))
	for _, c := range by {
		all = append(all, c)
	}
	b, _ := json.Marshal(struct { //nolint:errchkjson // strings and numbers
		Changes []client.Change `json:"changes"`
	}{all})
	return h.frame("changes", b)
}

func (h *Hub) resync() []byte { return h.frame("resync", []byte("{}")) }

// frame is an event of a stream.
func (h *Hub) frame(name string, data []byte) []byte {
	return []byte("id: " + h.id() + "\nevent: " + name + "\ndata: " + string(data) + "\n\n")
}
