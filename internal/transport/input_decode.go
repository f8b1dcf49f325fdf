package transport

import (
	"cmp"
	"encoding/json"
	"fmt"
	"mime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/attribute"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/history"
)

// decodeInput decodes a message as stored by the stream. It does not fail: an invalid message has a Problem.
func decodeInput(m *nats.Msg, root string, pos history.Position) message.Input {
	in := message.Input{Pos: pos, Size: len(m.Data)}
	if err := (incoming{&in}).read(m, root); err != nil {
		in.Instance, in.Problem = text.Cut(in.Instance, maxHeader), &inputError{text: text.Cut(err.Error(), maxProblem), err: err}
	}
	return in
}

// inputError is the reason for which an input cannot be processed. Its text is bounded, because it quotes untrusted data, and is written to
// the log, the list of refusals and a reply.
type inputError struct {
	text string
	err  error
}

func (e *inputError) Error() string { return e.text }
func (e *inputError) Unwrap() error { return e.err }

// incoming decodes an input.
type incoming struct{ *message.Input }

// read decodes the subject, the headers and the body.
func (in incoming) read(m *nats.Msg, root string) error {
	rest, ok := strings.CutPrefix(m.Subject, root+"in.")
	_, rest, ok2 := strings.Cut(rest, ".")
	from, rest, _ := strings.Cut(rest, ".")
	instance, rest, _ := strings.Cut(rest, ".")
	kind, name, _ := strings.Cut(rest, ".")
	sender, ok3 := parseSender(from)
	if !ok || !ok2 || !ok3 {
		return fmt.Errorf("%w: subject %q", ErrMalformed, m.Subject)
	}
	in.Sender, in.Name = sender, name
	var err error
	if in.Instance, err = instanceOf(instance); err != nil {
		return err
	}
	in.Kind = kindOf(kind)
	if begun, ok := strings.CutPrefix(name, verbRestart); ok && in.Sender == message.SenderClient && in.Kind == message.KindOperate {
		in.Kind, name, in.Reuse = message.KindStart, begun, history.ReuseTerminate
	}
	switch verb := operatorStart(name); {
	case in.Sender == message.SenderClient && in.Kind == message.KindOperate && name == verbBatch:
		in.Kind, name = message.KindStart, message.BatchName
	case in.Sender == message.SenderClient && in.Kind == message.KindOperate && name == verbImport:
		in.Kind, name = message.KindStart, message.ImportName
	case in.Kind == message.KindStart && (verb == verbImport || verb == verbBatch && in.Sender == message.SenderClient):
		in.Kind = 0
		return fmt.Errorf("%w: %s is started by a client's operate.%s", ErrUnknownKind, name, verb)
	}
	in.Name = name
	if !sends(in.Sender, in.Kind) {
		in.Kind = 0
		return fmt.Errorf("%w: %q from %q, want start, event, update, cancel, purge or operate", ErrUnknownKind, kind, in.Sender)
	}
	if err := checkKind(in.Sender, in.Kind, name); err != nil {
		return err
	}
	if err := in.headers(m.Header); err != nil {
		return err
	}
	switch in.Kind {
	case message.KindStart:
		return in.start(m.Header, m.Data)
	case message.KindCancel, message.KindPurge, message.KindOperate:
		return in.cancel(m.Header, m.Data)
	case message.KindDone:
		done, err := decodeDone(m.Data)
		if err == nil {
			in.Done = done
		}
		return err
	case message.KindUpdate:
		if err := in.update(m.Header); err != nil {
			return err
		}
		return in.body(m.Header, m.Data)
	default:
		return in.body(m.Header, m.Data)
	}
}

// kindOf returns the kind with that token; 0 if there is none.
func kindOf(token string) message.InputKind {
	for _, k := range inputKinds() {
		if k.String() == token {
			return k
		}
	}
	return 0
}

// update decodes the id and the deadline of an update. An update without an id receives one derived from its position in the stream.
func (in incoming) update(h nats.Header) error {
	if in.ID == "" {
		in.ID = fmt.Sprintf("#%d.%d", in.Pos.Seq, in.Pos.Time)
	} else if err := checkUpdateID(in.ID); err != nil {
		return err
	}
	var err error
	in.Deadline, err = in.moment(h, HeaderDeadline)
	return err
}

// moment decodes a time, or a duration since the acceptance, to Unix ms; 0 without the header.
func (in incoming) moment(h nats.Header, name string) (int64, error) {
	v := h.Get(name)
	if v == "" {
		return 0, nil
	}
	accepted := time.Unix(0, in.Pos.Time)
	if d, err := time.ParseDuration(v); err == nil && d > 0 {
		return accepted.Add(d).UnixMilli(), nil
	}
	at, err := time.Parse(time.RFC3339, v)
	if err != nil || at.UnixMilli() <= 0 {
		return 0, fmt.Errorf("%w: %s %q, want a duration or a time as of RFC 3339", ErrMalformed, name, v)
	}
	return at.UnixMilli(), nil
}

// startOptions decodes when and for how long an instance runs, and the policy for an id that is in use. They are accepted from clients.
func (in incoming) startOptions(h nats.Header) (err error) {
	if in.Sender != message.SenderClient {
		return nil
	}
	if in.StartAt, err = in.moment(h, HeaderStartAt); err != nil {
		return err
	}
	if v := h.Get(HeaderRunTimeout); v != "" {
		if in.Timeout, err = time.ParseDuration(v); err != nil || in.Timeout < time.Millisecond {
			return fmt.Errorf("%w: %s %q, want a duration of at least 1ms", ErrMalformed, HeaderRunTimeout, v)
		}
	}
	reuse, ok := history.ParseReuse(h.Get(HeaderReuse))
	switch restarts := in.Reuse == history.ReuseTerminate; {
	case !ok, restarts && reuse != history.ReuseIgnore && reuse != history.ReuseTerminate:
		return fmt.Errorf("%w: %s %q, want ignore, reject or after-failure", ErrMalformed, HeaderReuse, h.Get(HeaderReuse))
	case !restarts && reuse == history.ReuseTerminate:
		return fmt.Errorf("%w: %s %s is only allowed on operate.%s%s", ErrMalformed, HeaderReuse, reuse, verbRestart, in.Name)
	case !restarts:
		in.Reuse = reuse
	}
	return nil
}

func (in incoming) headers(h nats.Header) error {
	if v := h.Get(HeaderVersion); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			return fmt.Errorf("%w: %s %q", ErrMalformed, HeaderVersion, v)
		}
		if n > 1 {
			return &NewerError{What: "input", Version: n, Max: 1}
		}
	}
	reply := h.Get(HeaderReply)
	if in.ID, in.By = h.Get(HeaderID), h.Get(HeaderBy); safeReply(reply) {
		in.Reply = reply // also for rejected inputs
	}
	if in.ID == "" {
		in.ID = h.Get(nats.MsgIdHdr)
	}
	for _, v := range [...]string{in.ID, in.By, reply} {
		if len(v) > maxHeader {
			return fmt.Errorf("%w: a header of %d bytes, at most %d are allowed", ErrMalformed, len(v), maxHeader)
		}
	}
	if in.Kind == message.KindStart || in.Kind == message.KindEvent {
		in.Headers = propagated(h)
	}
	return nil
}

// propagated returns the headers that are passed on with an instance. Other headers and malformed ones are dropped. A trace context with
// the capitalization of HTTP is accepted, because bridges pass headers on unchanged.
func propagated(h nats.Header) (out history.Headers) {
	var names []string
	for name := range h {
		if own, declared := propagatedName(name); history.IsDeclared(own) == declared && own != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names) // so that the same headers are dropped in any order
	for _, name := range names {
		own, _ := propagatedName(name)
		out = out.With(own, h.Get(name))
	}
	return out
}

// propagatedName returns the name of a header that is passed on, and whether its prefix declared it. own is empty for any other header.
func propagatedName(name string) (own string, declared bool) {
	n := len(HeaderDeclared)
	switch {
	case len(name) > n && strings.EqualFold(name[:n], HeaderDeclared):
		return strings.ToLower(name[n:]), true
	case strings.EqualFold(name, history.HeaderTraceparent), strings.EqualFold(name, history.HeaderTracestate), strings.EqualFold(name, history.HeaderBaggage):
		return strings.ToLower(name), false
	default:
		return "", false
	}
}

// RepliesTo reports whether a reply may be sent to a subject. The sender of an input or a request chooses the subject, and must not make
// an orchestrator, which has more permissions, publish to subjects of other applications or of the server. So the subject must be an
// inbox, or match Options.ReplyPrefixes.
func (c *link) RepliesTo(subject string) bool {
	return safeReply(subject) && slices.ContainsFunc(c.opts.ReplyPrefixes, func(p string) bool { return strings.HasPrefix(subject, p) })
}

// safeReply reports whether s is a single subject that belongs neither to the server nor to Pawl.
func safeReply(s string) bool {
	return checkSubject(s) == nil && len(s) <= maxHeader && !strings.HasPrefix(s, "$") && !strings.HasPrefix(s, "pawl.") &&
		!strings.ContainsAny(s, "*>") && !strings.Contains(s, "..") && s[0] != '.' && s[len(s)-1] != '.'
}

func (in incoming) body(h nats.Header, data []byte) (err error) {
	in.Payload, err = payload(data, h.Get(HeaderContentType))
	return err
}

// start decodes a start, alone or with an event.
func (in incoming) start(h nats.Header, data []byte) error {
	in.Version = h.Get(HeaderOrchestrationVersion)
	if err := checkVersion(in.Version); err != nil {
		return err
	}
	attributes, err := attribute.Parse(h.Get(HeaderAttributes))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if len(attributes) > 0 {
		in.Attrs = attributes.String()
	}
	if err := in.startOptions(h); err != nil {
		return err
	}
	if in.Name == message.ImportName {
		in.Reuse = history.ReuseReject
	}
	if of := h.Get(HeaderParent); of != "" && in.Sender == message.SenderOrchestrator {
		parent, err := parseParent(of)
		if err != nil {
			return err
		}
		parent.HeldLimits = holdsText(h.Get(HeaderHolds))
		in.Parent = parent
	}
	event, split := h.Get(HeaderEvent), h.Get(HeaderSplit)
	update := h.Get(HeaderUpdate)
	if update != "" {
		if event != "" {
			return fmt.Errorf("%w: %s and %s", ErrMalformed, HeaderEvent, HeaderUpdate)
		}
		if in.Reuse != history.ReuseIgnore { // the ledger keeps the update longer than ingest keeps the id of the start: see decision 72
			return fmt.Errorf("%w: %s of a start that replaces or rejects: send the update after it", ErrMalformed, HeaderUpdate)
		}
		if err := in.update(h); err != nil {
			return err
		}
		event = update
	}
	if event == "" {
		if split != "" {
			return fmt.Errorf("%w: %s without %s", ErrMalformed, HeaderSplit, HeaderEvent)
		}
		return in.body(h, data)
	}
	if err := CheckName(event); err != nil {
		return err
	}
	n := 0
	if split != "" {
		var err error
		if n, err = strconv.Atoi(split); err != nil || n < 0 || n > len(data) {
			return fmt.Errorf("%w: %s %q of a body of %d bytes", ErrMalformed, HeaderSplit, split, len(data))
		}
	}
	if err := in.body(h, data[:n:n]); err != nil {
		return err
	}
	p, err := payload(data[n:], cmp.Or(h.Get(HeaderEventType), h.Get(HeaderContentType)))
	if err == nil {
		in.Event = &message.OutEvent{Name: event, Payload: p, Update: update != ""}
	}
	return err
}

// cancel decodes the requester and the reason. An unknown reason counts as none, because the cancellation itself matters more.
func (in incoming) cancel(h nats.Header, data []byte) error {
	if in.Sender == message.SenderOrchestrator {
		if in.Of = h.Get(HeaderOf); in.Of != "" {
			if err := checkEffect(in.Of); err != nil {
				return err
			}
		}
		if in.Reason.UnmarshalText([]byte(h.Get(HeaderReason))) != nil {
			in.Reason = 0
		}
	}
	if len(data) > MaxPayload {
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrTooLarge, len(data), MaxPayload)
	}
	if len(data) == 0 {
		return nil
	}
	var body cancelBody
	switch {
	case json.Unmarshal(data, &body) == nil:
	case utf8.Valid(data): // nats pub … cancel 'no longer needed'
		body = cancelBody{Text: string(data)}
	default:
		return fmt.Errorf("%w: body of a cancel is neither JSON nor text", ErrMalformed)
	}
	in.Text, in.Force = text.Cut(body.Text, maxText), body.Force && in.Kind == message.KindPurge
	if in.Kind == message.KindOperate {
		in.Operate = body.Operate
	}
	if body.By != "" { // on one line, because the children receive it in a header
		in.By = text.Cut(strings.Join(strings.Fields(body.By), " "), maxHeader)
	}
	return nil
}

// payload decodes a body or a part of a body.
func payload(data []byte, typ string) (history.Payload, error) {
	if err := checkSize(typ, len(data)); err != nil {
		return history.Payload{}, err
	}
	if len(data) == 0 {
		return history.Payload{}, nil
	}
	t, err := contentType(typ)
	if err != nil {
		return history.Payload{}, err
	}
	return history.Payload{Type: t, Data: data}, nil
}

// contentType returns the content type of a payload: JSON by default. Unknown types are passed on; decoding them fails at the receiver.
func contentType(v string) (string, error) {
	if v == "" {
		return history.TypeJSON, nil
	}
	t, _, err := mime.ParseMediaType(v)
	if err != nil || len(t) > maxHeader {
		return "", fmt.Errorf("%w: content type %q", ErrMalformed, v)
	}
	return t, nil
}

// positionOf returns the position of a message in the stream, and its delivery number by the consumer.
func positionOf(m *nats.Msg) (pos history.Position, delivery uint64, err error) {
	meta, err := m.Metadata()
	if err != nil {
		return history.Position{}, 0, fmt.Errorf("%w: not from a stream: %w", ErrMalformed, err)
	}
	return history.Position{Seq: meta.Sequence.Stream, Time: meta.Timestamp.UnixNano()}, meta.Sequence.Consumer, nil
}
