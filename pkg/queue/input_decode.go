package queue

import (
	"cmp"
	"encoding/json"
	"fmt"
	"mime"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/history"
)

// decodeInput decodes a message as the stream has stored it. It does not fail: an invalid message has a Problem.
func decodeInput(m *nats.Msg, root string, pos history.Position) Input {
	in := Input{Pos: pos, Size: len(m.Data)}
	if err := in.read(m, root); err != nil {
		in.Instance, in.Problem = text.Cut(in.Instance, maxHeader), &inputError{text: text.Cut(err.Error(), maxProblem), err: err}
	}
	return in
}

// inputError is why an input cannot be used. Its text is bounded: it quotes what any publisher may have sent, and goes into
// the log, the list of refused inputs and a reply.
type inputError struct {
	text string
	err  error
}

func (e *inputError) Error() string { return e.text }
func (e *inputError) Unwrap() error { return e.err }

func (in *Input) read(m *nats.Msg, root string) error {
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
	switch kind {
	case "start":
		in.Kind = KindStart
	case "event":
		in.Kind = KindEvent
	case "cancel":
		in.Kind = KindCancel
	case "purge":
		in.Kind = KindPurge
	case "done":
		in.Kind = KindDone
	}
	if !in.Sender.sends(in.Kind) {
		in.Kind = 0
		return fmt.Errorf("%w: %q from %q, want start, event, cancel or purge", ErrUnknownKind, kind, in.Sender)
	}
	if err := checkKind(in.Sender, in.Kind, name); err != nil {
		return err
	}
	if err := in.headers(m.Header); err != nil {
		return err
	}
	switch in.Kind {
	case KindStart:
		return in.start(m.Header, m.Data)
	case KindCancel, KindPurge:
		return in.cancel(m.Header, m.Data)
	case KindDone:
		done, err := decodeDone(m.Data)
		if err == nil {
			in.Done = done
		}
		return err
	default:
		return in.body(m.Header, m.Data)
	}
}

func (in *Input) headers(h nats.Header) error {
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
		in.Reply = reply // also of rejected inputs
	}
	if in.ID == "" {
		in.ID = h.Get(nats.MsgIdHdr)
	}
	for _, v := range [...]string{in.ID, in.By, reply} {
		if len(v) > maxHeader {
			return fmt.Errorf("%w: a header of %d bytes, at most %d are allowed", ErrMalformed, len(v), maxHeader)
		}
	}
	return nil
}

// RepliesTo reports whether a reply may be sent to a subject. The sender of an input or a request names the subject, and
// must not make an orchestrator, which has more permissions, publish to subjects of other applications or of the server. So
// it is an inbox, or matches Options.ReplyPrefixes.
func (c *link) RepliesTo(subject string) bool {
	return safeReply(subject) && slices.ContainsFunc(c.opts.ReplyPrefixes, func(p string) bool { return strings.HasPrefix(subject, p) })
}

// safeReply reports whether a text is one subject that belongs neither to the server nor to Pawl.
func safeReply(s string) bool {
	return checkSubject(s) == nil && len(s) <= maxHeader && !strings.HasPrefix(s, "$") && !strings.HasPrefix(s, "pawl.") &&
		!strings.ContainsAny(s, "*>") && !strings.Contains(s, "..") && s[0] != '.' && s[len(s)-1] != '.'
}

func (in *Input) body(h nats.Header, data []byte) (err error) {
	in.Payload, err = payload(data, h.Get(HeaderContentType))
	return err
}

// start decodes a start, alone or with an event.
func (in *Input) start(h nats.Header, data []byte) error {
	in.Version = h.Get(HeaderOrchestrationVersion)
	if err := checkVersion(in.Version); err != nil {
		return err
	}
	if of := h.Get(HeaderParent); of != "" && in.Sender == SenderOrchestrator {
		parent, err := parseParent(of)
		if err != nil {
			return err
		}
		parent.HeldLimits = holdsText(h.Get(HeaderHolds))
		in.Parent = parent
	}
	event, split := h.Get(HeaderEvent), h.Get(HeaderSplit)
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
		in.Event = &OutEvent{Name: event, Payload: p}
	}
	return err
}

// cancel decodes the requester and the reason. An unknown reason counts as none: that the instance ends is more important.
func (in *Input) cancel(h nats.Header, data []byte) error {
	if in.Sender == SenderOrchestrator {
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
	in.Text, in.Force = text.Cut(body.Text, maxText), body.Force && in.Kind == KindPurge
	if body.By != "" { // on one line, because its children receive it in a header
		in.By = text.Cut(strings.Join(strings.Fields(body.By), " "), maxHeader)
	}
	return nil
}

// payload decodes a body, or a part of one.
func payload(data []byte, typ string) (history.Payload, error) {
	if len(data) > MaxPayload {
		return history.Payload{}, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrTooLarge, len(data), MaxPayload)
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

// contentType returns the type of a payload: JSON by default. Unknown types are passed on; decoding them fails at the
// receiver.
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

// positionOf returns the position of a message in the stream, and the number of its delivery by the consumer.
func positionOf(m *nats.Msg) (pos history.Position, delivery uint64, err error) {
	meta, err := m.Metadata()
	if err != nil {
		return history.Position{}, 0, fmt.Errorf("%w: not from a stream: %w", ErrMalformed, err)
	}
	return history.Position{Seq: meta.Sequence.Stream, Time: meta.Timestamp.UnixNano()}, meta.Sequence.Consumer, nil
}
