package queue

import (
	"encoding/json"
	"fmt"
	"mime"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/pawlrun/pawl/pkg/history"
)

// maxHeader bounds what is taken from a header: longer ones are a mistake.
const maxHeader = 256

// check says whether the input may be published.
func (o *OutInput) check() error {
	if err := CheckInstance(o.Instance); err != nil {
		return err
	}
	if err := checkKind(o.Kind, o.Name); err != nil {
		return err
	}
	if n := len(o.Payload.Data); n > MaxPayload {
		return fmt.Errorf("%w: %s %s of instance %s has %d bytes, at most %d are allowed", ErrTooLarge, o.Kind, o.Name, o.Instance, n, MaxPayload)
	}
	for _, h := range [...]string{o.ID, o.Reply, o.By} {
		if len(h) > maxHeader || strings.ContainsAny(h, "\r\n") {
			return fmt.Errorf("%w: id, reply and by are single lines of at most %d bytes", ErrMalformed, maxHeader)
		}
	}
	return nil
}

func checkKind(k InputKind, name string) error {
	switch k {
	case KindStart, KindEvent:
		return CheckName(name)
	case KindCancel:
		if name != "" {
			return fmt.Errorf("%w: a cancel has no name, this one has %q", ErrBadName, name)
		}
		return nil
	default:
		return fmt.Errorf("%w: number %d", ErrUnknownKind, k)
	}
}

// message gives the headers and the body.
func (o *OutInput) message() (nats.Header, []byte, error) {
	h := make(nats.Header, 4)
	set := func(k, v string) {
		if v != "" {
			h[k] = []string{v}
		}
	}
	set(HeaderID, o.ID)
	set(HeaderReply, o.Reply)
	set(HeaderBy, o.By)
	if o.Kind == KindCancel {
		if o.Text == "" {
			return h, nil, nil
		}
		body, err := json.Marshal(cancelBody{Text: o.Text, By: o.By})
		return h, body, err
	}
	if o.Payload.Type != "" {
		set(HeaderContentType, o.Payload.Type)
	} else if len(o.Payload.Data) > 0 {
		return nil, nil, fmt.Errorf("%w: a payload of %d bytes without a type", ErrMalformed, len(o.Payload.Data))
	}
	return h, o.Payload.Data, nil
}

type cancelBody struct {
	Text string `json:"text,omitempty" msgpack:"text"`
	By   string `json:"by,omitempty"   msgpack:"by"`
}

// decodeInput reads a message as the stream has filed it. It never fails: what is
// wrong with the message is its Problem.
func decodeInput(m *nats.Msg, root string, pos history.Position) Input {
	in := Input{Pos: pos}
	in.Problem = in.read(m, root)
	return in
}

func (in *Input) read(m *nats.Msg, root string) error {
	rest, ok := strings.CutPrefix(m.Subject, root+"in.")
	_, rest, ok2 := strings.Cut(rest, ".")
	instance, rest, _ := strings.Cut(rest, ".")
	kind, name, _ := strings.Cut(rest, ".")
	if !ok || !ok2 {
		return fmt.Errorf("%w: subject %q", ErrMalformed, m.Subject)
	}
	in.Instance, in.Name = instance, name
	if err := CheckInstance(instance); err != nil {
		return err
	}
	switch kind {
	case "start":
		in.Kind = KindStart
	case "event":
		in.Kind = KindEvent
	case "cancel":
		in.Kind = KindCancel
	default:
		return fmt.Errorf("%w: %q, want start, event or cancel", ErrUnknownKind, kind)
	}
	if err := checkKind(in.Kind, name); err != nil {
		return err
	}
	if err := in.headers(m.Header); err != nil {
		return err
	}
	if len(m.Data) > MaxPayload {
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrTooLarge, len(m.Data), MaxPayload)
	}
	if in.Kind == KindCancel {
		return in.cancelText(m.Header, m.Data)
	}
	return in.body(m.Header, m.Data)
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
	in.ID, in.By, in.Reply = h.Get(HeaderID), h.Get(HeaderBy), h.Get(HeaderReply)
	if in.ID == "" {
		in.ID = h.Get(nats.MsgIdHdr)
	}
	for _, v := range [...]string{in.ID, in.By, in.Reply} {
		if len(v) > maxHeader {
			return fmt.Errorf("%w: a header of %d bytes, at most %d are allowed", ErrMalformed, len(v), maxHeader)
		}
	}
	if !safeReply(in.Reply) {
		in.Reply = ""
	}
	return nil
}

// safeReply keeps whoever may publish an input from making the orchestrator, which
// may do more, publish to the subjects of the server or of Pawl.
func safeReply(s string) bool {
	return s != "" && !strings.HasPrefix(s, "$") && !strings.HasPrefix(s, "pawl.") &&
		!strings.ContainsAny(s, "*> \t\r\n") && !strings.Contains(s, "..") && s[0] != '.' && s[len(s)-1] != '.'
}

func (in *Input) body(h nats.Header, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	t, err := contentType(h)
	if err != nil {
		return err
	}
	in.Payload = history.Payload{Type: t, Data: data}
	return nil
}

func (in *Input) cancelText(h nats.Header, data []byte) error {
	t, err := contentType(h)
	if err != nil || len(data) == 0 {
		return err
	}
	var body cancelBody
	switch {
	case t == history.TypeMsgpack:
		if err := msgpack.Unmarshal(data, &body); err != nil {
			return fmt.Errorf("%w: body of a cancel: %w", ErrMalformed, err)
		}
	case json.Unmarshal(data, &body) == nil:
	case utf8.Valid(data): // nats pub … cancel 'no longer needed'
		body = cancelBody{Text: string(data)}
	default:
		return fmt.Errorf("%w: body of a cancel is neither JSON nor text", ErrMalformed)
	}
	in.Text = body.Text
	if body.By != "" {
		in.By = body.By
	}
	return nil
}

// contentType is the type of the body: JSON unless it is named. A type that Pawl
// does not know travels as it is; decoding it is somebody else's failure.
func contentType(h nats.Header) (string, error) {
	v := h.Get(HeaderContentType)
	if v == "" {
		return history.TypeJSON, nil
	}
	t, _, err := mime.ParseMediaType(v)
	if err != nil || len(t) > maxHeader {
		return "", fmt.Errorf("%w: %s %q", ErrMalformed, HeaderContentType, v)
	}
	switch t {
	case "application/x-msgpack", "application/vnd.msgpack":
		return history.TypeMsgpack, nil
	default:
		return t, nil
	}
}

// positionOf reads where the stream has the message, and the number under which
// the consumer delivered it.
func positionOf(m *nats.Msg) (pos history.Position, delivery uint64, err error) {
	meta, err := m.Metadata()
	if err != nil {
		return history.Position{}, 0, fmt.Errorf("%w: not from a stream: %w", ErrMalformed, err)
	}
	return history.Position{Seq: meta.Sequence.Stream, Time: meta.Timestamp.UnixNano()}, meta.Sequence.Consumer, nil
}
