package transport

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/wire"
	"github.com/pawlrun/pawl/pkg/history"
)

// issueBytes are messages that once crashed processes: an array and a string of 2^32 bytes, in several contexts.
func issueBytes(f *testing.F) (all [][]byte) {
	f.Helper()
	for _, text := range []string{"82a674656e616e74a178a563656e7473ddffffffff", "960101dbffffffff3030303030303030", "9601dfffffffff", "92019193", "c1", ""} {
		b, err := hex.DecodeString(text)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}

// FuzzMessages decodes bytes as each kind of message between Pawl's processes. The error of a rejected message is typed; an accepted message
// is the same after it is encoded and decoded again.
func FuzzMessages(f *testing.F) {
	failure := &history.Failure{Code: "c", Message: "m", Also: []string{"a"}}
	task := Task{Instance: "i", Activity: 2, Name: "a", Execution: 1}
	for _, b := range append(issueBytes(f),
		task.Encode(), wire.Encode((&Notice{Kind: 1, Partition: 2, Member: "m"}).fields), wire.Encode(doneFields(&message.Done{Scheduled: 1, Effect: "e", Failure: failure})),
		encodeList([]message.Doorbell{{Instance: "i", Element: []byte("id\n1\nbody")}}, wireDoorbell), encodeList([]message.Hint{{Instance: "i", Effect: "e"}}, wireHint),
		encodeList([]message.LimitNotice{{Limit: "g"}}, wireLimitNotice),
	) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		typed := func(err error) bool {
			if _, newer := errors.AsType[*NewerError](err); err != nil && !newer && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTooLarge) &&
				!errors.Is(err, ErrBadInstance) && !errors.Is(err, ErrBadName) && !errors.Is(err, ErrForged) {
				t.Errorf("untyped: %v", err)
			}
			return err == nil
		}
		if doorbells, err := decodeList("doorbell", b, wireDoorbell); typed(err) {
			again, err := decodeList("doorbell", encodeList(doorbells, wireDoorbell), wireDoorbell)
			if err != nil || len(again) != len(doorbells) {
				t.Errorf("%+v became %+v, %v", doorbells, again, err)
			}
		}
		_, err := decodeList("hint", b, wireHint)
		typed(err)
		_, err = decodeList("limit notice", b, wireLimitNotice)
		typed(err)
		var n Notice
		typed(decode("notice", b, n.fields))
		_, err = decodeDone(b)
		typed(err)
		_, err = DecodeTask(b)
		typed(err)
	})
}

// FuzzInput decodes an input with any subject, headers and body. A rejection has a bounded text. An accepted input has an id and a name that
// can be part of a subject and a key, and replies only to an allowed subject.
func FuzzInput(f *testing.F) {
	for _, b := range issueBytes(f) {
		f.Add("0.to.i.start.bill-tenant", HeaderContentType, "application/msgpack", b)
		f.Add("0.own.x.done", "", "", b)
	}
	for _, h := range []string{HeaderID, HeaderReply, HeaderParent, HeaderHolds, HeaderEvent, HeaderSplit, HeaderVersion, HeaderOf, HeaderReason, HeaderOrchestrationVersion, HeaderAttributes, HeaderStartAt, HeaderRunTimeout, HeaderReuse, HeaderEventType, HeaderUpdate, HeaderDeadline, history.HeaderTraceparent, HeaderDeclared + "a", headerSpan} {
		f.Add("0.own.i.start.o", h, "1", []byte(`{"a":[1]}`))
	}
	f.Add("0.to.order,42.event.a.b", "", "", []byte("1"))
	f.Add("0.to.order,42.update.a.b", HeaderID, "k 1", []byte("1"))
	f.Add("0.to.order,42.update.a", HeaderDeadline, "1e9h", []byte("1"))
	f.Add("0.to.i.cancel", HeaderBy, "\x1b[2J", []byte(`{"by":"x","text":"t"}`))
	f.Add("0.to.i.operate.restart.o", HeaderReuse, "terminate-existing", []byte("1"))
	f.Add("0.to.i.purge", HeaderReply, "a b", []byte(`{"force":true}`))
	f.Fuzz(func(t *testing.T, subject, header, value string, body []byte) {
		m := &nats.Msg{Subject: "pawl.ns.in." + subject, Data: body, Header: nats.Header{header: {value}}}
		in := decodeInput(m, "pawl.ns.", history.Position{Seq: 1, Time: 1})
		if in.Reply != "" && checkSubject(in.Reply) != nil {
			t.Errorf("would answer to %q", in.Reply)
		}
		if in.Problem != nil {
			if n := len(in.Problem.Error()) + len(in.Instance); n > maxProblem+maxHeader || !utf8.ValidString(in.Problem.Error()) && utf8.ValidString(subject+value) {
				t.Errorf("problem of %d bytes: %q", n, in.Problem)
			}
			return
		}
		if again := subjectsOf("ns").inputOf(&message.OutInput{Sender: in.Sender, Instance: in.Instance, Kind: in.Kind, Name: in.Name, Reuse: in.Reuse}); !strings.HasSuffix(subject, strings.TrimPrefix(again, "pawl.ns.")) {
			t.Errorf("%q was read as %q", subject, again)
		}
		if CheckInstance(in.Instance) != nil || in.Name != "" && CheckName(in.Name) != nil || len(in.ID) > maxHeader || len(in.By) > maxHeader {
			t.Errorf("accepted: %+v", in)
		}
	})
}

// FuzzChange decodes any bytes as a change that an orchestrator publishes to watchers, which another client may forge. The error of a
// rejection is typed and has a bounded text. An accepted change names a valid instance and is the same after it is encoded and decoded again.
func FuzzChange(f *testing.F) {
	whole, err := json.Marshal(message.Change{
		Instance: "order-1", Orchestration: "fulfil", Status: "running", Was: "pending", Execution: 1, Events: 7, At: message.LiveTime(1_790_000_000_000),
		Attributes: json.RawMessage(`{"a":"b"}`), Replaced: []string{"status", "a"}, Unanswered: true,
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	for _, text := range []string{`{}`, `null`, `{"instance":"a b"}`, `{"instance":7}`, `{"instance":"a","attributes":[1e999]}`, `{"instance":"a","execution":-1}`, `{"instance":"a"} {}`, `{"instance":"a","replaced":[null]}`} {
		f.Add([]byte(text))
	}
	f.Add([]byte(`{"instance":"` + strings.Repeat("a", 5000) + `"}`))
	f.Add([]byte(`{"instance":"a","status":` + strings.Repeat("[", 20_000)))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := decodeChange(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrBadInstance) || len(err.Error()) > 1000 {
				t.Errorf("%d bytes: %.200v", len(err.Error()), err)
			}
			return
		}
		encoded, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeChange(encoded)
		if twice, _ := json.Marshal(again); err != nil || CheckInstance(n.Instance) != nil || !bytes.Equal(twice, encoded) {
			t.Errorf("%s became %s, %v", encoded, twice, err)
		}
	})
}
