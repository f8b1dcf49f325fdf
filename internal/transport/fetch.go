package transport

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Times of pull requests. Heartbeats are at most half of the expiry, which the server requires.
const (
	readExpires    = 30 * time.Second
	pullExpires    = 2 * time.Second // the server may deliver tasks to a dead worker, whose failure it has not detected, for this long
	calmExpires    = 5 * time.Second // the same, for a queue that has delivered nothing for calmAfter
	calmAfter      = 30 * time.Second
	fetchHeartbeat = time.Second     // interval of heartbeats
	nearHeartbeat  = 5 * time.Second // interval of heartbeats, if the consumer is in the server of the connection
	fetchSilence   = 3 * time.Second // requests count as lost after this time without a heartbeat or message, unless heartbeats are rarer
	fetchGrace     = 5 * time.Second // after its expiry and this time, a request was answered or is lost
	fetchDrain     = 2 * time.Second // wait for messages in transit when the fetch is closed
)

// fetch keeps pull requests open at one consumer, through one inbox, so that the number of messages that may arrive is exactly the number
// wanted:
//
//	want ──request(n)──▶ open ──data──▶ the caller
//	  ▲                    │
//	  └──── 408, m left ───┘
//
// A message does not identify the request that it answers, but the sum is sufficient: open = Σ requested − messages − Σ left over. The
// server sends all of it through one ordered queue, so the sum is exact unless a message was lost; in that case the fetch ends, its inbox
// is abandoned, and a new fetch requests what is still wanted.
//
// A request is sent only when at least as many messages are wanted as are open. So with many free slots and few messages the server has
// about log₂(slots) requests, not one per slot, and without free slots each slot that becomes free is requested immediately.
type fetch struct {
	nc      *nats.Conn
	subject string // subject of requests
	inbox   string // prefix of the inbox subjects, including the dot
	expires time.Duration
	calm    time.Duration // used instead of expires if nothing has arrived for calmAfter
	take    func(m *nats.Msg, requested bool)
	contact *contact // records messages and heartbeats; may be nil
	done    chan struct{}

	mu     sync.Mutex
	sub    *Subscription
	err    error // reason for which done is closed
	ended  bool
	wanted int
	open   int // number of messages that are requested and have not arrived

	narrow    bool               // one message is requested at a time, with a permit for each
	permitted bool               // narrow: the next request is permitted
	last      uint64             // id of the last request
	reqs      map[uint64]request // requests that may still be answered, by id

	lastReceived time.Time     // time of the last message or status
	lastMessage  time.Time     // time of the last message, initially the start of the fetch
	heartbeat    time.Duration // interval of heartbeats in the last request
}

type request struct {
	n     int
	until time.Time // deadline: by then the request was answered, or is lost
}

// newFetch subscribes to the inbox. Requests end after expires, or after calm, and are repeated. take is called for every message, in
// order, on one goroutine; requested is false for a message that was not requested.
func newFetch(nc *nats.Conn, subject string, expires, calm time.Duration, take func(m *nats.Msg, requested bool)) (*fetch, error) {
	f := &fetch{nc: nc, subject: subject, inbox: nc.NewInbox() + ".", expires: expires, calm: calm, take: take,
		done: make(chan struct{}), reqs: make(map[uint64]request), lastMessage: time.Now()}
	sub, err := subscribe(nc, f.inbox+"*", f.message)
	if err != nil {
		return nil, err
	}
	f.sub = sub
	return f, sub.sub.SetPendingLimits(-1, -1) // bounded by the number wanted
}

// want increases the number of wanted messages by n.
func (f *fetch) want(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wanted += n
	f.request()
}

// request sends a request if one is due. f.mu must be held.
func (f *fetch) request() {
	n := f.wanted
	switch {
	case f.ended || n <= 0:
		return
	case f.narrow && (f.open > 0 || !f.permitted), !f.narrow && n < f.open:
		return
	case f.narrow:
		n, f.permitted = 1, false
	}
	now := time.Now()
	if f.open == 0 {
		f.lastReceived = now
	}
	f.last++
	expires := aligned(now, f.expires)
	if now.Sub(f.lastMessage) > calmAfter {
		expires = aligned(now, f.calm)
	}
	f.reqs[f.last] = request{n: n, until: now.Add(expires + fetchGrace)}
	f.open += n
	f.wanted -= n
	f.heartbeat = min(heartbeat(f.nc), expires/2)
	body, err := json.Marshal(struct {
		Batch     int           `json:"batch"`
		Expires   time.Duration `json:"expires"`
		Heartbeat time.Duration `json:"idle_heartbeat"`
	}{n, expires, f.heartbeat})
	if err == nil {
		err = f.nc.PublishRequest(f.subject, f.inbox+strconv.FormatUint(f.last, 36), body)
	}
	if err != nil {
		f.fail(fmt.Errorf("request: %w", err))
	}
}

// heartbeat returns the interval of heartbeats. In a cluster the server of a consumer usually differs from the server of the connection,
// which continues when the other one is lost: only heartbeats reveal that. A single server is not lost without the connection, which has
// its own pings, so heartbeats only serve to detect requests that the server has lost.
func heartbeat(nc *nats.Conn) time.Duration {
	if streams, _ := nc.ConnectedServerJetStream(); streams && nc.ConnectedClusterName() == "" {
		return nearHeartbeat
	}
	return fetchHeartbeat
}

// silence returns the time without a message after which the requests count as lost.
func (f *fetch) silence() time.Duration { return max(fetchSilence, 5*f.heartbeat/2) }

// aligned returns the expiry of a request that is sent now, so that it ends at a multiple of expires if that is long, and otherwise at a
// full second. So the requests of all fetches of all processes end and begin at the same times, and the server sends their heartbeats
// together: an idle process wakes up once a second, not once for each of its partitions and queues.
func aligned(now time.Time, expires time.Duration) time.Duration {
	if expires < readExpires { // never later than expires
		return expires - time.Duration(now.UnixNano())%time.Second
	}
	left := expires - time.Duration(now.UnixNano())%expires
	if left < 2*fetchHeartbeat { // the server would not accept a heartbeat
		left += expires
	}
	return left
}

// setLimited switches between requesting one message at a time and requesting all that are wanted.
func (f *fetch) setLimited(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.narrow, f.permitted = on, false
	f.request()
}

// permit allows a narrow fetch to request one more message.
func (f *fetch) permit() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.permitted = true
	f.request()
}

// message handles a message or a status of the server.
func (f *fetch) message(m *nats.Msg) {
	f.mu.Lock()
	f.lastReceived = time.Now()
	if !strings.HasPrefix(m.Subject, f.inbox) { // a message has its own subject, a status has the subject of the inbox
		f.contact.received(f.lastReceived)
		f.lastMessage = f.lastReceived
		requested := f.open > 0
		if requested {
			f.open--
			f.request()
		}
		f.mu.Unlock()
		f.take(m, requested)
		return
	}
	defer f.mu.Unlock()
	switch status := m.Header.Get("Status"); status {
	case "100":
		f.contact.received(f.lastReceived)
	case "408":
		f.contact.received(f.lastReceived)
		f.leftOver(m)
	default:
		f.fail(fmt.Errorf("server status %s %s", status, m.Header.Get("Description")))
	}
}

// leftOver handles the end of a request, which states how many messages it leaves over. f.mu must be held.
func (f *fetch) leftOver(m *nats.Msg) {
	id, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, f.inbox), 36, 64)
	if err != nil {
		return
	}
	r, known := f.reqs[id]
	if !known {
		return
	}
	n, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
	if err != nil || n < 0 || n > r.n || n > f.open {
		f.fail(fmt.Errorf("request of %d ended with %q left of %d open", r.n, m.Header.Get("Nats-Pending-Messages"), f.open))
		return
	}
	delete(f.reqs, id)
	f.open -= n
	f.wanted += n
	f.permitted = f.permitted || n > 0 // the permit was not used
	f.request()
}

var (
	errSilence = errors.New("missed heartbeats")
	errLost    = errors.New("request lost")
)

// check ends the fetch if the server has lost its requests, and reports whether the fetch continues. It does not wait for another
// goroutine, which may be blocked in a write to a dead connection: the next check follows soon.
func (f *fetch) check(now time.Time) bool {
	if !f.mu.TryLock() {
		return true
	}
	defer f.mu.Unlock()
	alive := 0 // number of messages that may still be delivered
	for id, r := range f.reqs {
		if now.After(r.until) {
			delete(f.reqs, id)
		} else {
			alive += r.n
		}
	}
	switch {
	case f.open > 0 && now.Sub(f.lastReceived) > f.silence():
		f.fail(errSilence)
	case f.open > alive:
		f.fail(errLost)
	}
	return !f.ended
}

// fetches contains the fetches of a Conn, which are checked together: a timer per fetch would wake up an idle process for each. The zero
// value is empty.
type fetches struct {
	mu   sync.Mutex
	open []*fetch
}

func (s *fetches) add(f *fetch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = append(s.open, f)
}

// check checks all fetches, and removes those that have ended.
func (s *fetches) check(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = slices.DeleteFunc(s.open, func(f *fetch) bool { return !f.check(now) })
}

// stop ends the fetch with err as the reason.
func (f *fetch) stop(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail(err)
}

// fail ends the fetch with err as the reason, unless it has ended. f.mu must be held.
func (f *fetch) fail(err error) {
	if !f.ended {
		f.ended = true
		f.err = err
		close(f.done)
	}
}

// outstanding reports whether the server has unanswered requests.
func (f *fetch) outstanding() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open > 0
}

// reason returns the reason for which the fetch ended.
func (f *fetch) reason() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// close unsubscribes and waits until take is no longer called. With drain, messages in transit are still passed to take. It returns the
// number of messages that are still wanted.
func (f *fetch) close(drain bool) int {
	f.stop(ErrClosed)
	if drain {
		f.sub.drain(fetchDrain)
	}
	f.sub.Stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wanted + f.open
}
