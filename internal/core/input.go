package core

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// Arrival is an input in transit to an inbox.
type Arrival struct {
	Instance string
	Kind     message.InputKind
	Reply    string
	Force    bool
	Pos      history.Position
	Msg      record.Message
	Ev       Unread
}

// Arrivals appends the inbox elements of an input of the stream: one, or two for a start that carries an event or an update.
func Arrivals(out []Arrival, in message.Input, seal string) ([]Arrival, error) {
	ev, kind, err := event(in)
	if err != nil {
		return out, err
	}
	first := in
	if in.Event != nil && in.Event.Update {
		first.Reply = "" // the reply subject is that of the update
	}
	if out, err = arrive(out, first, ev, kind, seal); err != nil || in.Event == nil {
		return out, err
	}
	if in.Event.Update {
		in.Kind = message.KindUpdate
		return arrive(out, in, updateReceived(in, in.Event.Name, in.Event.Payload), record.UpdateMessage, seal)
	}
	in.Kind, in.Reply = message.KindEvent, ""
	return arrive(out, in, &history.EventReceived{Name: in.Event.Name, Payload: in.Event.Payload, MsgID: in.ID, By: in.By, Headers: in.Headers}, record.OtherMessage, seal)
}

func arrive(out []Arrival, in message.Input, ev history.Event, kind record.MessageKind, seal string) ([]Arrival, error) {
	at := in.Pos.Time / int64(time.Millisecond)
	ev.Meta().At = at
	body, err := eventcodec.Encode(ev)
	if err != nil {
		return out, err
	}
	id := elementID(in) + seal
	return append(out, Arrival{
		Instance: in.Instance, Kind: in.Kind, Reply: in.Reply, Force: in.Force || overtakes(in), Pos: in.Pos, Ev: Unread{ID: id, Ev: ev},
		Msg: record.Message{Instance: in.Instance, ID: seenID(in), Kind: kind, Element: eventcodec.Element{ID: id, At: at, Body: body}.Encode()},
	}), nil
}

// elementID returns the id of an input: its position in the stream, marked with "!" for a start. The scripts read the mark.
func elementID(in message.Input) string {
	b := make([]byte, 0, 48)
	if in.Kind == message.KindStart {
		b = append(b, '!')
	}
	b = append(b, 's')
	b = strconv.AppendUint(b, in.Pos.Seq, 10)
	b = append(b, '.')
	return string(strconv.AppendInt(b, in.Pos.Time, 10))
}

// seenID returns the id by which a repeat of a message is recognized, or "" if it needs none: the sender's id, qualified by the subject
// that the message was published on. Permissions are granted by subject, so a sender without the permission for a message cannot
// suppress it by sending another message under its id. By is not part of the id, because a repeat may come from another process.
//
// Only messages that any client may send need an id. A second start of an instance has no effect anyway, unless it may replace the
// instance, and to remember it would cost a key per instance. Messages between instances about a child are recognized by its effect id,
// and may be requested again; except a termination, because the child may have been retried since.
func seenID(in message.Input) string {
	if in.ID == "" || in.Kind == message.KindStart && in.Reuse == history.ReuseIgnore || in.Kind == message.KindDone || in.Of != "" && in.Kind != message.KindOperate {
		return ""
	}
	name := in.Name
	if in.Event != nil && in.Kind != message.KindStart { // carried by a start; it may be repeated without the start
		name = in.Event.Name
	}
	if in.Kind == message.KindUpdate {
		return effectid.UpdateKey(name, in.ID)
	}
	return in.Sender.String() + "." + in.Kind.String() + "." + name + " " + in.ID
}

func event(in message.Input) (history.Event, record.MessageKind, error) {
	if in.Problem != nil {
		return nil, "", in.Problem
	}
	switch in.Kind {
	case message.KindStart:
		s := &history.Started{
			Name: strings.Clone(in.Name), Version: in.Version, Payload: apart(in.Payload), Origin: in.Pos, Execution: 1, By: strings.Clone(in.By), Parent: in.Parent, Headers: in.Headers,
			Attributes: in.Attrs, StartAt: in.StartAt, Timeout: in.Timeout.Milliseconds(), Reuse: in.Reuse,
		}
		if s.Reuse != history.ReuseIgnore {
			s.MsgID = in.ID
		}
		if s.Timeout > 0 {
			s.Deadline = max(in.Pos.Time/int64(time.Millisecond), s.StartAt) + s.Timeout
		}
		if s.Reuse == history.ReuseIgnore && s.Parent == nil {
			return s, record.PlainStart, nil
		}
		return s, record.StartMessage, nil
	case message.KindEvent:
		return &history.EventReceived{Name: in.Name, Payload: in.Payload, MsgID: in.ID, By: in.By, Headers: in.Headers}, record.OtherMessage, nil
	case message.KindUpdate:
		return updateReceived(in, in.Name, in.Payload), record.UpdateMessage, nil
	case message.KindCancel:
		return &history.CancelRequested{By: in.By, Text: in.Text, Reason: in.Reason, Of: in.Of}, endingKind(in), nil
	case message.KindPurge:
		return &history.PurgeRequested{By: in.By, Text: in.Text, Force: in.Force, Reply: in.Reply, Of: in.Of}, record.CancelMessage, nil
	case message.KindOperate:
		v, _ := history.ParseVerb(in.Name)
		r := &history.OperatorRequested{Verb: v, By: in.By, Text: in.Text, Reply: in.Reply, Stop: in.Operate.Stop, Start: in.Operate.Start, To: in.Operate.To, Of: in.Of}
		return r, endingKind(in), nil
	case message.KindDone:
		return childEnded(in.Done), record.CancelMessage, nil
	default:
		return nil, "", fmt.Errorf("%w: %d", message.ErrUnknownKind, in.Kind)
	}
}

// apart copies a small payload, so that it does not keep the message in memory that it is part of. An instance keeps its start in
// memory, and the headers of the message may be larger than the payload.
func apart(p history.Payload) history.Payload {
	if len(p.Data) <= maxCopied {
		p.Data = bytes.Clone(p.Data)
	}
	return p
}

const maxCopied = 1 << 10

// endingKind returns the kind of a cancellation or an operator request. One that names the start it is for may have overtaken that start,
// so it is kept even if there is no instance.
func endingKind(in message.Input) record.MessageKind {
	if in.Of != "" {
		return record.OtherMessage
	}
	return record.CancelMessage
}

func childEnded(d *message.Done) history.Event {
	if d.Failure != nil {
		return &history.ChildFailed{Scheduled: d.Scheduled, Effect: d.Effect, Failure: *d.Failure}
	}
	return &history.ChildCompleted{Scheduled: d.Scheduled, Effect: d.Effect, Result: d.Result}
}
