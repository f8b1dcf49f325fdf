package queue

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/pkg/history"
)

// filled sets every field of a value to something of its own, so that none is forgotten on the wire.
func filled(t testing.TB, v reflect.Value, n *int) {
	t.Helper()
	*n++
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("text", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(t, v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			filled(t, v.Index(i), n)
		}
	case reflect.Struct:
		for _, f := range v.Fields() {
			filled(t, f, n)
		}
	default:
		t.Fatalf("do not know how to fill a %s", v.Type())
	}
}

func full[T any](t testing.TB) (v T) {
	t.Helper()
	n := 0
	filled(t, reflect.ValueOf(&v).Elem(), &n)
	return v
}

func TestEveryFieldOfARequestAndAReplyIsReadAsItWasWritten(t *testing.T) {
	ask, reply, words := full[Ask](t), full[Reply](t), full[[]Word](t)
	var gotAsk Ask
	ok(t, decode("ask", ask.encode(), gotAsk.wire))
	if !reflect.DeepEqual(gotAsk, ask) {
		t.Errorf("got %+v, want %+v", gotAsk, ask)
	}
	var gotReply Reply
	ok(t, decode("reply", reply.encode(), gotReply.wire))
	if !reflect.DeepEqual(gotReply, reply) {
		t.Errorf("got %+v, want %+v", gotReply, reply)
	}
	var gotWords []Word
	ok(t, decode("words", encodeWords(words), func(w *wire) { list(w, &gotWords, wireWord) }))
	if !reflect.DeepEqual(gotWords, words) {
		t.Errorf("got %+v, want %+v", gotWords, words)
	}
}

// A build that knows no gates has read these fields and no others.
func TestABuildThatKnowsNoGatesReadsWhatItKnows(t *testing.T) {
	ask, reply := full[Ask](t), full[Reply](t)
	var a Ask
	ok(t, decode("ask", ask.encode(), func(w *wire) {
		number(w, &a.Op)
		w.str(&a.Instance)
		w.str(&a.ReplyTo)
		w.uint(&a.Execution)
		w.uint(&a.After)
		w.str(&a.Status)
		w.str(&a.Cursor)
		w.count(&a.Limit)
	}))
	ask.Gate, ask.Key, ask.Level, ask.Policy, ask.Filter = "", "", "", nil, nil
	if !reflect.DeepEqual(a, ask) {
		t.Errorf("got %+v, want %+v", a, ask)
	}
	var d Described // its last fields are new
	ok(t, decode("reply", reply.encode(), func(w *wire) {
		optional(w, new(*Problem), problemFields, wireProblem)
		optional(w, new(*Answer), answerFields, wireAnswer)
		w.record(0, func(w *wire) {
			was := w.left
			w.left = was - 2
			wireDescribed(w, &d)
			w.left += 2
		})
	}))
	want := *reply.Described
	want.Waits, want.Unread = nil, nil
	if !reflect.DeepEqual(d, want) {
		t.Errorf("got %+v, want %+v", d, want)
	}
}

func TestWordsArriveInOrderWhereTheyAreSentAndNonsenseIsCounted(t *testing.T) {
	c := newStand(t).open(Options{})
	got := make(chan []Word, 9)
	s, err := c.OnWords(3, func(ws []Word) { got <- ws })
	stop(t, s, err)
	for _, nonsense := range []string{"", "hello", "\x92\x02\x90"} {
		ok(t, c.nc.Publish("pawl.default.word.3", []byte(nonsense)))
	}
	want := []Word{{Kind: WordGranted, Gate: "charge/acme", Member: "t a 1.2"}, {Kind: WordTimedOut, Gate: "charge", Member: "u b 1.2"}, {Kind: WordCleared, Gate: "charge", Member: "v c -"}, {Kind: WordLook, Gate: "nap"}, {Kind: 99, Gate: "later"}}
	ok(t, c.SendWords(2, []Word{{Kind: WordLook, Gate: "elsewhere"}}))
	ok(t, c.SendWords(3, want))
	if ws := get(t, got, "words"); !reflect.DeepEqual(ws, want) {
		t.Errorf("%+v", ws)
	}
	if n := c.Stats().Ignored; n != 3 {
		t.Errorf("ignored %d", n)
	}
}

func TestWordsForManyWaitersTravelInSeveralMessages(t *testing.T) {
	c := newStand(t).open(Options{})
	got := make(chan []Word, 99)
	s, err := c.OnWords(0, func(ws []Word) { got <- ws })
	stop(t, s, err)
	ws := make([]Word, 10_000)
	for i := range ws {
		ws[i] = Word{Kind: WordCleared, Gate: "charge", Member: fmt.Sprintf("%022d instance-%d 1.2", i, i)}
	}
	ok(t, c.SendWords(0, ws))
	for n := 0; n < len(ws); {
		for _, w := range get(t, got, "words") {
			if w != ws[n] {
				t.Fatalf("word %d is %+v", n, w)
			}
			n++
		}
	}
}

func TestALevelIsAnActionAGroupOrGlobal(t *testing.T) {
	for level, good := range map[string]bool{
		"global": true, "action:charge-card": true, "group:pay.ments": true,
		"": false, "charge-card": false, "action:": false, "action:a/b": false, "group:a b": false, "global:x": false, "Action:x": false, "action:a:b": false,
		strings.Repeat("x", 10_000): false,
	} {
		err := CheckLevel(level)
		if good != (err == nil) || err != nil && (!errors.Is(err, ErrBadName) || len(err.Error()) > 1000) {
			t.Errorf("%.50q: %v", level, err)
		}
	}
}

func TestAPolicyReachesTheOwnerAsItWasSet(t *testing.T) {
	c := newStand(t).open(Options{})
	s, err := c.ServeAsks(0, func(_ context.Context, a Ask) Reply {
		return Reply{Policies: []LevelPolicy{{Level: a.Level, Policy: *a.Policy}}, Cleared: 7}
	})
	stop(t, s, err)
	rapid.Check(t, func(t *rapid.T) {
		p := history.Policy{
			Concurrency: rapid.Uint32().Draw(t, "concurrency"), Rate: rapid.Uint32().Draw(t, "rate"), RateWindow: rapid.Int64().Draw(t, "rate window"), Quota: rapid.Uint64().Draw(t, "quota"),
			QuotaWindow: rapid.Int64().Draw(t, "quota window"), Key: rapid.StringN(0, 20, 60).Draw(t, "key"), QueueLimit: rapid.Uint32().Draw(t, "limit"), QueueTimeout: rapid.Int64().Draw(t, "timeout"), Reject: rapid.Bool().Draw(t, "reject"),
		}
		r, err := c.Ask(context.Background(), 0, Ask{Op: OpSetPolicy, Level: "global", Policy: &p})
		if err != nil || r.Cleared != 7 || len(r.Policies) != 1 || r.Policies[0] != (LevelPolicy{Level: "global", Policy: p}) {
			t.Fatalf("%+v, %v", r, err)
		}
	})
}
