// Package live distributes the changes of a namespace to streams of server-sent events.
//
// All streams of a process share one subscription, which exists while there are streams, and 30 s longer. The streams with
// the same filter form a topic. A change is encoded once. It is compared only with the filters that select its instance, its
// orchestration or a prefix of its id, and with those that select by none of these.
//
//	subscription ──▶ ring of the latest changes ──▶ topic: pending changes ──batch──▶ stream: 16 batches ──▶ writer
//
// An event has the id EPOCH-NUMBER. The epoch changes when changes may have been missed. A stream that resumes at an id
// receives the changes after it from the ring. If the ring does not contain all of them, if the stream falls more than 16
// batches behind, or if a batch of the topic has more than 200 instances, the stream receives a resync event, upon which the
// reader must reload what it displays.
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
	maxBehind  = 16   // batches that a stream may be behind
	maxBatch   = 200  // instances of a batch
	linger     = 30 * time.Second
	pace       = 50 * time.Millisecond // minimum time between two batches of a topic
	perStream  = time.Millisecond      // minimum per stream, so that all streams together are written at most 1,000 times a second
	maxStreams = 1500
)

// ErrFull is returned if a process already serves the maximum number of streams.
var ErrFull = errors.New("live: too many streams")

// Filter selects the changes of one instance, or those that pass the decidable terms of Where.
type Filter struct {
	Instance string
	Where    filter.Where
}

// decidable returns the terms that can be decided from a change alone. The others are terms on times, and terms that an instance without a value
// passes: a change does not contain the previous value. Readers apply these terms when they reload.
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

// bucket is an index key of topics: a change can match a topic only if it has the value of one of the topic's buckets.
type bucket struct {
	by    filter.Op // Equal: instance id; Starts: prefix of the instance id; In: orchestration; empty: any change
	value string
}

// topic is the set of streams with the same filter.
type topic struct {
	key     string
	where   filter.Where
	buckets []bucket // a change is in at most one of them
	streams map[*Stream]struct{}
	pending map[string]*change // changes of the next batch, by instance
	lost    bool               // the next batch must be a resync
	timer   *time.Timer
	sent    time.Time
}

func newTopic(key string, f Filter) *topic {
	t := &topic{key: key, where: f.Where, streams: make(map[*Stream]struct{}), pending: make(map[string]*change), buckets: []bucket{{}}}
	index := func(by filter.Op, values []string) {
		t.buckets = nil
		for _, v := range values {
			if b := (bucket{by, v}); !slices.Contains(t.buckets, b) {
				t.buckets = append(t.buckets, b)
			}
		}
	}
	starts := slices.IndexFunc(f.Where, func(t filter.Term) bool { return t.Field == filter.ID && t.Op == filter.Starts })
	if ids, ok := f.Where.Exactly(filter.ID); f.Instance != "" {
		index(filter.Equal, []string{f.Instance})
	} else if ok {
		index(filter.Equal, ids)
	} else if names, ok := f.Where.Exactly(filter.Orchestration); ok {
		index(filter.In, names)
	} else if starts >= 0 {
		index(filter.Starts, f.Where[starts].Texts)
	}
	return t
}

// matches reports whether the instance passes the filter now, or may have passed it before the change.
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

// change is a change with the row that filters compare, and its encoding.
type change struct {
	client.Change

	row  *filter.Row
	json []byte // nil: not encoded yet
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

// Source watches a namespace; see client.Client.Watch.
type Source func(client.Watcher) (stop func(), err error)

// Hub distributes changes. It is safe for concurrent use.
type Hub struct {
	source Source

	mu      sync.Mutex
	closed  bool
	stop    func() // ends the subscription; nil: there is none
	tenure  int    // number of subscriptions so far; callbacks of earlier ones are ignored
	idle    *time.Timer
	epoch   string
	seq     uint64 // of the latest change
	ring    []*change
	streams int
	topics  map[string]*topic // by key
	buckets map[bucket][]*topic
	lengths map[int]int // number of Starts buckets by the length of their prefix
}

// New returns a hub. It subscribes when the first stream opens.
func New(source Source) *Hub {
	return &Hub{source: source, epoch: nuid.Next(), topics: make(map[string]*topic), buckets: make(map[bucket][]*topic), lengths: make(map[int]int)}
}

// Close ends the streams and the subscription.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	stop := h.detach()
	h.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// detach ends all streams and drops the subscription. It returns the function that ends the subscription, which must be called without the
// mutex; nil: there was none.
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

// Position returns an id at which a stream can resume to receive all changes from now on. It subscribes if necessary, and returns "" if that
// fails.
func (h *Hub) Position() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watch() != nil {
		return ""
	}
	h.endWhenIdle()
	return h.id()
}

func (h *Hub) id() string { return h.epoch + "-" + strconv.FormatUint(h.seq, 10) }

// watch subscribes, if there is no subscription.
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

// endWhenIdle ends the subscription after linger, if there are no streams until then.
func (h *Hub) endWhenIdle() {
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

// ended handles the end of a subscription: the client was closed, or stop was called.
func (h *Hub) ended(tenure int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tenure == tenure {
		h.detach()
	}
}

// missed handles changes that may have been missed: all streams receive a resync.
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

// flushSoon sends the pending batch of a topic at once if the last one was long enough ago, and otherwise as soon as it is.
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

// changes returns the event for a batch.
func (h *Hub) changes(by map[string]*change) []byte {
	data := []byte(`{"changes":[`)
	for _, c := range by {
		data = append(append(data, c.encoded()...), ',')
	}
	return h.frame("changes", append(data[:len(data)-1], "]}"...))
}

func (h *Hub) resync() []byte { return h.frame("resync", []byte("{}")) }

// frame encodes an event.
func (h *Hub) frame(name string, data []byte) []byte {
	return []byte("id: " + h.id() + "\nevent: " + name + "\ndata: " + string(data) + "\n\n")
}
