package core

import (
	"fmt"
	"strconv"
	"time"

	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/pkg/queue"
)

// Arrival is an input on its way into an inbox.
type Arrival struct {
	Instance string
	Kind     queue.InputKind
	Reply    string
	Force    bool
	Pos      history.Position
	Msg      store.Message
	Ev       Unread
}

// Arrivals makes of an input of the stream what goes into the inbox of its instance: one element, or two for a start that brings an event.
func Arrivals(out []Arrival, in queue.Input, seal string) ([]Arrival, error) {
	ev, kind, err := event(in)
	if err != nil {
		return out, err
	}
	if out, err = arrive(out, in, ev, kind, seal); err != nil || in.Event == nil {
		return out, err
	}
	in.Kind, in.Reply = queue.KindEvent, ""
	return arrive(out, in, &history.EventReceived{Name: in.Event.Name, Payload: in.Event.Payload, MsgID: in.ID, By: in.By}, store.OtherMessage, seal)
}

func arrive(out []Arrival, in queue.Input, ev history.Event, kind store.MessageKind, seal string) ([]Arrival, error) {
	at := in.Pos.Time / int64(time.Millisecond)
	ev.Meta().At = at
	body, err := history.Encode(ev)
	if err != nil {
		return out, err
	}
	id := elementID(in) + seal
	return append(out, Arrival{
		Instance: in.Instance, Kind: in.Kind, Reply: in.Reply, Force: in.Force, Pos: in.Pos, Ev: Unread{ID: id, Ev: ev},
		Msg: store.Message{Instance: in.Instance, ID: seenID(in), Kind: kind, Element: history.Element{ID: id, At: at, Body: body}.Encode()},
	}), nil
}

// elementID names an input by its place in the stream. The mark of a start is read by ingest.lua.
func elementID(in queue.Input) string {
	b := make([]byte, 0, 48)
	if in.Kind == queue.KindStart {
		b = append(b, '!')
	}
	b = append(b, 's')
	b = strconv.AppendUint(b, in.Pos.Seq, 10)
	b = append(b, '.')
	return string(strconv.AppendInt(b, in.Pos.Time, 10))
}

// seenID is the id by which a repeat is recognized: what the sender calls the message, within the subject that it was published
// on. Permissions are granted by subject, so a sender without the permission for a message cannot suppress it by sending another one
// under its id. Two messages of one subject have one id only if they are one message: By is not a part, for a repeat may come
// from another process.
//
// Only what anybody sends needs one. A second start of
// the same instance has no effect anyway, and to remember it would cost a key per instance; and what
// instances tell each other about a child is recognised by its effect id, and may be asked for again.
func seenID(in queue.Input) string {
	if in.ID == "" || in.Kind == queue.KindStart || in.Kind == queue.KindDone || in.Of != "" {
		return ""
	}
	name := in.Name
	if in.Event != nil { // it came with a start, and may come again by itself
		name = in.Event.Name
	}
	return in.Sender.String() + "." + in.Kind.String() + "." + name + " " + in.ID
}

func event(in queue.Input) (history.Event, store.MessageKind, error) {
	if in.Problem != nil {
		return nil, "", in.Problem
	}
	switch in.Kind {
	case queue.KindStart:
		return &history.Started{
			Name: in.Name, Version: in.Version, Payload: in.Payload, Origin: in.Pos, Execution: 1, By: in.By, Parent: in.Parent,
		}, store.StartMessage, nil
	case queue.KindEvent:
		return &history.EventReceived{Name: in.Name, Payload: in.Payload, MsgID: in.ID, By: in.By}, store.OtherMessage, nil
	case queue.KindCancel:
		kind := store.CancelMessage
		if in.Of != "" { // it names the start that it takes back, and may have overtaken it
			kind = store.OtherMessage
		}
		return &history.CancelRequested{By: in.By, Text: in.Text, Reason: in.Reason, Of: in.Of}, kind, nil
	case queue.KindPurge:
		return &history.PurgeRequested{By: in.By, Text: in.Text, Force: in.Force, Reply: in.Reply}, store.CancelMessage, nil
	case queue.KindDone:
		return childEnded(in.Done), store.CancelMessage, nil
	default:
		return nil, "", fmt.Errorf("%w: %d", queue.ErrUnknownKind, in.Kind)
	}
}

func childEnded(d *queue.Done) history.Event {
	if d.Failure != nil {
		return &history.ChildFailed{Scheduled: d.Scheduled, Effect: d.Effect, Failure: *d.Failure}
	}
	return &history.ChildCompleted{Scheduled: d.Scheduled, Effect: d.Effect, Result: d.Result}
}
