package transport

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/wire"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

func packed(data string) history.Payload {
	return history.Payload{Type: "application/x-protobuf", Data: []byte(data)}
}

func jsonOf(data string) history.Payload {
	return history.Payload{Type: history.TypeJSON, Data: []byte(data)}
}

func parent() *history.Parent {
	return &history.Parent{Instance: "order-42@eu=1", Origin: history.Position{Seq: 7, Time: 1_790_000_000_123_456_789}, Execution: 2, Event: 17, Effect: "kq3vVYb2hA7rTn0cXw9dLw", Depth: 4, AncestorMarks: "a,b"}
}

// asRead returns the input that must be read after in was published.
func asRead(t *testing.T, o message.OutInput, pos history.Position) message.Input {
	t.Helper()
	_, body, err := outgoing{&o}.message()
	ok(t, err)
	return message.Input{
		Pos: pos, Size: len(body), Sender: o.Sender, Instance: o.Instance, Kind: o.Kind, Name: o.Name, Payload: o.Payload, ID: o.ID, Reply: o.Reply, By: o.By, Text: o.Text,
		Version: o.Version, Parent: o.Parent, Event: o.Event, Of: o.Of, Reason: o.Reason, Done: o.Done,
	}
}

// readAll returns all inputs of the only partition.
func readAll(t *testing.T, c *Conn, n int) []message.Input {
	t.Helper()
	in, _ := readAfter(t, c, history.Position{}, n)
	return in
}

func TestMessagesBetweenInstancesRoundTrip(t *testing.T) {
	c := newHarness(t).open(Options{Partitions: 1})
	largest := strings.Repeat("x", MaxPayload)
	failure := &history.Failure{Code: "card-declined", Message: strings.Repeat("m", 8<<10), Data: packed(largest), Stack: "s", Also: []string{"a"}}
	sent := []message.OutInput{
		{Instance: "c", Kind: message.KindStart, Name: "ship", Payload: packed("in"), Version: "v1.2", Parent: parent(), ID: "m", By: "order-42"},
		{Instance: "c", Kind: message.KindCancel, Of: "kq3vVYb2hA7rTn0cXw9dLw", Reason: cancel.ScopeEnded, By: "order-42", Text: "no longer needed"},
		{Instance: "c", Kind: message.KindCancel, Of: "e"},
		{Instance: "c", Kind: message.KindOperate, Name: "terminate", Of: "e", ID: "e"},
		{Instance: "p", Kind: message.KindDone, Done: &message.Done{Scheduled: 17, Effect: "e", Result: packed(largest)}},
		{Instance: "p", Kind: message.KindDone, Done: &message.Done{Scheduled: 17, Effect: "e", Failure: failure}, By: "c"},
		{Instance: "p", Kind: message.KindDone, Done: &message.Done{Scheduled: 1, Effect: "e"}},
	}
	for i := range sent {
		sent[i].Sender = message.SenderOrchestrator
		_, err := c.PublishInput(soon(t), sent[i])
		ok(t, err)
	}
	for i, in := range readAll(t, c, len(sent)) {
		if want := asRead(t, sent[i], in.Pos); !reflect.DeepEqual(in, want) {
			t.Errorf("input %d: got %+.300v, want %+.300v", i, in, want)
		}
	}
}

func TestStartCarriesItsEventInTheSameMessage(t *testing.T) {
	c := newHarness(t).open(Options{Partitions: 1})
	start := func(in history.Payload, event history.Payload) message.OutInput {
		return message.OutInput{Instance: "t-1", Kind: message.KindStart, Name: "tenant", Payload: in, Event: &message.OutEvent{Name: "paid.in-full", Payload: event}, ID: "m"}
	}
	var none history.Payload
	sent := []message.OutInput{
		start(packed("input"), packed("event")),
		start(packed("input"), jsonOf(`{"paid":3}`)),
		start(jsonOf(`{"plan":"x"}`), packed("event")),
		start(none, packed("event")),
		start(none, jsonOf("3")),
		start(packed("input"), none),
		start(none, none),
		start(packed(strings.Repeat("i", MaxPayload)), packed(strings.Repeat("e", MaxPayload-1000))),
	}
	for _, in := range sent {
		_, err := c.PublishInput(soon(t), in)
		ok(t, err)
	}
	for i, in := range readAll(t, c, len(sent)) {
		if want := asRead(t, sent[i], in.Pos); !reflect.DeepEqual(in, want) {
			t.Errorf("start %d: got %+.300v with %+.300v", i, in, in.Event)
		}
	}
}

func TestErrorNamesInputAndEventThatExceedOneMessage(t *testing.T) {
	c := newHarness(t).open(Options{Partitions: 1})
	full := packed(strings.Repeat("x", MaxPayload))
	_, err := c.PublishInput(soon(t), message.OutInput{Instance: "t-1", Kind: message.KindStart, Name: "tenant", Payload: full, Event: &message.OutEvent{Name: "paid", Payload: full}})
	if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "t-1") || !strings.Contains(err.Error(), "paid of 524288 bytes") || !strings.Contains(err.Error(), "takes 1048576") {
		t.Fatal(err)
	}
}

func TestStartOfAnyClientMayCarryAnEvent(t *testing.T) {
	c := newHarness(t).open(Options{Partitions: 1})
	for _, k := range []struct {
		header nats.Header
		body   string
		input  history.Payload
		event  *message.OutEvent
	}{
		{nats.Header{"Pawl-Event": {"paid"}}, `{"paid":3}`, history.Payload{}, &message.OutEvent{Name: "paid", Payload: jsonOf(`{"paid":3}`)}},
		{nats.Header{"Pawl-Event": {"paid"}}, "", history.Payload{}, &message.OutEvent{Name: "paid"}},
		{nats.Header{"Pawl-Event": {"paid"}, "Pawl-Split": {"4"}}, `"in"3`, jsonOf(`"in"`), &message.OutEvent{Name: "paid", Payload: jsonOf(`3`)}},
		{nats.Header{"Pawl-Event": {"paid"}, "Pawl-Split": {"0"}, "Content-Type": {"text/plain"}}, "yes", history.Payload{}, &message.OutEvent{Name: "paid", Payload: history.Payload{Type: "text/plain", Data: []byte("yes")}}},
		{nats.Header{"Pawl-Event": {"paid"}, "Pawl-Split": {"2"}, "Pawl-Event-Type": {"application/x-protobuf"}}, "12\x03", jsonOf("12"), &message.OutEvent{Name: "paid", Payload: packed("\x03")}},
		{nats.Header{}, "1", jsonOf("1"), nil},
	} {
		m := nats.NewMsg("pawl.default.in.0.to.t-1.start.tenant")
		m.Header, m.Data = k.header, []byte(k.body)
		in := decodeInput(m, c.subj.root, history.Position{Seq: 1})
		if in.Problem != nil || !reflect.DeepEqual(in.Payload, k.input) || !reflect.DeepEqual(in.Event, k.event) {
			t.Errorf("%v %q: %+v, event %+v", k.header, k.body, in, in.Event)
		}
	}
	// The example in the documentation of the package, sent to a server.
	m := nats.NewMsg("pawl.default.to.t-1.start.tenant")
	m.Header.Set("Pawl-Event", "paid")
	m.Data = []byte(`{"paid":3}`)
	_, err := c.nc.RequestMsg(m, time.Minute)
	ok(t, err)
	in := readAll(t, c, 1)[0]
	if in.Problem != nil || in.Event == nil || string(in.Event.Payload.Data) != `{"paid":3}` || in.Payload.Data != nil {
		t.Fatalf("%+v", in)
	}
}

func TestMalformedParentIsAProblemOfTheInput(t *testing.T) {
	root := subjectsOf("default").root
	long := strings.Repeat("x", MaxPayload+1)
	newer := wire.Encode(doneFields(&message.Done{Scheduled: 1, Effect: "e"}))
	newer[1] = 2
	for _, k := range []struct {
		subject, header, value, body string
		want                         error
	}{
		{subject: "start.x", header: "Pawl-Parent", value: "order-42", want: ErrMalformed},
		{subject: "start.x", header: "Pawl-Parent", value: "order-42 1 2 3 4 e 1 - f", want: ErrMalformed},
		{subject: "start.x", header: "Pawl-Parent", value: "order-42 1 2 3 four e 1 -", want: ErrMalformed},
		{subject: "start.x", header: "Pawl-Parent", value: "order-42 -1 2 3 4 e 1 -", want: ErrMalformed},
		{subject: "start.x", header: "Pawl-Parent", value: "order-42 1 2 0 4 e 1 -", want: ErrMalformed},
		{subject: "start.x", header: "Pawl-Parent", value: "order-42 1 -2 3 4 e 1 -", want: ErrMalformed},
		{subject: "start.x", header: "Pawl-Parent", value: "order-42 0 2 3 4 e 1 -", want: ErrMalformed},
		{subject: "start.x", header: "Pawl-Parent", value: "order-42 1 2 3 0 e 1 -", want: ErrMalformed},
		{subject: "start.x", header: "Pawl-Parent", value: "order-42 1 2 3 4 " + long[:maxEffect+1] + " 1 -", want: ErrMalformed},
		{subject: "start.x", header: "Pawl-Parent", value: "order-42 1 2 3 4 e x -", want: ErrMalformed},
		{subject: "start.x", header: "Pawl-Parent", value: "a,b 1 2 3 4 e 1 -", want: ErrBadInstance},
		{subject: "start.x", header: "Pawl-Orchestration-Version", value: "v 1", want: ErrBadName},
		{subject: "start.x", header: "Pawl-Orchestration-Version", value: long[:maxVersion+1], want: ErrBadName},
		{subject: "start.x", header: "Pawl-Event", value: "paid!", want: ErrBadName},
		{subject: "start.x", header: "Pawl-Event", value: "paid", body: long, want: ErrTooLarge},
		{subject: "start.x", header: "Pawl-Split", value: "1", body: "12", want: ErrMalformed},
		{subject: "start.x", body: long, want: ErrTooLarge},
		{subject: "cancel", header: "Pawl-Of", value: "an effect", want: ErrMalformed},
		{subject: "cancel", body: long, want: ErrTooLarge},
		{subject: "done", want: ErrMalformed},
		{subject: "done", body: `{"scheduled":1}`, want: ErrMalformed},
		{subject: "done", body: string(wire.Encode(doneFields(&message.Done{Effect: "e"}))), want: ErrMalformed},
		{subject: "done", body: string(wire.Encode(doneFields(&message.Done{Scheduled: 1}))), want: ErrMalformed},
		{subject: "done", body: string(wire.Encode(doneFields(&message.Done{Scheduled: 1, Effect: "e", Result: packed(long)}))), want: ErrTooLarge},
		{subject: "done", body: long + long, want: ErrTooLarge},
		{subject: "done", body: string(newer), want: ErrNewer},
		{subject: "done.x", want: ErrBadName},
		{subject: "cancel.now", want: ErrBadName},
		{subject: "start", want: ErrBadName},
		{subject: "frobnicate.x", want: ErrUnknownKind},
	} {
		m := nats.NewMsg(root + "in.0.own.a." + k.subject)
		if k.header != "" {
			m.Header.Set(k.header, k.value)
		}
		m.Data = []byte(k.body)
		in := decodeInput(m, root, history.Position{Seq: 9})
		if !errors.Is(in.Problem, k.want) || in.Pos.Seq != 9 || in.Done != nil || in.Parent != nil || in.Event != nil {
			t.Errorf("%s %s %.30q: %v, want %v", k.subject, k.header, k.value, in.Problem, k.want)
		}
	}
	for _, split := range []string{"x", "-1", "3", "1.5", "99999999999999999999"} {
		m := nats.NewMsg(root + "in.0.own.a.start.x")
		m.Header.Set(HeaderEvent, "paid")
		m.Header.Set(HeaderSplit, split)
		m.Data = []byte("12")
		if in := decodeInput(m, root, history.Position{}); !errors.Is(in.Problem, ErrMalformed) {
			t.Errorf("split %s: %v", split, in.Problem)
		}
	}
}

// A newer build that has more reasons than this one must still be able to cancel.
func TestCancelOfAnUnknownReasonIsACancel(t *testing.T) {
	root := subjectsOf("default").root
	m := nats.NewMsg(root + "in.0.own.a.cancel")
	m.Header.Set(HeaderReason, "bored")
	m.Header.Set(HeaderOf, "e")
	if in := decodeInput(m, root, history.Position{}); in.Problem != nil || in.Reason != 0 || in.Of != "e" {
		t.Fatalf("%+v", in)
	}
}

// Children are cancelled with the same text, in messages that must not be rejected.
func TestCancelWithALongTextIsNotLost(t *testing.T) {
	root := subjectsOf("default").root
	long := strings.Repeat("ü", maxText)
	read := func(o message.OutInput) message.Input {
		ok(t, outgoing{&o}.check())
		h, body, err := outgoing{&o}.message()
		ok(t, err)
		m := nats.NewMsg(root + "in.0.own.a.cancel")
		m.Header, m.Data = h, body
		return decodeInput(m, root, history.Position{})
	}
	m := nats.NewMsg(root + "in.0.own.a.cancel")
	m.Data = []byte(`{"text":"` + long + `","by":"two\nlines ` + long + `"}`)
	in := decodeInput(m, root, history.Position{})
	if in.Problem != nil || in.Text != long[:maxText] || len(in.By) > maxHeader || !strings.HasPrefix(in.By, "two lines ü") {
		t.Fatalf("%v, %d bytes by %s", in.Problem, len(in.Text), in.By)
	}
	for _, text := range []string{in.Text, long, strings.Repeat("\x00", MaxPayload)} {
		got := read(message.OutInput{Sender: message.SenderOrchestrator, Instance: "a", Kind: message.KindCancel, Of: "e", By: in.By, Text: text})
		if got.Problem != nil || got.By != in.By || got.Text != text[:maxText] {
			t.Errorf("%v, %d bytes by %s", got.Problem, len(got.Text), got.By)
		}
	}
}

func TestInputThatReadersWouldRejectIsNotSent(t *testing.T) {
	c := newHarness(t).open(Options{})
	long := strings.Repeat("x", MaxPayload+1)
	start := func(change func(*message.OutInput)) message.OutInput {
		o := message.OutInput{Sender: message.SenderOrchestrator, Instance: "a", Kind: message.KindStart, Name: "x"}
		change(&o)
		return o
	}
	done := func(d *message.Done) message.OutInput {
		return message.OutInput{Sender: message.SenderOrchestrator, Instance: "a", Kind: message.KindDone, Done: d}
	}
	for i, k := range []struct {
		in   message.OutInput
		want error
	}{
		{start(func(o *message.OutInput) { o.Version = "v 1" }), ErrBadName},
		{start(func(o *message.OutInput) { o.Version = long[:maxVersion+1] }), ErrBadName},
		{start(func(o *message.OutInput) { o.Parent = &history.Parent{} }), ErrBadInstance},
		{start(func(o *message.OutInput) { o.Parent = parent(); o.Parent.Effect = "a b" }), ErrMalformed},
		{start(func(o *message.OutInput) { o.Event = &message.OutEvent{Name: "a b"} }), ErrBadName},
		{start(func(o *message.OutInput) { o.Event = &message.OutEvent{Name: "paid", Payload: packed(long)} }), ErrTooLarge},
		{start(func(o *message.OutInput) {
			o.Event = &message.OutEvent{Name: "paid", Payload: history.Payload{Data: []byte("1")}}
		}), ErrMalformed},
		{message.OutInput{Sender: message.SenderOrchestrator, Instance: "a", Kind: message.KindCancel, Of: "a\r\nb"}, ErrMalformed},
		{done(nil), ErrMalformed},
		{done(&message.Done{Effect: "e"}), ErrMalformed},
		{done(&message.Done{Scheduled: 1}), ErrMalformed},
		{done(&message.Done{Scheduled: 1, Effect: "e", Result: packed(long)}), ErrTooLarge},
		{done(&message.Done{Scheduled: 1, Effect: "e", Failure: &history.Failure{Data: packed(long)}}), ErrTooLarge},
		{done(&message.Done{Scheduled: 1, Effect: "e", Failure: &history.Failure{Message: long + long}}), ErrTooLarge},
		{message.OutInput{Sender: message.SenderOrchestrator, Instance: "a", Kind: message.KindDone, Name: "x", Done: &message.Done{Scheduled: 1, Effect: "e"}}, ErrBadName},
	} {
		if _, err := c.PublishInput(soon(t), k.in); !errors.Is(err, k.want) {
			t.Errorf("%d: %.200v, want %v", i, err, k.want)
		}
	}
}

// instanceIDs draws valid ids, most of which contain dots.
func instanceIDs() *rapid.Generator[string] {
	return rapid.StringMatching(`[A-Za-z0-9_:@=+~%-]{1,99}(\.{0,2}[A-Za-z0-9_:@=+~%-]{1,99})?`)
}

func TestSubjectsOfInstancesAreReversibleAndDistinct(t *testing.T) {
	root := subjectsOf("default")
	rapid.Check(t, func(t *rapid.T) {
		id, other := instanceIDs().Draw(t, "id"), rapid.OneOf(instanceIDs(), rapid.SampledFrom([]string{"a.event.b", "a,b", "a.b", "a"})).Draw(t, "other")
		subject := root.input(message.SenderClient, id, message.KindEvent, "x.y")
		var in message.Input
		err := (incoming{&in}).read(&nats.Msg{Subject: strings.Replace(subject, "default.", "default.in.7.", 1)}, "pawl.default.")
		if err != nil || in.Instance != id || in.Kind != message.KindEvent || in.Name != "x.y" {
			t.Fatalf("%s: %+v %v", subject, in, err)
		}
		if tokens := strings.Split(root.result(id), "."); len(tokens) != 4 || !strings.Contains(id, ".") && tokens[3] != id {
			t.Fatalf("%q became %q", id, tokens)
		}
		for _, of := range []func(string) string{root.change, root.ended, root.result} {
			if id != other && CheckInstance(other) == nil && of(id) == of(other) {
				t.Fatalf("%q and %q share %s", id, other, of(id))
			}
		}
	})
}

func TestParentHeaderRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := &history.Parent{
			Instance: instanceIDs().Draw(t, "instance"), Origin: history.Position{Seq: rapid.Uint64Min(1).Draw(t, "seq"), Time: rapid.Int64Min(1).Draw(t, "time")},
			Execution: rapid.Uint64Min(1).Draw(t, "execution"), Event: rapid.Uint64Min(1).Draw(t, "event"), Effect: rapid.StringMatching(`[!-~]{1,100}`).Draw(t, "effect"),
			Depth: rapid.Uint64().Draw(t, "depth"), AncestorMarks: rapid.StringMatching(`([A-Za-z0-9_-]{11}(,[A-Za-z0-9_-]{11}){0,9})?`).Filter(func(s string) bool { return s != "-" }).Draw(t, "ancestors"),
		}
		got, err := parseParent(parentText(want))
		if err != nil || *got != *want {
			t.Fatalf("%+v %v", got, err)
		}
	})
}

func TestLimitsOfAncestorsAreASeparateHeader(t *testing.T) {
	c := newHarness(t).open(Options{})
	parent := func(holds string) *history.Parent {
		return &history.Parent{Instance: "a", Origin: history.Position{Seq: 1, Time: 2}, Execution: 1, Event: 2, Effect: "e", HeldLimits: holds}
	}
	pair := "charge/" + strings.Repeat("x", 30) + "=t "
	many := strings.Repeat(pair, 300)
	for _, holds := range []string{"", "charge/acme=t1 nap=t2", many} {
		_, err := c.PublishInput(soon(t), message.OutInput{Sender: message.SenderOrchestrator, Instance: "b", Kind: message.KindStart, Name: "n", Parent: parent(holds)})
		ok(t, err)
	}
	for _, odd := range []string{"charge=t1\tnap=t2", "\x7f"} {
		_, err := c.nc.RequestMsg(&nats.Msg{Subject: "pawl.default.own.b.start.n", Header: nats.Header{HeaderParent: {parentText(parent(""))}, HeaderHolds: {odd}}}, time.Minute)
		ok(t, err)
	}
	r, err := c.Attach(soon(t), c.PartitionOf("b"), history.Position{})
	ok(t, err)
	defer r.Stop()
	want := []string{"", "charge/acme=t1 nap=t2", strings.TrimSpace(many[:maxHolds/len(pair)*len(pair)]), "", ""}
	for i, in := range read(t, r, len(want)) {
		if in.Problem != nil || in.Parent == nil || *in.Parent != *parent(want[i]) {
			t.Errorf("%d: %+v, %v", i, in.Parent, in.Problem)
		}
	}
	if text := parentText(parent("charge=t1")); len(strings.Fields(text)) != 8 {
		t.Errorf("the header must have eight parts, but has %q", text)
	}
}
