package transport

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
)

// An owner decodes exactly what the client encodes, alone and with a start; an update is for clients only.
func TestUpdateRoundTrips(t *testing.T) {
	root := subjectsOf("default").root
	pos := history.Position{Seq: 7, Time: int64(90 * time.Second)}
	for _, sent := range []message.OutInput{
		{Instance: "a", Kind: message.KindUpdate, Name: "approve", Payload: jsonOf("1"), ID: "k 1", Reply: "_INBOX.x.y", By: "ops", Deadline: 10 * time.Second},
		{Instance: "a", Kind: message.KindUpdate, Name: "approve", ID: "k"},
		{Instance: "a", Kind: message.KindStart, Name: "tenant", Payload: jsonOf(`"in"`), ID: "k", Deadline: time.Minute, Event: &message.OutEvent{Name: "approve", Payload: jsonOf("1"), Update: true}},
	} {
		if err := (outgoing{&sent}).check(); err != nil {
			t.Fatal(err)
		}
		header, body, err := (outgoing{&sent}).message()
		ok(t, err)
		m := &nats.Msg{Subject: root + "in.0.to.a." + sent.Kind.String() + "." + sent.Name, Header: header, Data: body}
		in := decodeInput(m, root, pos)
		want := message.Input{
			Pos: pos, Size: len(body), Instance: "a", Kind: sent.Kind, Name: sent.Name, Payload: sent.Payload, ID: sent.ID, Reply: sent.Reply, By: sent.By, Event: sent.Event,
		}
		if sent.Deadline > 0 {
			want.Deadline = 90_000 + sent.Deadline.Milliseconds()
		}
		if !reflect.DeepEqual(in, want) {
			t.Errorf("got %+v, want %+v", in, want)
		}
	}
	if err := (outgoing{&message.OutInput{Instance: "a", Sender: message.SenderOrchestrator, Kind: message.KindUpdate, Name: "approve", ID: "k"}}).check(); !errors.Is(err, ErrUnknownKind) {
		t.Errorf("an update from an orchestrator: %v", err)
	}
}

func TestHeadersOfAnUpdateAreReadFromAnyPublisher(t *testing.T) {
	root := subjectsOf("default").root
	for _, k := range []struct {
		kind, key, value string
		id               string
		deadline         int64
		want             error
	}{
		{"update.approve", "By", "x", "#7.9000000000", 0, nil}, // irrelevant for an update
		{"update.approve", HeaderID, "k", "k", 0, nil},
		{"update.approve", nats.MsgIdHdr, "k", "k", 0, nil},
		{"update.approve", HeaderID, "#7.9000000000", "#7.9000000000", 0, ErrMalformed}, // an id of the form reserved for Pawl
		{"update.approve", HeaderID, strings.Repeat("k", maxUpdateID+1), strings.Repeat("k", maxUpdateID+1), 0, ErrMalformed},
		{"update.approve", HeaderID, "a\x00b", "a\x00b", 0, ErrMalformed},
		{"update.approve", HeaderDeadline, "30s", "#7.9000000000", 39_000, nil},
		{"update.approve", HeaderDeadline, "2026-01-02T03:04:05Z", "#7.9000000000", 1767323045000, nil},
		{"update.approve", HeaderDeadline, "-30s", "#7.9000000000", 0, ErrMalformed},
		{"update.approve", HeaderDeadline, "soon", "#7.9000000000", 0, ErrMalformed},
		{"update", HeaderID, "k", "", 0, ErrBadName},
		{"start.tenant", HeaderUpdate, "approve", "#7.9000000000", 0, nil},
		{"start.tenant", HeaderUpdate, "approve!", "#7.9000000000", 0, ErrBadName},
	} {
		m := nats.NewMsg(root + "in.0.to.a." + k.kind)
		m.Header.Set(k.key, k.value)
		in := decodeInput(m, root, history.Position{Seq: 7, Time: 9_000_000_000})
		if !errors.Is(in.Problem, k.want) || in.ID != k.id || in.Deadline != k.deadline {
			t.Errorf("%s with %s %.40q: id %.40q, deadline %d, problem %v", k.kind, k.key, k.value, in.ID, in.Deadline, in.Problem)
		}
	}
	m := nats.NewMsg(root + "in.0.to.a.start.tenant")
	m.Header.Set(HeaderUpdate, "approve")
	m.Header.Set(HeaderEvent, "paid")
	if in := decodeInput(m, root, history.Position{Seq: 7}); !errors.Is(in.Problem, ErrMalformed) {
		t.Errorf("a start with an event and an update: %v", in.Problem)
	}
}
