package transport

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/wire"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

func stop(t *testing.T, s *Subscription, err error) {
	t.Helper()
	ok(t, err)
	t.Cleanup(s.Stop)
}

func TestDoorbellsHintsAndNoticesArriveAndMalformedOnesAreCounted(t *testing.T) {
	c := newHarness(t).open(Options{})
	doorbells, hints, notices := make(chan []message.Doorbell, 9), make(chan []message.Hint, 9), make(chan Notice, 9)
	s, err := c.OnDoorbells(3, func(b []message.Doorbell) { doorbells <- b })
	stop(t, s, err)
	s, err = c.OnHints("w1", func(h []message.Hint) { hints <- h })
	stop(t, s, err)
	s, err = c.OnNotices(func(n Notice) { notices <- n })
	stop(t, s, err)

	subjects := []string{"pawl.default.doorbell.3", "pawl.default.hint.w1", "pawl.default.notice"}
	for _, subject := range subjects {
		for _, nonsense := range []string{"", "hello", "\xc0", "\x90", "\xdd\xff\xff\xff\xff\x01", "\x92\x01\xdd\x7f\xff\xff\xff", "\x92\x02\x90", "\x92\x00\x90"} {
			ok(t, c.nc.Publish(subject, []byte(nonsense)))
		}
	}
	ok(t, c.SendDoorbells(2, []message.Doorbell{{Instance: "elsewhere"}}))
	ok(t, c.SendDoorbells(3, []message.Doorbell{{Instance: "a", Effect: "e", Element: []byte("el"), Proof: "p"}, {Instance: "b"}}))
	h := message.Hint{Instance: "a", Execution: 1, Activity: 2, Effect: "e", Reason: cancel.LostSelect, By: "b", Text: "t", At: 3}
	ok(t, c.SendHints("w1", []message.Hint{h}))
	n := Notice{Kind: PartitionReleased, Partition: 3, Member: "m"}
	ok(t, c.Notify(Notice{Kind: PartitionReleased, Partition: 4}))
	ok(t, c.Notify(n))

	if got := get(t, doorbells, "a doorbell"); !reflect.DeepEqual(got, []message.Doorbell{{Instance: "a", Effect: "e", Element: []byte("el"), Proof: "p"}, {Instance: "b"}}) {
		t.Errorf("%+v", got)
	}
	if got := get(t, hints, "a hint"); !reflect.DeepEqual(got, []message.Hint{h}) {
		t.Errorf("%+v", got)
	}
	if got := get(t, notices, "a notice"); got != n {
		t.Errorf("%+v", got)
	}
	if got := c.Stats().Ignored; got != 3*8+1 {
		t.Errorf("ignored %d", got)
	}
}

func TestOversizedListIsSentInSeveralMessages(t *testing.T) {
	c := newHarness(t).open(Options{})
	got := make(chan []message.Doorbell, 99)
	s, err := c.OnDoorbells(0, func(b []message.Doorbell) { got <- b })
	stop(t, s, err)
	doorbells := make([]message.Doorbell, 200)
	for i := range doorbells {
		doorbells[i] = message.Doorbell{Instance: fmt.Sprint("i", i), Element: make([]byte, eventcodec.MaxDoorbellElement)}
	}
	ok(t, c.SendDoorbells(0, doorbells))
	for n := 0; n < len(doorbells); {
		for _, b := range get(t, got, "doorbells") {
			if b.Instance != doorbells[n].Instance || len(b.Element) != eventcodec.MaxDoorbellElement {
				t.Fatalf("doorbell %d is %s", n, b.Instance)
			}
			n++
		}
	}
}

func TestOwnerAnswersRequestsImmediatelyOrLater(t *testing.T) {
	c := newHarness(t).open(Options{})
	got := make(chan string, 1)
	inbox, err := c.OnAnswers(func(token string, body []byte) error {
		got <- token + " " + string(body)
		return nil
	})
	ok(t, err)
	defer inbox.Stop()
	s, err := c.ServeRequests(1, func(_ context.Context, a Access, body []byte) ([]byte, error) {
		ok(t, c.Answer(string(body), []byte("later")))
		return []byte(a.String()), nil
	})
	stop(t, s, err)
	for _, access := range []Access{AccessRead, AccessAdmin} {
		r, err := c.Request(soon(t), 1, access, []byte(inbox.Subject("t1")))
		if err != nil || string(r) != access.String() {
			t.Errorf("%q, %v", r, err)
		}
		if a := get(t, got, "the answer"); a != "t1 later" {
			t.Errorf("%q", a)
		}
	}
}

func TestRequestToAPartitionWithoutAnOwnerFails(t *testing.T) {
	c := newHarness(t).open(Options{})
	_, err := c.Request(soon(t), 2, AccessRead, nil)
	var no *NoOwnerError
	if !errors.Is(err, ErrNoOwner) || !errors.As(err, &no) || no.Partition != 2 {
		t.Fatal(err)
	}
}

func TestStopWaitsForServedRequests(t *testing.T) {
	c := newHarness(t).open(Options{})
	began, ended := make(chan struct{}), make(chan struct{})
	s, err := c.ServeRequests(0, func(ctx context.Context, _ Access, _ []byte) ([]byte, error) {
		close(began)
		<-ctx.Done()
		close(ended)
		return nil, nil
	})
	ok(t, err)
	ok(t, c.nc.PublishRequest(c.subj.request(0, AccessRead), "absent", nil))
	get(t, began, "the request")
	s.Stop()
	select {
	case <-ended:
	default:
		t.Fatal("Stop returned before the request had ended")
	}
}

func TestRepliesToSubjectsOtherThanInboxesAreRejected(t *testing.T) {
	for _, bad := range []string{"", "$JS.API.STREAM.DELETE.X", "pawl.default.to.a.cancel", "a.*", "a.>", "a b", "a..b", ".a", "a."} {
		if safeReply(bad) {
			t.Errorf("%q is accepted", bad)
		}
	}
	if !safeReply(nats.NewInbox()) || !safeReply("my.inbox.7") {
		t.Error("an inbox is rejected")
	}
	for _, bad := range []string{"", "$JS", "pawl", "pawl.", "a.*", "a..", "> "} {
		if CheckReplyPrefixes([]string{bad}) == nil {
			t.Errorf("prefix %q is accepted", bad)
		}
	}
}

// Trap: a reply subject that any sender can choose. It must be an inbox, or match a setting.
func TestRepliesAreSentToInboxesOnly(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
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
			if err := c.Answer(reply, nil); (err == nil) != allowed {
				t.Errorf("%v, an answer to %q: %v", k.prefixes, reply, err)
			}
			if err := c.AnswerMember(reply, nil); (err == nil) != (allowed || reply == "_INBOX.x.1") { // like the inboxes of orchestrators
				t.Errorf("%v, an answer of a member to %q: %v", k.prefixes, reply, err)
			}
		}
	}
}

func TestRequestsWithoutAnInboxAreNotAnswered(t *testing.T) {
	t.Parallel()
	c := newHarness(t).open(Options{})
	served := make(chan struct{}, 1)
	s, err := c.ServeRequests(0, func(context.Context, Access, []byte) ([]byte, error) { served <- struct{}{}; return nil, nil })
	stop(t, s, err)
	other, err := c.nc.SubscribeSync("orders.ship")
	ok(t, err)
	ok(t, c.nc.PublishRequest(c.subj.request(0, AccessRead), "orders.ship", nil))
	get(t, served, "the request")
	s.Stop()
	ok(t, c.nc.Flush())
	if n, _, err := other.Pending(); n != 0 || err != nil {
		t.Errorf("%d messages for another application, %v", n, err)
	}
}

// The bytes of version 1. A change of them requires a new version.
func TestMessagesOfVersion1RoundTrip(t *testing.T) {
	p := history.Payload{Type: history.TypeJSON, Data: []byte("1")}
	f := &history.Failure{Code: "c", Message: "m", Data: p, Permanent: true, Stack: "s", Also: []string{"a"}}
	done := message.Done{Scheduled: 17, Effect: "e", Result: p, Failure: f}
	doneBytes, err := encodeDone(&done)
	ok(t, err)
	doorbells := []message.Doorbell{{Instance: "a", Effect: "e", Element: []byte{1}, Proof: "p"}, {Instance: "b"}}
	for _, k := range []struct {
		name, golden string
		bytes        []byte
		read         func([]byte) (any, error)
		want         any
	}{
		{"task", goldenTask, task("q.r", 1).Encode(), func(b []byte) (any, error) { return DecodeTask(b) }, task("q.r", 1)},
		{"done", goldenDone, doneBytes, func(b []byte) (any, error) { return decodeDone(b) }, &done},
		{"doorbells", goldenDoorbells, encodeList(doorbells, wireDoorbell), func(b []byte) (any, error) { return decodeList("doorbells", b, wireDoorbell) }, doorbells},
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
}

func TestUnknownFieldsAreSkippedAndMissingOnesAreZero(t *testing.T) {
	n := Notice{Kind: MemberLeft, Member: "m"}
	longer := wire.Encode(func(c *wire.Codec) {
		n.fields(c)
		c.Record(func(c *wire.Codec) { c.String(&n.Member); c.String(&n.Member) })
	})
	var got Notice
	ok(t, decode("notice", longer, got.fields))
	if got != n {
		t.Fatalf("%+v", got)
	}
	shorter := wire.Encode(func(c *wire.Codec) { wire.Number(c, &n.Kind) })
	got = Notice{}
	ok(t, decode("notice", shorter, got.fields))
	if got.Kind != MemberLeft {
		t.Fatalf("%+v", got)
	}
}

func TestNewerMessageIsErrNewerVersion(t *testing.T) {
	b := task("q", 0).Encode()
	b[1] = 9
	_, err := DecodeTask(b)
	var newer *NewerError
	if !errors.Is(err, ErrNewer) || !errors.As(err, &newer) || newer.Version != 9 {
		t.Fatal(err)
	}
}

func TestTaskRoundTrips(t *testing.T) {
	text := rapid.StringN(0, 10, 30)
	rapid.Check(t, func(t *rapid.T) {
		want := Task{Instance: "i" + strings.Repeat("x", rapid.IntRange(0, 50).Draw(t, "n")), Execution: rapid.Uint64Min(1).Draw(t, "x"), Activity: rapid.Uint64Min(1).Draw(t, "a"),
			Origin: history.Position{Seq: rapid.Uint64().Draw(t, "s"), Time: rapid.Int64().Draw(t, "t")}, Name: "n" + text.Draw(t, "n"), Queue: text.Draw(t, "q"),
			Attempt: rapid.Uint32().Draw(t, "at"), Payload: history.Payload{Type: text.Draw(t, "pt"), Data: rapid.SliceOfN(rapid.Byte(), 1, 50).Draw(t, "pd")}, ScheduledAt: rapid.Int64().Draw(t, "sa")}
		want.Effect = want.ContentID()
		got, err := DecodeTask(want.Encode())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v %v", got, err)
		}
	})
}

const (
	goldenTask      = "9f01a3692d3107090103b6704d4e4758664f66755179716b76774139634d745f67ab6368617267652d63617264a3712e7201b06170706c69636174696f6e2f6a736f6ec40131cf0000018bcfe5680000a0"
	goldenDone      = "960111a165b06170706c69636174696f6e2f6a736f6ec4013197a163a16db06170706c69636174696f6e2f6a736f6ec40131c3a17391a161"
	goldenDoorbells = "92019294a161c40101a165a17094a162c0a0a0"
)

func TestOwnersAreAnnouncedByPartition(t *testing.T) {
	c := newHarness(t).open(Options{})
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
