package transport

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/attribute"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/propagate"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/history"
)

// Maximum sizes of the other fields of an input, in bytes.
const (
	maxHeader   = 256
	maxProblem  = 512     // text that reports why an input cannot be processed
	maxVersion  = 100     // version of an orchestration
	maxUpdateID = 200     // id of an update
	maxEffect   = 100     // effect id
	maxAbove    = 9 << 10 // marks of the ancestors with which a child is cancelled
	maxHolds    = 8 << 10 // limits that ancestors hold; truncated, because they only serve to detect deadlocks
	maxText     = 8 << 10 // text of a cancel; truncated, because the cancellation itself matters more
)

// check returns an error if the input must not be published.
func (o outgoing) check() error {
	if err := CheckInstance(o.Instance); err != nil {
		return err
	}
	if err := checkKind(o.Sender, o.Kind, o.Name); err != nil {
		return err
	}
	if o.Sender != message.SenderOrchestrator && (o.Parent != nil || o.Of != "" || o.Reason != 0) {
		return fmt.Errorf("%w: only orchestrators may name a parent, or the start that a cancel or a request concerns", ErrMalformed)
	}
	for _, h := range [...]string{o.ID, o.Reply, o.By} {
		if len(h) > maxHeader || strings.ContainsAny(h, "\r\n") {
			return fmt.Errorf("%w: id, reply and by must be single lines of at most %d bytes", ErrMalformed, maxHeader)
		}
	}
	switch o.Kind {
	case message.KindStart:
		return o.checkStart()
	case message.KindUpdate:
		if err := checkUpdateID(o.ID); err != nil {
			return err
		}
		return o.checkPayload(o.Name, o.Payload)
	case message.KindEvent:
		return o.checkPayload(o.Name, o.Payload)
	case message.KindCancel, message.KindPurge, message.KindOperate:
		if o.Of == "" {
			return nil
		}
		return checkEffect(o.Of)
	default: // done, the only other kind
		return o.checkDone()
	}
}

func checkKind(from message.Sender, k message.InputKind, name string) error {
	if !sends(from, k) {
		return fmt.Errorf("%w: number %d on a subject that begins with %q", ErrUnknownKind, k, from)
	}
	switch k {
	case message.KindStart, message.KindEvent, message.KindUpdate:
		return CheckName(name)
	case message.KindOperate:
		if _, ok := history.ParseVerb(name); !ok {
			return fmt.Errorf("%w: operate %.*q", ErrUnknownKind, maxHeader, name)
		}
		return nil
	case message.KindCancel, message.KindPurge, message.KindDone:
		if name != "" {
			return fmt.Errorf("%w: %s must not have a name, this one has %q", ErrBadName, k, name)
		}
		return nil
	default:
		return fmt.Errorf("%w: number %d", ErrUnknownKind, k)
	}
}

func (o outgoing) checkStart() error {
	if err := o.checkPayload(o.Name, o.Payload); err != nil {
		return err
	}
	if err := checkVersion(o.Version); err != nil {
		return err
	}
	if _, err := attribute.Parse(o.Attrs); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if o.Parent != nil {
		if err := checkParent(o.Parent); err != nil {
			return err
		}
	}
	if o.Event == nil {
		return nil
	}
	if err := CheckName(o.Event.Name); err != nil {
		return err
	}
	if o.Event.Update {
		if err := checkUpdateID(o.ID); err != nil {
			return err
		}
	}
	return o.checkPayload(o.Event.Name, o.Event.Payload)
}

// checkPayload checks one payload of the input, which belongs to name.
func (o outgoing) checkPayload(name string, p history.Payload) error {
	if err := checkSize(p.Type, len(p.Data)); err != nil {
		return fmt.Errorf("%s %s of instance %s: %w", o.Kind, name, o.Instance, err)
	}
	if p.Type == "" && len(p.Data) > 0 {
		return fmt.Errorf("%w: a payload of %d bytes without a type, for %s of instance %s", ErrMalformed, len(p.Data), name, o.Instance)
	}
	return nil
}

func (o outgoing) checkDone() error {
	if o.Done == nil {
		return fmt.Errorf("%w: done for instance %s without content", ErrMalformed, o.Instance)
	}
	if err := checkDone(o.Done); err != nil {
		return fmt.Errorf("%w, for instance %s", err, o.Instance)
	}
	return nil
}

// checkVersion checks the version of an orchestration; empty means the newest.
func checkVersion(v string) error {
	if len(v) > maxVersion {
		return fmt.Errorf("%w: version of %d characters, at most %d are allowed", ErrBadName, len(v), maxVersion)
	}
	if v == "" {
		return nil
	}
	if err := CheckName(v); err != nil {
		return fmt.Errorf("version: %w", err)
	}
	return nil
}

// checkUpdateID checks the id that the sender of an update has chosen. Ids that begin with # are reserved for Pawl.
func checkUpdateID(id string) error {
	if id == "" || len(id) > maxUpdateID || id[0] == '#' || strings.ContainsFunc(id, unicode.IsControl) || !utf8.ValidString(id) {
		return fmt.Errorf("%w: update id %q, want 1 to %d bytes of text that do not begin with #", ErrMalformed, text.Cut(id, maxHeader), maxUpdateID)
	}
	return nil
}

// checkEffect checks an effect id. It contains no spaces, so that headers can list them.
func checkEffect(id string) error {
	ok := id != "" && len(id) <= maxEffect
	for i := range len(id) {
		ok = ok && id[i] > ' ' && id[i] < 0x7f
	}
	if !ok {
		return fmt.Errorf("%w: effect id %.*q, want 1 to %d printable characters", ErrMalformed, maxEffect, id, maxEffect)
	}
	return nil
}

// message encodes a checked input as headers and a body.
func (o outgoing) message() (nats.Header, []byte, error) {
	h := headers{}
	h.set(HeaderID, o.ID)
	h.set(HeaderReply, o.Reply)
	h.set(HeaderBy, o.By)
	h.setAll(o.Headers)
	if o.Deadline > 0 {
		h.set(HeaderDeadline, o.Deadline.String())
	}
	switch o.Kind {
	case message.KindStart:
		return nats.Header(h), o.start(h), nil
	case message.KindCancel, message.KindPurge, message.KindOperate:
		body, err := o.cancel(h)
		return nats.Header(h), body, err
	case message.KindDone:
		h.set(HeaderContentType, typeDone)
		body, err := encodeDone(o.Done)
		return nats.Header(h), body, err
	default:
		h.set(HeaderContentType, o.Payload.Type)
		return nats.Header(h), o.Payload.Data, nil
	}
}

// headers is a header to which only nonempty values are added.
type headers nats.Header

func (h headers) set(key, value string) {
	if value != "" {
		h[key] = []string{value}
	}
}

// setAll sets the headers that are passed on.
func (h headers) setAll(all history.Headers) {
	for name, value := range all.All() {
		if name == history.HeaderStartSpan {
			continue
		}
		if history.IsDeclared(name) {
			name = HeaderDeclared + name
		}
		h.set(name, value)
	}
}

// taskHeader returns the headers of a task; nil if there are none.
func taskHeader(all history.Headers) nats.Header {
	if all == "" {
		return nil
	}
	h := headers{}
	h.setAll(all)
	h.set(headerSpan, all.StartSpan())
	return nats.Header(h)
}

// headersOfTask returns the headers that a task received from its instance.
func headersOfTask(h nats.Header) history.Headers {
	if len(h) == 0 {
		return ""
	}
	return propagate.WithStartSpan(propagated(h), h.Get(headerSpan))
}

func (o outgoing) start(h headers) []byte {
	h.set(HeaderOrchestrationVersion, o.Version)
	h.set(HeaderAttributes, o.Attrs)
	h.set(HeaderStartAt, o.StartAt)
	if o.Timeout > 0 {
		h.set(HeaderRunTimeout, o.Timeout.String())
	}
	if o.Reuse != history.ReuseIgnore {
		h.set(HeaderReuse, o.Reuse.String())
	}
	if o.Parent != nil {
		h.set(HeaderParent, parentText(o.Parent))
		h.set(HeaderHolds, holdsText(o.Parent.HeldLimits))
	}
	if o.Event == nil {
		h.set(HeaderContentType, o.Payload.Type)
		return o.Payload.Data
	}
	if o.Event.Update {
		h.set(HeaderUpdate, o.Event.Name)
	} else {
		h.set(HeaderEvent, o.Event.Name)
	}
	in, event := o.Payload, o.Event.Payload
	if len(in.Data) == 0 {
		h.set(HeaderContentType, event.Type)
		return event.Data
	}
	h.set(HeaderContentType, in.Type)
	h.set(HeaderSplit, strconv.Itoa(len(in.Data)))
	if event.Type != in.Type {
		h.set(HeaderEventType, event.Type)
	}
	body := make([]byte, 0, len(in.Data)+len(event.Data))
	return append(append(body, in.Data...), event.Data...)
}

func (o outgoing) cancel(h headers) ([]byte, error) {
	h.set(HeaderOf, o.Of)
	if o.Reason != 0 {
		h.set(HeaderReason, o.Reason.String())
	}
	if o.Text == "" && !o.Force && o.Operate == (message.Operate{}) {
		return nil, nil
	}
	return json.Marshal(cancelBody{Text: text.Cut(o.Text, maxText), By: o.By, Force: o.Force, Operate: o.Operate})
}

type cancelBody struct {
	Text string `json:"text,omitempty"`
	By   string `json:"by,omitempty"`
	// Force also purges a running instance.
	Force bool `json:"force,omitempty"`
	message.Operate
}

// outgoing encodes an input.
type outgoing struct{ *message.OutInput }
