package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/internal/timers"
)

// maxInFlight is the maximum number of publishes without an acknowledgement.
const maxInFlight = 1 << 16

// publisher publishes to a stream and matches the acknowledgements: one inbox subscription, one map, ascending ids. It replaces the
// asynchronous publishing of the library, which blocks its caller, keeps a timer and two channels per message, and reports the end of a
// message in three different ways.
//
// Every publish ends exactly once, by the code that removes it from the map: its acknowledgement, the sweep after the timeout, a
// disconnect, or the end of the publisher.
//
// A publisher serves one stream, which answers in the order of sending. So if a later message was acknowledged, or rejected for lack of a
// stream, a message without an answer was lost with a leader; the sweep ends it.
type publisher struct {
	nc      *nats.Conn
	inbox   string // prefix of the reply subjects, including the dot
	sub     *Subscription
	timeout time.Duration
	ticks   *timers.Ticker // required while a publish is pending

	mu            sync.Mutex
	closed        bool
	inboxRejected *PermissionError // set while the server rejects the inbox, until the next connection
	last          uint64           // last assigned id
	first         uint64           // no lower id is pending
	past          uint64           // highest id with an answer; earlier messages were answered or lost
	lost          uint64           // past at the last sweep: earlier messages have had time to be answered
	pending       map[uint64]inFlight
}

type inFlight struct {
	until   time.Time
	subject string
	done    func(seq uint64, err error)
}

func newPublisher(nc *nats.Conn, timeout time.Duration, ticks *timers.Ticker) (*publisher, error) {
	p := &publisher{nc: nc, inbox: nc.NewInbox() + ".", timeout: timeout, ticks: ticks, first: 1, pending: make(map[uint64]inFlight)}
	sub, err := subscribe(nc, p.inbox+"*", p.acknowledged)
	if err != nil {
		return nil, err
	}
	p.sub = sub
	return p, sub.sub.SetPendingLimits(-1, -1) // bounded by maxInFlight
}

// publish sends one message and returns; done is called once.
func (p *publisher) publish(subject string, header nats.Header, data []byte, done func(uint64, error)) {
	if !p.nc.IsConnected() { // otherwise it would wait in the reconnect buffer, and arrive late or twice
		done(0, ErrDisconnected)
		return
	}
	if err := checkSubject(subject); err != nil {
		done(0, err)
		return
	}
	id, err := p.add(subject, done)
	if err != nil {
		done(0, err)
		return
	}
	m := &nats.Msg{Subject: subject, Reply: p.inbox + strconv.FormatUint(id, 36), Header: header, Data: data}
	if err := p.nc.PublishMsg(m); err != nil {
		p.end(id, 0, p.unsent(err, len(data)))
	}
}

// unsent classifies an error of the library's publish. The listed errors are returned before anything is written; any other one may have
// occurred in the middle of a write.
func (p *publisher) unsent(err error, size int) error {
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %d bytes and their headers, the NATS server takes %d of both (max_payload)", ErrTooLarge, size, p.nc.MaxPayload())
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrConnectionDraining), errors.Is(err, nats.ErrReconnectBufExceeded):
		return fmt.Errorf("%w: %w", ErrDisconnected, err)
	case errors.Is(err, nats.ErrHeadersNotSupported), errors.Is(err, nats.ErrBadSubject):
		return fmt.Errorf("queue: publish: %w", err)
	default:
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
}

func (p *publisher) add(subject string, done func(uint64, error)) (uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, ErrClosed
	}
	if p.inboxRejected != nil { // the acknowledgement could not be received
		return 0, p.inboxRejected
	}
	if len(p.pending) >= maxInFlight {
		return 0, ErrBusy
	}
	p.last++
	p.pending[p.last] = inFlight{until: time.Now().Add(p.timeout), subject: subject, done: done}
	p.ticks.Require()
	return p.last, nil
}

// outstanding reports whether any publish has no acknowledgement.
func (p *publisher) outstanding() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.pending) > 0
}

// end removes the publish from the map and reports its end, unless it has already ended.
func (p *publisher) end(id, seq uint64, err error) {
	p.mu.Lock()
	f, ok := p.pending[id]
	delete(p.pending, id)
	if err == nil || errors.Is(err, ErrNoStream) {
		p.past = max(p.past, id)
	}
	p.mu.Unlock()
	if ok {
		f.done(seq, err)
	}
}

func (p *publisher) acknowledged(m *nats.Msg) {
	id, err := strconv.ParseUint(m.Subject[len(p.inbox):], 36, 64)
	if err != nil {
		return
	}
	seq, err := parseAck(m)
	p.end(id, seq, err)
}

// sweep ends publishes that have timed out or were lost. Ids and deadlines ascend together.
func (p *publisher) sweep(now time.Time) {
	var late []inFlight
	p.mu.Lock()
	lost := p.lost
	p.lost = p.past
	for ; p.first <= p.last; p.first++ {
		f, ok := p.pending[p.first]
		if ok && f.until.After(now) && p.first >= lost {
			break
		}
		if ok {
			late = append(late, f)
			delete(p.pending, p.first)
		}
	}
	p.mu.Unlock()
	for _, f := range late {
		if f.until.After(now) {
			f.done(0, fmt.Errorf("%w: not acknowledged, but later messages were answered", ErrUnknown))
		} else {
			f.done(0, fmt.Errorf("%w: %w (%s)", ErrUnknown, ErrTimeout, p.timeout))
		}
	}
}

// refused ends publishes that the server has rejected. Those to a rejected subject were not accepted. If the inbox was rejected, all that
// wait for an acknowledgement end, and may have been accepted.
func (p *publisher) refused(v *PermissionError) {
	if v.Inbox {
		p.mu.Lock()
		p.inboxRejected = v
		p.mu.Unlock()
		p.endAll(fmt.Errorf("%w: %w", ErrUnknown, v))
		return
	}
	var done []func(uint64, error)
	p.mu.Lock()
	for id, f := range p.pending {
		if v.Operation == "publish" && f.subject == v.Subject {
			done = append(done, f.done)
			delete(p.pending, id)
		}
	}
	p.mu.Unlock()
	for _, f := range done {
		f(0, v)
	}
}

// failAll ends all outstanding publishes when the connection is lost: they may have been accepted. The inbox may be permitted by the next
// server.
func (p *publisher) failAll(err error) {
	p.mu.Lock()
	p.inboxRejected = nil
	p.mu.Unlock()
	p.endAll(fmt.Errorf("%w: %w", ErrUnknown, err))
}

func (p *publisher) endAll(err error) {
	p.mu.Lock()
	all := p.pending
	p.pending = make(map[uint64]inFlight)
	p.first = p.last + 1
	p.mu.Unlock()
	for _, f := range all {
		f.done(0, err)
	}
}

func (p *publisher) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.sub.Stop()
	p.failAll(ErrClosed)
}

// parseAck decodes a PubAck and returns the sequence, or its error. An undecodable one is ErrUnknown, not ErrMalformed, which means that
// the message can never be accepted.
func parseAck(m *nats.Msg) (uint64, error) {
	if len(m.Data) == 0 {
		if m.Header.Get("Status") == "503" {
			return 0, ErrNoStream
		}
		return 0, fmt.Errorf("%w: empty acknowledgement", ErrUnknown)
	}
	if seq, ok := plainAck(m.Data); ok {
		return seq, nil
	}
	var ack struct {
		Stream string              `json:"stream"`
		Seq    uint64              `json:"seq"`
		Error  *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &ack); err != nil {
		return 0, fmt.Errorf("%w: acknowledgement: %w", ErrUnknown, err)
	}
	switch {
	case ack.Error != nil:
		return 0, refusal(ack.Error)
	case ack.Stream == "":
		return 0, fmt.Errorf("%w: acknowledgement without a stream", ErrUnknown)
	}
	return ack.Seq, nil
}

// plainAck reads a PubAck that contains only the name of the stream and the sequence, {"stream":"S","seq":1}, in a tenth of the time of
// encoding/json: there is one for every task.
func plainAck(b []byte) (seq uint64, ok bool) {
	stream, ok := bytes.CutPrefix(b, []byte(`{"stream":"`))
	stream, number, found := bytes.Cut(stream, []byte(`","seq":`))
	number, closed := bytes.CutSuffix(bytes.TrimLeft(number, " "), []byte("}"))
	if !ok || !found || !closed || len(stream) == 0 || bytes.ContainsAny(stream, `"\\`) || bytes.HasPrefix(number, []byte("0")) {
		return 0, false
	}
	seq, err := strconv.ParseUint(string(number), 10, 64)
	return seq, err == nil
}

// refusal classifies the error of a PubAck. The server reports a full stream with a code that it uses for every failure to store a
// message, so the text decides. After any other failure of the leader's store (a disk error) the followers may still store the message.
func refusal(e *jetstream.APIError) error {
	switch {
	case strings.HasPrefix(e.Description, "maximum bytes exceeded"), strings.HasPrefix(e.Description, "maximum messages exceeded"),
		e.ErrorCode == codeMemoryExceeded, e.ErrorCode == codeStorageExceeded, e.ErrorCode == codeNoResources:
		return fmt.Errorf("%w: %s", ErrStreamFull, e.Description)
	case e.ErrorCode == jetstream.JSErrCodeStreamMessageExceedsMaximum:
		return fmt.Errorf("%w: %s", ErrTooLarge, e.Description)
	default:
		return fmt.Errorf("%w: the stream returned an error: %w", ErrUnknown, e)
	}
}

// Error codes of the server that the library does not define.
const (
	codeNoPeers         = 10005
	codeNoResources     = 10023
	codeMemoryExceeded  = 10028
	codeStorageExceeded = 10047
)
