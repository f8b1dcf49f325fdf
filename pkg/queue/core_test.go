package queue

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

func stop(t *testing.T, s *Subscription, err error) {
	t.Helper()
	ok(t, err)
	t.Cleanup(s.Stop)
}

func TestDoorbellsHintsAndNoticesArriveAndNonsenseIsCounted(t *testing.T) {
	c := newStand(t).open(Options{})
	bells, hints, notices := make(chan []Bell, 9), make(chan []Hint, 9), make(chan Notice, 9)
	s, err := c.OnBells(3, func(b []Bell) { bells <- b })
	stop(t, s, err)
	s, err = c.OnHints("w1", func(h []Hint) { hints <- h })
	stop(t, s, err)
	s, err = c.OnNotices(func(n Notice) { notices <- n })
	stop(t, s, err)

	subjects := []string{"pawl.default.bell.3", "pawl.default.hint.w1", "pawl.default.notice"}
	for _, subject := range subjects {
		for _, nonsense := range []string{"", "hello", "\xc0", "\x90", "\xdd\xff\xff\xff\xff\x01", "\x92\x01\xdd\x7f\xff\xff\xff", "\x92\x02\x90", "\x92\x00\x90"} {
			ok(t, c.nc.Publish(subject, []byte(nonsense)))
		}
	}
	ok(t, c.Ring(2, []Bell{{Instance: "elsewhere"}}))
	ok(t, c.Ring(3, []Bell{{Instance: "a", Effect: "e", Element: []byte("el"), Proof: "p"}, {Instance: "b"}}))
	h := Hint{Instance: "a", Execution: 1, Activity: 2, Effect: "e", Reason: cancel.LostSelect, By: "b", Text: "t", At: 3}
	ok(t, c.SendHints("w1", []Hint{h}))
	n := Notice{Kind: PartitionReleased, Partition: 3, Member: "m"}
	ok(t, c.Notify(Notice{Kind: PartitionReleased, Partition: 4}))
	ok(t, c.Notify(n))

	if got := get(t, bells, "a doorbell"); !reflect.DeepEqual(got, []Bell{{Instance: "a", Effect: "e", Element: []byte("el"), Proof: "p"}, {Instance: "b"}}) {
		t.Errorf("%+v", got)
	}
	if got := get(t, hints, "a hint"); !reflect.DeepEqual(got, []Hint{h}) {
		t.Errorf("%+v", got)
	}
	if got := get(t, notices, "a notice"); got != n {
		t.Errorf("%+v", got)
	}
	if got := c.Stats().Ignored; got != 3*8+1 {
		t.Errorf("ignored %d", got)
	}
}

func TestAListThatIsTooLongForAMessageTravelsInSeveral(t *testing.T) {
	c := newStand(t).open(Options{})
	got := make(chan []Bell, 99)
	s, err := c.OnBells(0, func(b []Bell) { got <- b })
	stop(t, s, err)
	bells := make([]Bell, 200)
	for i := range bells {
		bells[i] = Bell{Instance: fmt.Sprint("i", i), Element: make([]byte, history.MaxDoorbellElement)}
	}
	ok(t, c.Ring(0, bells))
	for n := 0; n < len(bells); {
		for _, b := range get(t, got, "bells") {
			if b.Instance != bells[n].Instance || len(b.Element) != history.MaxDoorbellElement {
				t.Fatalf("bell %d is %s", n, b.Instance)
			}
			n++
		}
	}
}

func TestTheOwnerAnswersWhatItIsAsked(t *testing.T) {
	c := newStand(t).open(Options{})
	got := make(chan Answer, 1)
	inbox, err := c.OnAnswers(func(token string, a Answer) {
		if token == "t1" {
			got <- a
		}
	})
	ok(t, err)
	defer inbox.Stop()
	want := Reply{Described: &Described{Instance: "a", Outstanding: []Outstanding{{Activity: 2, Name: "n", Queue: "q", Worker: "w", Claims: 1, Since: 5}},
		Failure: &history.Failure{Message: "m", Also: []string{"x"}}}, Events: [][]byte{{1}, {2}}, More: true, Rows: []Described{{Instance: "b"}, {Instance: "c"}}, Cursor: "c"}
	s, err := c.ServeAsks(1, func(_ context.Context, a Ask) Reply {
		ok(t, c.Answer(a.ReplyTo, Answer{Instance: a.Instance, Status: "failed", Failure: &history.Failure{Code: "c", Permanent: true}}))
		return want
	})
	stop(t, s, err)
	r, err := c.Ask(soon(t), 1, Ask{Op: OpDescribe, Instance: "a", ReplyTo: inbox.Subject("t1"), Limit: 5})
	ok(t, err)
	if !reflect.DeepEqual(r, want) {
		t.Errorf("got %+v, want %+v", r, want)
	}
	if a := get(t, got, "the answer"); a.Instance != "a" || a.Failure == nil || !a.Failure.Permanent {
		t.Errorf("%+v", a)
	}
}

func TestAPartitionWithoutAnOwnerSaysSo(t *testing.T) {
	c := newStand(t).open(Options{})
	_, err := c.Ask(soon(t), 2, Ask{Op: OpDescribe, Instance: "a"})
	var no *NoOwnerError
	if !errors.Is(err, ErrNoOwner) || !errors.As(err, &no) || no.Partition != 2 {
		t.Fatal(err)
	}
}

func TestAnAskThatMakesNoSenseIsAnsweredWithAProblem(t *testing.T) {
	c := newStand(t).open(Options{})
	s, err := c.ServeAsks(0, func(context.Context, Ask) Reply { panic("asked") })
	stop(t, s, err)
	m, err := c.nc.Request("pawl.default.ask.0.read", []byte("hello?"), 5*time.Second)
	ok(t, err)
	var r Reply
	ok(t, decode("reply", m.Data, r.wire))
	if r.Problem == nil || r.Problem.Code != ProblemBadAsk {
		t.Fatalf("%+v", r)
	}
}

func TestAReplyTooLargeForNATSBecomesAProblem(t *testing.T) {
	c := newStand(t).open(Options{})
	s, err := c.ServeAsks(0, func(context.Context, Ask) Reply { return Reply{Events: [][]byte{make([]byte, 2<<20)}} })
	stop(t, s, err)
	r, err := c.Ask(soon(t), 0, Ask{Op: OpHistory})
	ok(t, err)
	if r.Problem == nil || r.Problem.Code != ProblemInternal {
		t.Fatalf("%+v", r.Problem)
	}
}

func TestStopWaitsForTheRequestsThatAreServed(t *testing.T) {
	c := newStand(t).open(Options{})
	began, ended := make(chan struct{}), make(chan struct{})
	s, err := c.ServeAsks(0, func(ctx context.Context, _ Ask) Reply {
		close(began)
		<-ctx.Done()
		close(ended)
		return Reply{}
	})
	ok(t, err)
	ok(t, c.nc.PublishRequest("pawl.default.ask.0.read", "nobody", Ask{Op: OpList}.encode()))
	get(t, began, "the request")
	s.Stop()
	select {
	case <-ended:
	default:
		t.Fatal("Stop came back before the request had ended")
	}
}

func TestNobodyMakesTheOrchestratorAnswerToSubjectsThatAreNotInboxes(t *testing.T) {
	for _, bad := range []string{"", "$JS.API.STREAM.DELETE.X", "pawl.default.to.a.cancel", "a.*", "a.>", "a b", "a..b", ".a", "a."} {
		if safeReply(bad) {
			t.Errorf("%q is not refused", bad)
		}
	}
	if !safeReply(nats.NewInbox()) || !safeReply("my.inbox.7") {
		t.Error("an inbox is refused")
	}
	for _, bad := range []string{"", "$JS", "pawl", "pawl.", "a.*", "a..", "> "} {
		if CheckReplyPrefixes([]string{bad}) == nil {
			t.Errorf("prefix %q is not refused", bad)
		}
	}
}

// Trap: a header that names where to answer, believed. It is an inbox, or what a setting allows.
func TestRepliesAreSentToInboxesOnly(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.open(Options{Partitions: 1})
	var after history.Position
	for _, k := range []struct {
		prefixes []string
		allowed  map[string]bool
	}{
		{nil, map[string]bool{"_INBOX.x.1": true, "_INBOX_client.x.1": true, "orders.ship": false, "my_INBOX.x": false}},
		{[]string{"_INBOX_client.", "orders."}, map[string]bool{"_INBOX.x.1": false, "_INBOX_client.x.1": true, "orders.ship": true}},
	} {
		c, err := Join(soon(t), s.dial(), Options{ReplyPrefixes: k.prefixes})
		ok(t, err)
		defer c.Close()
		r, err := c.Attach(soon(t), 0, after)
		ok(t, err)
		defer r.Stop()
		for reply, allowed := range k.allowed {
			in := event("a", "x", "1")
			in.Reply = reply
			_, err := c.PublishInput(soon(t), in)
			ok(t, err)
			got := read(t, r, 1)[0]
			after = got.Pos
			if got.Problem != nil || (got.Reply == reply) != allowed || !allowed && got.Reply != "" {
				t.Errorf("%v, an input with %q: reply to %q, problem %v", k.prefixes, reply, got.Reply, got.Problem)
			}
			if err := c.Answer(reply, Answer{}); (err == nil) != allowed {
				t.Errorf("%v, an answer to %q: %v", k.prefixes, reply, err)
			}
		}
	}
}

func TestRequestsThatNameNoInboxAreNotAnswered(t *testing.T) {
	t.Parallel()
	c := newStand(t).open(Options{})
	served := make(chan struct{}, 1)
	s, err := c.ServeAsks(0, func(context.Context, Ask) Reply { served <- struct{}{}; return Reply{} })
	stop(t, s, err)
	other, err := c.nc.SubscribeSync("orders.ship")
	ok(t, err)
	ok(t, c.nc.PublishRequest(c.subj.ask(0, AccessRead), "orders.ship", Ask{Op: OpList}.encode()))
	get(t, served, "the request")
	s.Stop()
	ok(t, c.nc.Flush())
	if n, _, err := other.Pending(); n != 0 || err != nil {
		t.Errorf("%d messages for another application, %v", n, err)
	}
}

// The bytes of version 1, for ever: a change here needs a new version.
func TestMessagesOfVersion1ReadAsTheyWereWritten(t *testing.T) {
	p := history.Payload{Type: history.TypeJSON, Data: []byte("1")}
	f := &history.Failure{Code: "c", Message: "m", Data: p, Permanent: true, Stack: "s", Also: []string{"a"}}
	answer := Answer{Instance: "i", Born: history.Position{Seq: 1, Time: 2}, Execution: 3, Status: "failed", Result: p, Failure: f, Problem: &Problem{Code: "x", Message: "y"}}
	status := Answer{Instance: "i", Status: "running", Custom: &Custom{Version: 4, Payload: p}}
	done := Done{Scheduled: 17, Effect: "e", Result: p, Failure: f}
	doneBytes, err := done.encode()
	ok(t, err)
	described := Described{Instance: "i", Parent: "p", Children: []OutstandingChild{{Event: 3, Name: "n", Instance: "c", Since: 4}}, Custom: &Custom{Version: 5, Payload: p}, Owes: 6}
	for _, k := range []struct {
		name, golden string
		bytes        []byte
		read         func([]byte) (any, error)
		want         any
	}{
		{"task", goldenTask, task("q.r", 1).Encode(), func(b []byte) (any, error) { return DecodeTask(b) }, task("q.r", 1)},
		{"answer", goldenAnswer, answer.encode(), func(b []byte) (any, error) { return decodeAnswer(b) }, answer},
		{"answer with a custom status", goldenStatus, status.encode(), func(b []byte) (any, error) { return decodeAnswer(b) }, status},
		{"done", goldenDone, doneBytes, func(b []byte) (any, error) { return decodeDone(b) }, &done},
		{"reply", goldenReply, Reply{Described: &described}.encode(), func(b []byte) (any, error) {
			var r Reply
			err := decode("reply", b, r.wire)
			return r, err
		}, Reply{Described: &described}},
		{"bells", goldenBells, encodeBells([]Bell{{Instance: "a", Effect: "e", Element: []byte{1}, Proof: "p"}, {Instance: "b"}}), func(b []byte) (any, error) {
			var v []Bell
			return &v, decode("bells", b, func(w *wire) { list(w, &v, wireBell) })
		}, &[]Bell{{Instance: "a", Effect: "e", Element: []byte{1}, Proof: "p"}, {Instance: "b"}}},
		{"ask", goldenAsk, Ask{Op: OpList, Instance: "i", ReplyTo: "r", Execution: 1, After: 2, Status: "s", Cursor: "c", Limit: 3}.encode(), func(b []byte) (any, error) {
			var a Ask
			err := decode("ask", b, a.wire)
			return a, err
		}, Ask{Op: OpList, Instance: "i", ReplyTo: "r", Execution: 1, After: 2, Status: "s", Cursor: "c", Limit: 3}},
	} {
		if got := hex.EncodeToString(k.bytes); got != k.golden {
			t.Errorf("%s is written as %s", k.name, got)
		}
		b, err := hex.DecodeString(k.golden)
		ok(t, err)
		got, err := k.read(b)
		if err != nil || !reflect.DeepEqual(got, k.want) {
			t.Errorf("%s reads as %+v (%v)", k.name, got, err)
		}
	}
	b, err := hex.DecodeString(goldenAnswerBefore)
	ok(t, err)
	if got, err := decodeAnswer(b); err != nil || !reflect.DeepEqual(got, answer) {
		t.Errorf("an answer from before there was a custom status reads as %+v (%v)", got, err)
	}
	b, err = hex.DecodeString(goldenTaskBefore)
	ok(t, err)
	if got, err := DecodeTask(b); err != nil || !reflect.DeepEqual(got, task("q.r", 1)) {
		t.Errorf("a task from before there was a key of the call reads as %+v (%v)", got, err)
	}
	for before, golden := range map[string]string{"reports": goldenReplyBefore, "gates": goldenReplyBeforeGates} {
		b, err = hex.DecodeString(golden)
		ok(t, err)
		var reply Reply
		if err := decode("reply", b, reply.wire); err != nil || !reflect.DeepEqual(reply, Reply{Described: &described}) {
			t.Errorf("a reply from before there were %s reads as %+v (%v)", before, reply, err)
		}
	}
	b, err = hex.DecodeString(goldenAskBefore)
	ok(t, err)
	var ask Ask
	if err := decode("ask", b, ask.wire); err != nil || !reflect.DeepEqual(ask, Ask{Op: OpList, Instance: "i", ReplyTo: "r", Execution: 1, After: 2, Status: "s", Cursor: "c", Limit: 3}) {
		t.Errorf("a request from before there were gates reads as %+v (%v)", ask, err)
	}
}

func TestAFieldThatALaterBuildAddsIsPassedOver(t *testing.T) {
	n := Notice{Kind: MemberLeft, Member: "m"}
	longer := encode(4, func(w *wire) {
		n.wire(w)
		w.record(2, func(w *wire) { w.str(&n.Member); w.str(&n.Member) })
	})
	var got Notice
	ok(t, decode("notice", longer, got.wire))
	if got != n {
		t.Fatalf("%+v", got)
	}
	shorter := encode(1, func(w *wire) { number(w, &n.Kind) })
	got = Notice{}
	ok(t, decode("notice", shorter, got.wire))
	if got.Kind != MemberLeft {
		t.Fatalf("%+v", got)
	}
}

func TestANewerMessageIsNamedAsSuch(t *testing.T) {
	b := task("q", 0).Encode()
	b[1] = 9
	_, err := DecodeTask(b)
	var newer *NewerError
	if !errors.Is(err, ErrNewer) || !errors.As(err, &newer) || newer.Version != 9 {
		t.Fatal(err)
	}
}

func TestNoBytesCrashADecoder(t *testing.T) {
	seeds := [][]byte{task("q", 0).Encode(), Answer{Failure: &history.Failure{}}.encode(), Reply{Rows: []Described{{}}, Described: &Described{Children: []OutstandingChild{{}}, Custom: &Custom{}, Waits: []GateWait{{}}, Unread: []history.UnreadEvents{{}}}, Gates: []GateStats{{}}, Waiters: []GateWaiter{{}}, Policies: []LevelPolicy{{}}}.encode(), encodeHints([]Hint{{}}),
		Ask{Policy: &history.Policy{}}.encode(), encodeWords([]Word{{}}),
		encode(5, (&Done{Scheduled: 1, Effect: "e", Failure: &history.Failure{}}).wire)}
	rapid.Check(t, func(t *rapid.T) {
		b := bytes.Clone(rapid.SampledFrom(seeds).Draw(t, "seed"))
		for range rapid.IntRange(0, 4).Draw(t, "changes") {
			b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "to")
		}
		b = b[:rapid.IntRange(0, len(b)).Draw(t, "cut")]
		var r Reply
		var bells []Bell
		var ask Ask
		var words []Word
		_, err := DecodeTask(b)
		_, err2 := decodeAnswer(b)
		_, err3 := decodeDone(b)
		for _, err := range []error{err, err2, err3, decode("reply", b, r.wire), decode("bells", b, func(w *wire) { list(w, &bells, wireBell) }),
			decode("ask", b, ask.wire), decode("words", b, func(w *wire) { list(w, &words, wireWord) })} {
			if err != nil && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrNewer) && !errors.Is(err, ErrForged) {
				t.Fatal(err)
			}
		}
	})
}

func TestReplyWrittenAndReadIsTheSame(t *testing.T) {
	text := rapid.StringN(0, 10, 30)
	rapid.Check(t, func(t *rapid.T) {
		want := Task{Instance: "i" + strings.Repeat("x", rapid.IntRange(0, 50).Draw(t, "n")), Execution: rapid.Uint64Min(1).Draw(t, "x"), Activity: rapid.Uint64Min(1).Draw(t, "a"),
			Born: history.Position{Seq: rapid.Uint64().Draw(t, "s"), Time: rapid.Int64().Draw(t, "t")}, Name: "n" + text.Draw(t, "n"), Queue: text.Draw(t, "q"),
			Attempt: rapid.Uint32().Draw(t, "at"), Payload: history.Payload{Type: text.Draw(t, "pt"), Data: rapid.SliceOfN(rapid.Byte(), 1, 50).Draw(t, "pd")}, ScheduledAt: rapid.Int64().Draw(t, "sa")}
		want.Effect = want.ContentID()
		got, err := DecodeTask(want.Encode())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v %v", got, err)
		}
	})
}

const (
	goldenTask = "9f01a3692d3107090103b6704d4e4758664f66755179716b76774139634d745f67ab6368617267652d63617264a3712e7201b06170706c69636174696f6e2f6a736f6ec40131cf0000018bcfe5680000a0"
	// goldenTaskBefore is a task of a build that knew no key of a call.
	goldenTaskBefore = "9e01a3692d3107090103b6704d4e4758664f66755179716b76774139634d745f67ab6368617267652d63617264a3712e7201b06170706c69636174696f6e2f6a736f6ec40131cf0000018bcfe5680000"
	goldenAnswer     = "9b01a169010203a66661696c6564b06170706c69636174696f6e2f6a736f6ec4013197a163a16db06170706c69636174696f6e2f6a736f6ec40131c3a17391a16192a178a179c0"
	// As it was written when it ended with the problem.
	goldenAnswerBefore = "9a01a169010203a66661696c6564b06170706c69636174696f6e2f6a736f6ec4013197a163a16db06170706c69636174696f6e2f6a736f6ec40131c3a17391a16192a178a179"
	goldenStatus       = "9b01a169000000a772756e6e696e67a0c0c0c09404b06170706c69636174696f6e2f6a736f6ec40131c2"
	goldenDone         = "960111a165b06170706c69636174696f6e2f6a736f6ec4013197a163a16db06170706c69636174696f6e2f6a736f6ec40131c3a17391a161"
	goldenReply        = "dc001001c0c0dc0019a169a0a0a00000000000000090000000a0c0c0a0a170919403a16ea163049405b06170706c69636174696f6e2f6a736f6ec40131c20690900090c290a090909090009000"
	// goldenReplyBeforeGates is a reply of a build that knew no gates.
	goldenReplyBeforeGates = "9a01c0c0dc0017a169a0a0a00000000000000090000000a0c0c0a0a170919403a16ea163049305b06170706c69636174696f6e2f6a736f6ec40131060090c290a090"
	// goldenReplyBefore is a reply of a build that knew no reports.
	goldenReplyBefore = "9901c0c0dc0017a169a0a0a00000000000000090000000a0c0c0a0a170919403a16ea163049305b06170706c69636174696f6e2f6a736f6ec40131060090c290a0"
	goldenBells       = "92019294a161c40101a165a17094a162c0a0a0"
	goldenAsk         = "9e0104a169a1720102a173a16303a0a0a0c0c0"
	// goldenAskBefore is a request of a build that knew no gates.
	goldenAskBefore = "990104a169a1720102a173a16303"
)

func TestOwnersAreAnnouncedByPartitionAndNonsenseIsCounted(t *testing.T) {
	c := newStand(t).open(Options{})
	got := make(chan int, 9)
	s, err := c.OnOwners(func(p int) { got <- p })
	stop(t, s, err)
	for _, nonsense := range []string{"x", "-1", "1024", "99999999999999999999"} {
		ok(t, c.nc.Publish("pawl.default.owner."+nonsense, nil))
	}
	for _, p := range []int{3, 0} {
		ok(t, c.AnnounceOwner(p))
		if q := get(t, got, "an announcement"); q != p {
			t.Errorf("partition %d, want %d", q, p)
		}
	}
	if got := c.Stats().Ignored; got != 4 {
		t.Errorf("ignored %d", got)
	}
}
