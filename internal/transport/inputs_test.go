package transport

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestServerAndClientComputeTheSamePartition(t *testing.T) {
	c := newHarness(t).open(Options{Partitions: 64})
	const alphabet = "ABCxyz019_:@=+~%-"
	ids := []string{"a", "order-42", "%25~x", strings.Repeat("z", 200), "order.42", "a..b", "a.event.e", "%2Ea.b"}
	for range 300 {
		id := make([]byte, 1+rand.IntN(40))
		for i := range id {
			id[i] = alphabet[rand.IntN(len(alphabet))]
		}
		ids = append(ids, string(id))
	}
	stream, err := c.js.Stream(soon(t), c.inputs.Name)
	ok(t, err)
	for _, id := range ids {
		seq, err := c.PublishInput(soon(t), event(id, "e", `1`))
		ok(t, err)
		m, err := stream.GetMsg(soon(t), seq)
		ok(t, err)
		if want := fmt.Sprintf("pawl.default.in.%d.to.%s.event.e", c.PartitionOf(id), strings.ReplaceAll(id, ".", ",")); m.Subject != want {
			t.Fatalf("stored under %s, want %s", m.Subject, want)
		}
	}
}

func TestInputsArriveInOrderWithAllFields(t *testing.T) {
	c := newHarness(t).open(Options{Partitions: 1})
	ctx := soon(t)
	sent := []message.OutInput{
		{Instance: "i", Kind: message.KindStart, Name: "fulfil.order", Payload: history.Payload{Type: history.TypeJSON, Data: []byte("null")}, ID: "m1", Reply: "_INBOX.x.1", By: "me"},
		event("i", "approved.by.all", `{"by":"finance"}`),
		{Instance: "i", Kind: message.KindCancel, ID: "m3", By: "you", Text: "no longer"},
		{Instance: "i", Kind: message.KindCancel},
	}
	for _, in := range sent {
		_, err := c.PublishInput(ctx, in)
		ok(t, err)
	}
	r, err := c.Attach(ctx, 0, history.Position{})
	ok(t, err)
	defer r.Stop()
	for i, in := range read(t, r, len(sent)) {
		want := sent[i]
		if in.Problem != nil || in.Instance != "i" || in.Kind != want.Kind || in.Name != want.Name || in.ID != want.ID || in.Reply != want.Reply ||
			in.By != want.By || in.Text != want.Text || in.Payload.Type != want.Payload.Type || !bytes.Equal(in.Payload.Data, want.Payload.Data) {
			t.Errorf("got %+v, want %+v", in, want)
		}
		if in.Pos.Seq != uint64(i+1) || in.Pos.Time == 0 {
			t.Errorf("position %+v", in.Pos)
		}
	}
}

func TestInputsRequireOnlyASubject(t *testing.T) {
	c := newHarness(t).open(Options{Partitions: 1})
	long := strings.Repeat("x", MaxPayload+1)
	cases := []struct {
		subject string
		header  nats.Header
		body    string
		want    message.Input
		problem error
	}{
		{subject: "a.event.ok", body: `{"x":1}`, want: message.Input{Kind: message.KindEvent, Name: "ok", Payload: history.Payload{Type: history.TypeJSON, Data: []byte(`{"x":1}`)}}},
		{subject: "a.event.empty", want: message.Input{Kind: message.KindEvent, Name: "empty"}},
		{subject: "a.event.typed", header: nats.Header{"Content-Type": {"Application/JSON; charset=utf-8"}}, body: "1", want: message.Input{Kind: message.KindEvent, Name: "typed", Payload: history.Payload{Type: history.TypeJSON, Data: []byte("1")}}},
		{subject: "a.event.id", header: nats.Header{"Nats-Msg-Id": {"n1"}}, want: message.Input{Kind: message.KindEvent, Name: "id", ID: "n1"}},
		{subject: "a.event.spoof", header: nats.Header{"Status": {"409"}}, want: message.Input{Kind: message.KindEvent, Name: "spoof"}},
		{subject: "a.event.deputy", header: nats.Header{"Pawl-Reply": {"$JS.API.STREAM.DELETE.X"}}, want: message.Input{Kind: message.KindEvent, Name: "deputy"}},
		{subject: "a.cancel", body: "stop it, please", want: message.Input{Kind: message.KindCancel, Text: "stop it, please"}},
		{subject: "a.cancel", body: `{"text":"t","by":"b"}`, want: message.Input{Kind: message.KindCancel, Text: "t", By: "b"}},
		{subject: "a.event.b!d", problem: ErrBadName},
		{subject: "ü.event.x", problem: ErrBadInstance},
		{subject: ",a.event.x", problem: ErrBadInstance},
		{subject: "a.event.large", body: long, problem: ErrTooLarge},
		{subject: "a.event.new", header: nats.Header{"Pawl-Version": {"2"}}, problem: ErrNewer},
		{subject: "a.event.new", header: nats.Header{"Pawl-Version": {"x"}}, problem: ErrMalformed},
		{subject: "a.cancel", body: "\xff\xfe", problem: ErrMalformed},
		{subject: "a.event.type", header: nats.Header{"Content-Type": {";;"}}, body: "x", problem: ErrMalformed},
		{subject: "a.event.last", want: message.Input{Kind: message.KindEvent, Name: "last"}},
	}
	for _, k := range cases {
		_, err := c.nc.RequestMsg(&nats.Msg{Subject: "pawl.default.to." + k.subject, Header: k.header, Data: []byte(k.body)}, time.Minute)
		ok(t, err)
	}
	r, err := c.Attach(soon(t), 0, history.Position{})
	ok(t, err)
	defer r.Stop()
	for i, in := range read(t, r, len(cases)) {
		k := cases[i]
		if k.problem != nil {
			if !errors.Is(in.Problem, k.problem) {
				t.Errorf("%s: problem %v, want %v", k.subject, in.Problem, k.problem)
			}
			continue
		}
		w := k.want
		if in.Problem != nil || in.Instance != "a" || in.Kind != w.Kind || in.Name != w.Name || in.ID != w.ID || in.By != w.By || in.Text != w.Text ||
			in.Reply != "" || in.Payload.Type != w.Payload.Type || !bytes.Equal(in.Payload.Data, w.Payload.Data) {
			t.Errorf("%s: got %+v", k.subject, in)
		}
	}
}

func TestPublishWithoutAKindIsNotAccepted(t *testing.T) {
	c := newHarness(t).open(Options{})
	for _, subject := range []string{"pawl.default.to.a", "pawl.default.to", "pawl.other.to.a.event.x"} {
		if _, err := c.nc.Request(subject, nil, time.Minute); !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("%s: %v", subject, err)
		}
	}
}

func TestInvalidInputIsRejectedBeforeItIsSent(t *testing.T) {
	c := newHarness(t).open(Options{})
	for _, k := range []struct {
		in   message.OutInput
		want error
	}{
		{event("", "x", "1"), ErrBadInstance},
		{event("a,b", "x", "1"), ErrBadInstance},
		{event("a.", "x", "1"), ErrBadInstance},
		{event(strings.Repeat("a", 201), "x", "1"), ErrBadInstance},
		{event("a", "", "1"), ErrBadName},
		{event("a", "x..y", "1"), ErrBadName},
		{event("a", "x y", "1"), ErrBadName},
		{message.OutInput{Instance: "a", Kind: 9}, ErrUnknownKind},
		{message.OutInput{Instance: "a", Kind: message.KindCancel, Name: "x"}, ErrBadName},
		{event("a", "x", strings.Repeat("1", MaxPayload+1)), ErrTooLarge},
		{message.OutInput{Instance: "a", Kind: message.KindEvent, Name: "x", Payload: history.Payload{Data: []byte("1")}}, ErrMalformed},
		{message.OutInput{Instance: "a", Kind: message.KindEvent, Name: "x", ID: "a\r\nb"}, ErrMalformed},
	} {
		if _, err := c.PublishInput(soon(t), k.in); !errors.Is(err, k.want) {
			t.Errorf("%+v: %v, want %v", k.in, err, k.want)
		}
	}
}

// Trap: a stream that accepts every subject, every size and any number of bytes.
func TestStreamsAcceptOnlyKnownKindsAndSizes(t *testing.T) {
	s := newHarness(t)
	old := s.open(Options{}) // with the settings of an earlier build
	config := inputsConfig(old.opts, old.subj)
	config.Subjects, config.MaxBytes, config.MaxMsgSize = []string{old.subj.root + "to.*.>"}, -1, -1
	_, err := old.js.UpdateStream(soon(t), config)
	ok(t, err)
	c := s.open(Options{InputsMaxBytes: 64 << 20})
	stream, err := c.js.Stream(soon(t), c.inputs.Name)
	ok(t, err)
	if got := stream.CachedInfo().Config; got.MaxBytes != 64<<20 || got.MaxMsgSize != maxInput {
		t.Errorf("updated to %d bytes, messages of %d", got.MaxBytes, got.MaxMsgSize)
	}
	publish := func(subject string) error {
		done := make(chan error, 1)
		c.toInputs.publish(c.subj.root+subject, nil, []byte("1"), func(_ uint64, err error) { done <- err })
		return get(t, done, subject)
	}
	for _, subject := range []string{"to.a.start.tenant", "to.a.event.x.y", "to.a.cancel", "to.a.purge", "to.a.operate.pause", "own.a.start.x", "own.a.event.x", "own.a.cancel", "own.a.purge", "own.a.operate.pause", "own.a.done"} {
		ok(t, publish(subject))
	}
	for _, subject := range []string{"to.a.pause", "to.a.start", "to.a.cancel.now", "to.a.done", "own.a.done.x", "own.a.update.x"} {
		if err := publish(subject); !errors.Is(err, ErrNoStream) {
			t.Errorf("%s: %v", subject, err)
		}
	}
}

// Inputs that every partition has ingested are kept for a window, so that they can be ingested again after a rollback of Redis. A stream
// that fills up keeps less.
func TestFullStreamHasAShorterDuplicateWindow(t *testing.T) {
	c := newHarness(t).open(Options{Partitions: 1, InputsMaxBytes: 1 << 20})
	for n := range 2 { // empty, and with 600 KiB
		if fill, err := c.Fill(soon(t)); err != nil || (fill >= HalfFull) != (n == 1) {
			t.Fatalf("fill %v, %v", fill, err)
		}
		for range 2 * (1 - n) {
			_, err := c.PublishInput(soon(t), event("a", "x", `"`+strings.Repeat("x", 300<<10)+`"`))
			ok(t, err)
		}
	}
	if got := []time.Duration{shrunk(time.Minute, 0.49), shrunk(time.Minute, 0.5), shrunk(time.Minute, 0.75)}; !slices.Equal(got, []time.Duration{time.Minute, 6 * time.Second, time.Second}) {
		t.Error(got)
	}
}

func TestFullStreamRejectsPublishes(t *testing.T) {
	c := newHarness(t).open(Options{InputsMaxBytes: 64 << 10})
	var err error
	for range 100 {
		if _, err = c.PublishInput(soon(t), event("a", "x", `"`+strings.Repeat("x", 4000)+`"`)); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrStreamFull) {
		t.Fatal(err)
	}
}

func TestPublishIsRepeatedUntilTheServerIsBack(t *testing.T) {
	s := newHarness(t)
	c := s.open(Options{})
	s.stop()
	done := make(chan error, 1)
	in := event("a", "x", "1")
	in.ID = "once"
	go func() { _, err := c.PublishInput(soon(t), in); done <- err }()
	eventually(t, "the loss of the connection", func() bool { return !c.nc.IsConnected() })
	s.start()
	ok(t, get(t, done, "the publish"))
}

func TestEveryPublishEndsExactlyOnceAtADisconnect(t *testing.T) {
	s := newHarness(t)
	c := s.open(Options{Partitions: 1})
	const n = 2000
	ends := make(chan int, 2*n)
	for i := range n {
		c.PublishInputAsync(event("a", "x", "1"), func(uint64, error) { ends <- i })
		if i == n/2 {
			go s.srv.Shutdown()
		}
	}
	seen := make(map[int]bool)
	for range n {
		i := get(t, ends, "an end")
		if seen[i] {
			t.Fatalf("publish %d ended twice", i)
		}
		seen[i] = true
	}
	s.stop()
	s.start()
	eventually(t, "the connection", c.nc.IsConnected)
	if len(ends) > 0 {
		t.Fatal("a publish ended twice")
	}
}

func TestMissingAcknowledgementTimesOut(t *testing.T) {
	c := newHarness(t).open(Options{PublishTimeout: 200 * time.Millisecond})
	_, err := c.nc.Subscribe("mute", func(*nats.Msg) {})
	ok(t, err)
	done := make(chan error, 1)
	c.toInputs.publish("mute", nil, nil, func(_ uint64, err error) { done <- err })
	if err := get(t, done, "the timeout"); !errors.Is(err, ErrTimeout) || !errors.Is(err, ErrUnknown) {
		t.Fatal(err)
	}
}

func TestStreamWithAnotherNumberOfPartitionsIsRejected(t *testing.T) {
	s := newHarness(t)
	s.open(Options{Partitions: 8})
	_, err := Open(soon(t), s.dial(), Options{Partitions: 16})
	var m *MismatchError
	if !errors.As(err, &m) || !strings.Contains(m.Have, "partition(8,2)") || !strings.Contains(m.Want, "partition(16,2)") {
		t.Fatal(err)
	}
	c, err := Join(soon(t), s.dial(), Options{})
	ok(t, err)
	defer c.Close()
	if c.Partitions() != 8 {
		t.Fatalf("joined with %d partitions", c.Partitions())
	}
	if _, err = Join(soon(t), s.dial(), Options{Namespace: "elsewhere"}); !errors.Is(err, ErrNoNamespace) {
		t.Fatal(err)
	}
}

func TestNamespaceCanBeOpenedConcurrently(t *testing.T) {
	s := newHarness(t)
	errs := make(chan error, 4)
	for range cap(errs) {
		nc := s.dial()
		go func() {
			c, err := Open(soon(t), nc, Options{Partitions: 4})
			if err == nil {
				c.Close()
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		ok(t, get(t, errs, "an Open"))
	}
}

func TestErrorNamesServerWithoutJetStream(t *testing.T) {
	s := &harness{t: t, dir: t.TempDir(), port: -1, plain: true}
	s.start()
	t.Cleanup(s.stop)
	_, err := Open(soon(t), s.dial(), Options{})
	if !errors.Is(err, jetstream.ErrJetStreamNotEnabled) || !strings.Contains(err.Error(), "-js") {
		t.Fatal(err)
	}
}

func TestUnreachableServerIsNamedOnOneLineWithoutItsPassword(t *testing.T) {
	_, err := Dial("nats://me:secret@127.0.0.1:1", nats.RetryOnFailedConnect(false))
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "127.0.0.1:1") || strings.Contains(err.Error(), "\n") {
		t.Fatal(err)
	}
}
