package queue

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

// Times of pull requests.
const (
	readExpires    = 30 * time.Second
	pullExpires    = 2 * time.Second // for so long the server delivers tasks to a worker whose death it has not detected
	calmExpires    = 5 * time.Second // likewise, of a queue that has delivered nothing for calmAfter
	calmAfter      = 30 * time.Second
	fetchHeartbeat = time.Second     // at most; the server allows half of the expiry
	nearHeartbeat  = 5 * time.Second // likewise, of a consumer in the server that the connection has
	fetchSilence   = 3 * time.Second // without a heartbeat or message the requests are considered lost, unless heartbeats are rarer
	fetchGrace     = 5 * time.Second // after its expiry a request has been answered, or is lost
	fetchDrain     = 2 * time.Second // for messages in transit when the fetch is closed
)

// fetch keeps pull requests open at one consumer, through one inbox, so that the number of messages that may arrive is
// exactly the number wanted:
//
//	want ──request(n)──▶ open ──data──▶ the caller
//	  ▲                    │
//	  └──── 408, m left ───┘
//
// A message does not identify the request that it answers, but the sum is sufficient: open = Σ requested − messages − Σ
// left over. The server sends all of it through one ordered queue, so the sum is exact unless a message was lost; then the
// fetch ends, its inbox with it, and a new one starts from what is wanted.
//
// A request is sent only when at least as much is wanted as is open. So with many free places and few messages the server
// has about log₂(places) requests, not one per place, and with no free place each one that becomes free is requested at
// once.
type fetch struct {
	nc      *nats.Conn
	subject string // of requests
	inbox   string // with the dot
	expires time.Duration
	calm    time.Duration // instead of expires, if nothing has arrived for calmAfter
	take    func(m *nats.Msg, asked bool)
	contact *contact // records messages and heartbeats; may be nil
	done    chan struct{}

	mu     sync.Mutex
	sub    *Subscription
	err    error // why done is closed
	ended  bool
	wanted int
	open   int
	narrow bool // one message is requested at a time, with a permit for each
	may    bool // narrow: there is a permit
	last   uint64
	reqs   map[uint64]request
	heard  time.Time
	came   time.Time     // the last message; first: the fetch began
	beat   time.Duration // between heartbeats, as the last request has it
}

type request struct {
	n     int
	until time.Time // by when it has been answered, or is lost
}

// newFetch subscribes. Requests end after expires, or after calm, and are repeated. take is called for every message, in order, on one
// goroutine; asked is false for a message that was not requested.
func newFetch(nc *nats.Conn, subject string, expires, calm time.Duration, take func(m *nats.Msg, asked bool)) (*fetch, error) {
	f := &fetch{nc: nc, subject: subject, inbox: nc.NewInbox() + ".", expires: expires, calm: calm, take: take,
		done: make(chan struct{}), reqs: make(map[uint64]request), came: time.Now()}
	sub, err := subscribe(nc, f.inbox+"*", f.message)
	if err != nil {
		return nil, err
	}
	f.sub = sub
	return f, sub.sub.SetPendingLimits(-1, -1) // bounded by what is wanted
}

// want adds n to what is wanted.
func (f *fetch) want(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wanted += n
	f.ask()
}

// ask sends a request if one is due. The lock is held.
func (f *fetch) ask() {
	n := f.wanted
	switch {
	case f.ended || n <= 0:
		return
	case f.narrow && (f.open > 0 || !f.may), !f.narrow && n < f.open:
		return
	case f.narrow:
		n, f.may = 1, false
	}
	now := time.Now()
	if f.open == 0 {
		f.heard = now
	}
	f.last++
	expires := aligned(now, f.expires)
	if now.Sub(f.came) > calmAfter {
		expires = aligned(now, f.calm)
	}
	f.reqs[f.last] = request{n: n, until: now.Add(expires + fetchGrace)}
	f.open += n
	f.wanted -= n
	f.beat = min(heartbeat(f.nc), expires/2)
	body, err := json.Marshal(struct {
		Batch     int           `json:"batch"`
		Expires   time.Duration `json:"expires"`
		Heartbeat time.Duration `json:"idle_heartbeat"`
	}{n, expires, f.beat})
	if err == nil {
		err = f.nc.PublishRequest(f.subject, f.inbox+strconv.FormatUint(f.last, 36), body)
	}
	if err != nil {
		f.fail(fmt.Errorf("request: %w", err))
	}
}

// heartbeat returns how often the server is to report that it has a request. In a cluster the server of a consumer is another one than that of
// the connection, which goes on when the other is lost: only heartbeats show that. A single server is not lost without the connection, which is
// checked by its own pings, so that heartbeats are only for requests that the server has forgotten.
func heartbeat(nc *nats.Conn) time.Duration {
	if streams, _ := nc.ConnectedServerJetStream(); streams && nc.ConnectedClusterName() == "" {
		return nearHeartbeat
	}
	return fetchHeartbeat
}

// silence returns after how long without a message the requests are lost.
func (f *fetch) silence() time.Duration { return max(fetchSilence, 5*f.beat/2) }

// aligned returns after how long a request ends that is sent now: at a multiple of expires if that is long, otherwise at a second. So
// the requests of all fetches of all processes end, and the next ones begin, at the same time, and the server sends their heartbeats
// together: an idle process wakes up once a second, not for each of its partitions and queues.
func aligned(now time.Time, expires time.Duration) time.Duration {
	if expires < readExpires { // never later than expires
		return expires - time.Duration(now.UnixNano())%time.Second
	}
	left := expires - time.Duration(now.UnixNano())%expires
	if left < 2*fetchHeartbeat { // the server allows no heartbeat then
		left += expires
	}
	return left
}

// setNarrow switches between requesting one message at a time and all that are wanted.
func (f *fetch) setNarrow(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.narrow, f.may = on, false
	f.ask()
}

// permit lets a narrow fetch request one more message.
func (f *fetch) permit() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.may = true
	f.ask()
}

// message is the subscription's callback.
func (f *fetch) message(m *nats.Msg) {
	f.mu.Lock()
	f.heard = time.Now()
	if !strings.HasPrefix(m.Subject, f.inbox) { // a message has its own subject, a status of the server has that of the inbox
		f.contact.received(f.heard)
		f.came = f.heard
		asked := f.open > 0
		if asked {
			f.open--
			f.ask()
		}
		f.mu.Unlock()
		f.take(m, asked)
		return
	}
	defer f.mu.Unlock()
	switch status := m.Header.Get("Status"); status {
	case "100":
		f.contact.received(f.heard)
	case "408":
		f.contact.received(f.heard)
		f.leftOver(m)
	default:
		f.fail(fmt.Errorf("server status %s %s", status, m.Header.Get("Description")))
	}
}

// leftOver records the end of a request. The lock is held.
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
	f.may = f.may || n > 0 // the permit was not used
	f.ask()
}

var (
	errSilence = errors.New("missed heartbeats")
	errLost    = errors.New("a request was lost")
)

// check ends the fetch if the server has lost its requests, and reports whether it goes on. It does not wait for another goroutine, which
// may be writing to a dead connection: the next check follows soon.
func (f *fetch) check(now time.Time) bool {
	if !f.mu.TryLock() {
		return true
	}
	defer f.mu.Unlock()
	alive := 0 // sum of the requests that may still be answered
	for id, r := range f.reqs {
		if now.After(r.until) {
			delete(f.reqs, id)
		} else {
			alive += r.n
		}
	}
	switch {
	case f.open > 0 && now.Sub(f.heard) > f.silence():
		f.fail(errSilence)
	case f.open > alive:
		f.fail(errLost)
	}
	return !f.ended
}

// fetches are those of a Conn, which are checked together: a timer for each would wake an idle process up for each. The zero value is empty.
type fetches struct {
	mu   sync.Mutex
	open []*fetch
}

func (s *fetches) add(f *fetch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = append(s.open, f)
}

// check checks all, and forgets those that have ended.
func (s *fetches) check(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = slices.DeleteFunc(s.open, func(f *fetch) bool { return !f.check(now) })
}

// stop ends the fetch with a reason.
func (f *fetch) stop(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail(err)
}

// fail ends the fetch; the first reason counts. The lock is held.
func (f *fetch) fail(err error) {
	if !f.ended {
		f.ended = true
		f.err = err
		close(f.done)
	}
}

// outstanding reports whether the server has requests that it has not answered.
func (f *fetch) outstanding() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open > 0
}

// reason returns why the fetch ended.
func (f *fetch) reason() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// close unsubscribes and waits until take is no longer called. With drain, messages in transit are still passed to take. It
// returns how many messages are still wanted.
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
