package live

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pawlrun/pawl/internal/filter"
)

// Stream receives the events of a filter. One goroutine may use it.
type Stream struct {
	hub    *Hub
	topic  *topic
	frames chan []byte
	ended  chan struct{}
	lost   chan struct{} // closed when the stream has fallen too far behind
	slow   sync.Once
}

// Open opens a stream that resumes after the event id last, or, if last is empty, receives all changes from now on. first is the event to write
// first. The stream must be closed. Errors: ErrFull, and those of the subscription.
func (h *Hub) Open(f Filter, last string) (s *Stream, first []byte, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.streams >= maxStreams {
		return nil, nil, ErrFull
	}
	if err := h.watch(); err != nil {
		return nil, nil, err
	}
	t := h.topic(f)
	s = &Stream{hub: h, topic: t, frames: make(chan []byte, maxBehind), ended: make(chan struct{}), lost: make(chan struct{})}
	t.streams[s] = struct{}{}
	h.streams++
	if h.idle != nil {
		h.idle.Stop()
		h.idle = nil
	}
	return s, h.since(t, f, last), nil
}

// topic returns the topic of a filter, and creates it if necessary.
func (h *Hub) topic(f Filter) *topic {
	f.Where = decidable(f.Where)
	key := f.Instance + "\n" + f.Where.String() // an id contains no line break
	t := h.topics[key]
	if t != nil {
		return t
	}
	t = newTopic(key, f)
	h.topics[key] = t
	for _, b := range t.buckets {
		h.buckets[b] = append(h.buckets[b], t)
		if b.by == filter.Starts {
			h.lengths[len(b.value)]++
		}
	}
	return t
}

// drop removes a topic without streams.
func (h *Hub) drop(t *topic) {
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	delete(h.topics, t.key)
	for _, b := range t.buckets {
		if h.buckets[b] = slices.DeleteFunc(h.buckets[b], func(x *topic) bool { return x == t }); len(h.buckets[b]) == 0 {
			delete(h.buckets, b)
		}
		if n := len(b.value); b.by == filter.Starts {
			if h.lengths[n]--; h.lengths[n] == 0 {
				delete(h.lengths, n)
			}
		}
	}
}

// since returns the first event of a stream: the changes after an event id, or a resync if they are not known.
func (h *Hub) since(t *topic, f Filter, last string) []byte {
	if last == "" {
		return h.frame("ready", []byte("{}"))
	}
	epoch, number, _ := strings.Cut(last, "-")
	from, err := strconv.ParseUint(number, 10, 63)
	if err != nil || epoch != h.epoch || from > h.seq || h.seq-from > ringSize {
		return h.resync()
	}
	missed := make(map[string]*change)
	for n := from + 1; n <= h.seq; n++ {
		c := h.ring[n%ringSize]
		if f.Instance != "" && f.Instance != c.Instance || !t.matches(c) {
			continue
		}
		if missed[c.Instance] = c; len(missed) > maxBatch {
			return h.resync()
		}
	}
	if len(missed) == 0 {
		return h.frame("ready", []byte("{}"))
	}
	return h.changes(missed)
}

// Frames returns the channel of encoded events.
func (s *Stream) Frames() <-chan []byte { return s.frames }

// Lost returns a channel that is closed when the stream has fallen too far behind. Call Recover then.
func (s *Stream) Lost() <-chan struct{} { return s.lost }

// Ended returns a channel that is closed when no more events follow.
func (s *Stream) Ended() <-chan struct{} { return s.ended }

// Recover drops the events that the stream has not read, and returns a resync event to write instead.
func (s *Stream) Recover() []byte {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	for len(s.frames) > 0 {
		<-s.frames
	}
	s.lost, s.slow = make(chan struct{}), sync.Once{}
	return s.hub.resync()
}

// Close ends the stream.
func (s *Stream) Close() {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, open := s.topic.streams[s]; !open {
		return
	}
	delete(s.topic.streams, s)
	select {
	case <-s.ended: // the hub has already dropped the stream
		return
	default:
	}
	h.streams--
	if len(s.topic.streams) == 0 {
		h.drop(s.topic)
	}
	h.endWhenIdle()
}
