// Package live distributes the changes of a namespace to streams of server-sent events.
//
// All streams of a process share one subscription, which exists while there are streams and a little longer. Streams of
// the same filter are a topic. A change is encoded once, and compared with the filters of those topics only that have its
// instance, its orchestration or the beginning of its id, and of those that have none of these.
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
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nuid"

	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/internal/record"
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

// Filter selects changes: those of an instance, or those that pass the terms of Where which a change can decide.
type Filter struct {
	Instance string
	Where    filter.Where
}

// decidable are the terms that a change can decide: the others may have become true, or false, which a reader sees when it reads again.
// They are those of times, and of what instances pass that have no value: whether it had one before is not known.
func decidable(w filter.Where) (on filter.Where) {
	for _, t := range w {
		switch t.Field {
		case filter.ID, filter.Orchestration, filter.Status:
		default:
			if t.Field.Timed() || (filter.Where{t}).Match(&filter.Row{}) {
				continue
			}
		}
		on = append(on, t)
	}
	return on
}

// bucket is what a change must have for a topic: the id of its instance, its orchestration, or the beginning of its id.
type bucket struct {
	by    filter.Op // of the id: Equal or Starts; In: of orchestrations; empty: nothing
	value string
}

// topic are the streams of a filter.
type topic struct {
	key     string
	where   filter.Where
	buckets []bucket // a change is in one of them at most
	streams map[*Stream]struct{}
	pending map[string]*change // by instance
	lost    bool               // there were too many
	timer   *time.Timer
	sent    time.Time
}

func newTopic(key string, f Filter) *topic {
	t := &topic{key: key, where: f.Where, streams: make(map[*Stream]struct{}), pending: make(map[string]*change), buckets: []bucket{{}}}
	in := func(by filter.Op, values []string) {
		t.buckets = nil
		for _, v := range values {
			if b := (bucket{by, v}); !slices.Contains(t.buckets, b) {
				t.buckets = append(t.buckets, b)
			}
		}
	}
	starts := slices.IndexFunc(f.Where, func(t filter.Term) bool { return t.Field == filter.ID && t.Op == filter.Starts })
	if ids, ok := f.Where.Exactly(filter.ID); f.Instance != "" {
		in(filter.Equal, []string{f.Instance})
	} else if ok {
		in(filter.Equal, ids)
	} else if names, ok := f.Where.Exactly(filter.Orchestration); ok {
		in(filter.In, names)
	} else if starts >= 0 {
		in(filter.Starts, f.Where[starts].Texts)
	}
	return t
}

// matches reports that the instance passes the filter now, or may have before the change.
func (t *topic) matches(c *change) bool {
	where := t.where
	for _, f := range c.Replaced {
		where = where.Without(filter.Field(f))
	}
	r := *c.row
	if where.Match(&r) {
		return true
	}
	r.Status = c.Was
	return c.Was != "" && where.Match(&r)
}

// change is a change, what filters compare of it, and its encoding.
type change struct {
	client.Change

	row  *filter.Row
	json []byte // nil: not yet
}

func newChange(c client.Change) *change {
	rec := record.Record{Status: record.Status(c.Status), Name: c.Orchestration, Version: c.Version, Attributes: string(c.Attributes), Stalled: c.Stalled != ""}
	row := rec.Row(c.Instance)
	row.Parent, row.Code = c.Parent, c.Code
	if c.Unanswered {
		row.Unanswered = "true"
	}
	return &change{Change: c, row: row}
}

func (c *change) encoded() []byte {
	if c.json == nil {
		c.json, _ = json.Marshal(c.Change) //nolint:errchkjson // strings and numbers
	}
	return c.json
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
	ring    []*change
	streams int
	topics  map[string]*topic // by key
	buckets map[bucket][]*topic
	lengths map[int]int // of the beginnings of ids that topics have: how many topics
}

// New makes a hub. Nothing is watched before the first stream.
func New(source Source) *Hub {
	return &Hub{source: source, epoch: nuid.Next(), topics: make(map[string]*topic), buckets: make(map[bucket][]*topic), lengths: make(map[int]int)}
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
	for _, t := range h.topics {
		for s := range t.streams {
			close(s.ended)
		}
		if t.timer != nil {
			t.timer.Stop()
		}
	}
	clear(h.topics)
	clear(h.buckets)
	clear(h.lengths)
	h.streams = 0
	return stop
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
		h.ring = make([]*change, ringSize)
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
	for _, t := range h.topics {
		t.lost = true
		h.flushSoon(t)
	}
}

func (h *Hub) change(tenure int, changed client.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tenure != tenure {
		return
	}
	h.seq++
	c := newChange(changed)
	h.ring[h.seq%ringSize] = c
	h.addTo(bucket{}, c)
	h.addTo(bucket{filter.Equal, c.Instance}, c)
	h.addTo(bucket{filter.In, c.Orchestration}, c)
	for n := range h.lengths {
		if n <= len(c.Instance) {
			h.addTo(bucket{filter.Starts, c.Instance[:n]}, c)
		}
	}
}

func (h *Hub) addTo(b bucket, c *change) {
	for _, t := range h.buckets[b] {
		if t.matches(c) {
			h.add(t, c)
		}
	}
}

func (h *Hub) add(t *topic, c *change) {
	if before := t.pending[c.Instance]; before == nil && len(t.pending) == maxBatch {
		t.lost = true
	} else {
		if before != nil && before.Was != "" && before.Was != c.Was {
			c = &change{Change: c.Change, row: c.row}
			c.Was = before.Was
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

// changes makes a batch.
func (h *Hub) changes(by map[string]*change) []byte {
	data := []byte(`{"changes":[`)
	for _, c := range by {
		data = append(append(data, c.encoded()...), ',')
	}
	return h.frame("changes", append(data[:len(data)-1], "]}"...))
}

func (h *Hub) resync() []byte { return h.frame("resync", []byte("{}")) }

// frame is an event of a stream.
func (h *Hub) frame(name string, data []byte) []byte {
	return []byte("id: " + h.id() + "\nevent: " + name + "\ndata: " + string(data) + "\n\n")
}
