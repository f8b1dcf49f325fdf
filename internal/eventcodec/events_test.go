package eventcodec_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// events draws events of every kind.
func events(t *rapid.T) []history.Event {
	str := func(name string) string { return rapid.String().Draw(t, name) }
	payload := func(name string) history.Payload {
		p := history.Payload{Type: rapid.SampledFrom([]string{"", history.TypeJSON, "image/png"}).Draw(t, name+" type")}
		if p.Type != "" {
			p.Data = rapid.SliceOfN(rapid.Byte(), 1, 50).Draw(t, name)
		}
		return p
	}
	id, n := rapid.Uint64(), rapid.Uint32()
	failure := history.Failure{
		Code: str("code"), Message: str("message"), Data: payload("data"), Permanent: rapid.Bool().Draw(t, "permanent"), Stack: str("stack"),
	}
	if also := rapid.SliceOf(rapid.String()).Draw(t, "also"); len(also) > 0 {
		failure.Also = also
	}
	all := []history.Event{
		&history.Started{
			Name: str("name"), Version: str("version"), Payload: payload("input"), Execution: id.Draw(t, "execution"), By: str("by"),
			Origin: history.Position{Seq: id.Draw(t, "seq"), Time: rapid.Int64().Draw(t, "time")},
		},
		&history.EventReceived{Name: str("event"), Payload: payload("event payload"), MsgID: str("msg id"), By: str("by")},
		&history.CancelRequested{By: str("by"), Text: str("text")},
		&history.ActivityScheduled{Name: str("activity"), Queue: str("queue"), Payload: payload("in"), Effect: str("effect"), Attempt: n.Draw(t, "attempt")},
		&history.ActivityScheduled{Name: str("activity"), Effect: str("effect"), Attempt: n.Draw(t, "attempt"), First: str("first")},
		&history.ActivityCompleted{Scheduled: id.Draw(t, "scheduled"), Result: payload("result"), Worker: str("worker"), Claims: n.Draw(t, "claims"), RanMS: n.Draw(t, "ran")},
		&history.ActivityFailed{Scheduled: id.Draw(t, "scheduled"), Failure: failure, Worker: str("worker"), Claims: n.Draw(t, "claims")},
		&history.ActivityCancelRequested{
			Scheduled: id.Draw(t, "scheduled"), Reason: cancel.Reason(rapid.Byte().Draw(t, "reason")), By: str("by"), Text: str("text"),
		},
		&history.TimerScheduled{FireAt: rapid.Int64().Draw(t, "fire at")},
		&history.TimerFired{Timer: id.Draw(t, "timer")},
		&history.TimerCancelled{Timer: id.Draw(t, "timer")},
		&history.Completed{Result: payload("end")},
		&history.Failed{Failure: failure},
		&history.Cancelled{Failure: failure, By: str("by"), Text: str("text")},
		&history.SideEffectRecorded{Result: payload("effect")},
		&history.SideEffectRecorded{Result: payload("result next to a failure"), Failure: &failure},
		&history.Started{
			Name: str("name"), Payload: payload("input"), Execution: id.Draw(t, "execution"), StatusVersion: id.Draw(t, "statuses"), CustomStatus: payload("status"),
			Parent: &history.Parent{
				Instance: "p" + str("parent"), Origin: history.Position{Seq: id.Draw(t, "seq"), Time: rapid.Int64().Draw(t, "time")},
				Execution: id.Draw(t, "execution"), Event: id.Draw(t, "event"), Effect: str("effect"),
			},
		},
		&history.CancelRequested{By: str("by"), Text: str("text"), Reason: cancel.Reason(rapid.Byte().Draw(t, "reason")), Of: str("of")},
		&history.ContinuedAsNew{Payload: payload("next"), Version: str("version")},
		&history.ChildScheduled{
			Name: str("child"), Version: str("version"), Instance: str("id"), Payload: payload("in"), Effect: str("effect"),
			Abandon: rapid.Bool().Draw(t, "abandon"), Detached: rapid.Bool().Draw(t, "detached"),
		},
		&history.ChildCompleted{Scheduled: id.Draw(t, "scheduled"), Effect: str("effect"), Result: payload("result")},
		&history.ChildFailed{Scheduled: id.Draw(t, "scheduled"), Effect: str("effect"), Failure: failure},
		&history.ChildCancelRequested{
			Scheduled: id.Draw(t, "scheduled"), Reason: cancel.Reason(rapid.Byte().Draw(t, "reason")), By: str("by"), Text: str("text"),
		},
		&history.EventSent{Instance: str("to"), Name: str("event"), Payload: payload("payload"), Effect: str("effect")},
		&history.EventSent{
			Instance: str("to"), Name: str("event"), Payload: payload("payload"), Effect: str("effect"),
			Start: &history.SentStart{Name: "o" + str("orchestration"), Version: str("version"), Payload: payload("input")},
		},
		&history.Broadcast{
			Verb: str("verb"), Text: str("text"), Name: str("event"), Payload: payload("payload"), To: id.Draw(t, "to"),
			Instances: rapid.SliceOfN(rapid.String(), 1, 5).Draw(t, "instances"), Stop: rapid.Bool().Draw(t, "stop"),
			Start: rapid.Bool().Draw(t, "start"), Force: rapid.Bool().Draw(t, "force"), Of: str("of"),
		},
		&history.PatchMarked{Name: str("patch")},
		&history.Refused{Of: history.Kind(rapid.Byte().Draw(t, "of")), Name: str("name"), Failure: history.Failure{Code: str("code"), Message: str("message")}},
		&history.PurgeRequested{By: str("by"), Text: str("text"), Force: rapid.Bool().Draw(t, "force"), Reply: str("reply")},
		&history.Granted{Scheduled: id.Draw(t, "scheduled")},
		&history.Observed{},
		&history.UpdateReceived{
			Name: str("update"), UpdateID: str("update id"), Payload: payload("input"), By: str("by"), Reply: str("reply"), Deadline: rapid.Int64().Draw(t, "deadline"),
		},
		&history.UpdateAnswered{Update: id.Draw(t, "update"), Result: payload("answer")},
		&history.UpdateAnswered{Update: id.Draw(t, "update"), Failure: &history.Failure{Code: str("code"), Message: str("message")}},
		&history.TimerScheduled{FireAt: rapid.Int64().Draw(t, "fire at"), RetainsSlotOf: id.Draw(t, "retains")},
		&history.TimerScheduled{FireAt: rapid.Int64().Draw(t, "fire at"), AttemptTimeoutOf: id.Draw(t, "limits")},
		&history.ActivityScheduled{Name: str("activity"), Effect: str("effect"), First: str("first"), Limit: drawLimit(t)},
		&history.Started{Name: str("name"), Payload: payload("input"), Limit: drawLimit(t)},
		&history.Started{Name: str("name"), Parent: &history.Parent{Instance: "p" + str("parent"), HeldLimits: str("holds")}},
	}
	for i, e := range all {
		e.Meta().ID, e.Meta().At = uint64(i+1), rapid.Int64().Draw(t, "at")
	}
	return all
}

// drawLimit draws a limit with at least one field set.
func drawLimit(t *rapid.T) *history.Limit {
	policy := func(name string) *history.Policy {
		if !rapid.Bool().Draw(t, name) {
			return nil
		}
		return &history.Policy{
			Concurrency: rapid.Uint32().Draw(t, "concurrency"), Rate: rapid.Uint32().Draw(t, "rate"), RateWindow: rapid.Int64().Draw(t, "rate window"),
			Quota: rapid.Uint64().Draw(t, "quota"), QuotaWindow: rapid.Int64().Draw(t, "quota window"), Key: rapid.String().Draw(t, "key"),
			QueueLimit: rapid.Uint32().Draw(t, "queue limit"), QueueTimeout: rapid.Int64().Draw(t, "queue timeout"), Reject: rapid.Bool().Draw(t, "reject"),
		}
	}
	return &history.Limit{
		Name: "g" + rapid.String().Draw(t, "limit"), Ticket: rapid.String().Draw(t, "ticket"), Waiting: rapid.Bool().Draw(t, "waits"), Retain: rapid.Bool().Draw(t, "keep"),
		HeldByAncestor: rapid.String().Draw(t, "ancestor"),
		WaitingSince:   rapid.Int64().Draw(t, "since"),
		Declared:       history.Declared{Action: policy("action"), Group: rapid.String().Draw(t, "group"), GroupPolicy: policy("of")},
	}
}

func encode(t testing.TB, e history.Event) []byte {
	t.Helper()
	b, err := eventcodec.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestEncodedEventDecodesToItself(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		for _, e := range events(rt) {
			got, err := eventcodec.Decode(e.Meta().ID, encode(t, e))
			if err != nil || !reflect.DeepEqual(got, e) {
				rt.Fatalf("%#v became %#v, %v", e, got, err)
			}
		}
	})
}

// golden returns events of every kind that together set every field. New events are appended, as are their lines in the golden file,
// which was rewritten only once, for format 1 (decision 42).
func golden() []history.Event {
	p := history.Payload{Type: history.TypeJSON, Data: []byte(`[1,2,3]`)}
	f := history.Failure{
		Code: "card-declined", Message: "charge order-42: card-declined", Permanent: true, Stack: "goroutine 1", Also: []string{"a", "b"},
		Data: history.Payload{Type: history.TypeJSON, Data: []byte(`{"left":3}`)},
	}
	all := []history.Event{
		&history.Started{Name: "fulfil-order", Version: "v1", Payload: p, Origin: history.Position{Seq: 1 << 40, Time: 1_790_000_000_123_456_789}, Execution: 3, By: "shop"},
		&history.EventReceived{Name: "approved", Payload: history.Payload{Type: "text/plain", Data: []byte("yes")}, MsgID: "m-1", By: "finance"},
		&history.CancelRequested{By: "ops", Text: "fraud"},
		&history.ActivityScheduled{Name: "charge-card", Queue: "payments", Payload: p, Effect: "kq3vVYb2hA7rTn0cXw9dLw", Attempt: 2},
		&history.ActivityCompleted{Scheduled: 4, Result: p, Worker: "w1", Claims: 1},
		&history.ActivityFailed{Scheduled: 4, Failure: f, Worker: "w1", Claims: 300},
		&history.ActivityCancelRequested{Scheduled: 4, Reason: cancel.LostSelect, By: "select", Text: "deadline won"},
		&history.TimerScheduled{FireAt: 1_790_000_060_000},
		&history.TimerFired{Timer: 8},
		&history.TimerCancelled{Timer: 8},
		&history.Completed{Result: p},
		&history.Failed{Failure: f},
		&history.Cancelled{Failure: f, By: "ops", Text: "fraud"},
		&history.SideEffectRecorded{Result: p},
		&history.SideEffectRecorded{Failure: &f},
		&history.ContinuedAsNew{Payload: p, Version: "v2"},
		&history.ChildScheduled{Name: "ship", Version: "v2", Instance: "order-42~1-7", Payload: p, Effect: "kq3vVYb2hA7rTn0cXw9dLw", Abandon: true, Detached: true},
		&history.ChildCompleted{Scheduled: 17, Effect: "kq3vVYb2hA7rTn0cXw9dLw", Result: p},
		&history.ChildFailed{Scheduled: 17, Effect: "kq3vVYb2hA7rTn0cXw9dLw", Failure: f},
		&history.ChildCancelRequested{Scheduled: 17, Reason: cancel.ScopeEnded, By: "order-42", Text: "no longer needed"},
		&history.EventSent{Instance: "tenant-7", Name: "paid", Payload: p, Effect: "kq3vVYb2hA7rTn0cXw9dLw"},
		&history.PatchMarked{Name: "charge-first"},
		&history.Started{
			Name: "ship", Version: "v2", Payload: p, Origin: history.Position{Seq: 5, Time: 6}, Execution: 2, By: "order-42", StatusVersion: 3,
			Parent: &history.Parent{Instance: "order-42", Origin: history.Position{Seq: 7, Time: 8}, Execution: 1, Event: 17, Effect: "kq3vVYb2hA7rTn0cXw9dLw"},
		},
		&history.CancelRequested{By: "order-42", Text: "no longer needed", Reason: cancel.ScopeEnded, Of: "kq3vVYb2hA7rTn0cXw9dLw"},
		&history.PurgeRequested{By: "ops", Text: "GDPR", Force: true, Reply: "_INBOX.a.b"},
		&history.ActivityScheduled{Name: "charge-card", Queue: "payments", Payload: p, Effect: "kq3vVYb2hA7rTn0cXw9dLw", Attempt: 2, First: "Zq3vVYb2hA7rTn0cXw9dLw"},
		&history.Granted{Scheduled: 4},
		&history.TimerScheduled{FireAt: 1_790_000_060_000, RetainsSlotOf: 4},
		&history.ActivityScheduled{
			Name: "charge-card", Queue: "payments", Payload: p, Effect: "kq3vVYb2hA7rTn0cXw9dLw", Attempt: 1,
			Limit: &history.Limit{
				Name: "charge-card/acme", Ticket: "kq3vVYb2hA7rTn0cXw9dLw", Waiting: true, Retain: true, HeldByAncestor: "Zq3vVYb2hA7rTn0cXw9dLw", WaitingSince: 1_790_000_000_001,
				Declared: history.Declared{
					Group:       "payments",
					Action:      &history.Policy{Concurrency: 5, Key: "customer.id", QueueLimit: 100, QueueTimeout: -1},
					GroupPolicy: &history.Policy{Rate: 100, RateWindow: 1000, Quota: 1 << 40, QuotaWindow: 86_400_000, Reject: true},
				},
			},
		},
		&history.Started{
			Name: "ship", Payload: p, Origin: history.Position{Seq: 5, Time: 6}, Execution: 1,
			Parent: &history.Parent{Instance: "order-42", Origin: history.Position{Seq: 7, Time: 8}, Execution: 1, Event: 17, Effect: "kq3vVYb2hA7rTn0cXw9dLw", HeldLimits: "fulfil=abc"},
			Limit:  &history.Limit{Name: "ship", Ticket: "kq3vVYb2hA7rTn0cXw9dLw"},
		},
		&history.TimerScheduled{FireAt: 1_790_000_060_000, AttemptTimeoutOf: 4},
		&history.Observed{},
		&history.EventSent{
			Instance: "tenant-7", Name: "paid", Payload: p, Effect: "kq3vVYb2hA7rTn0cXw9dLw",
			Start: &history.SentStart{Name: "tenant", Version: "v2", Payload: p},
		},
		&history.Started{Name: "ship", Payload: p, Origin: history.Position{Seq: 5, Time: 6}, Execution: 2, StatusVersion: 3, CustomStatus: p},
		&history.Refused{Of: history.KindActivityScheduled, Name: "charge-card", Failure: f},
		&history.Started{Name: "ship", Payload: p, Execution: 2, Parent: &history.Parent{Instance: "order", Depth: 5, AncestorMarks: "x.y"}},
		&history.Started{Name: "ship", Payload: p, Execution: 2, Cancel: &history.CancelNote{At: 7, Reason: cancel.Purged, By: "ops", Text: "enough"}},
		&history.ChildScheduled{Name: "bill", Instance: "bill-1", Payload: p, Effect: "e", InDetachedScope: true},
		&history.UpdateReceived{Name: "approve", UpdateID: "k-1", Payload: p, By: "ops", Reply: "_INBOX.a.b", Deadline: 1_790_000_060_000},
		&history.UpdateAnswered{Update: 7, Result: p},
		&history.UpdateAnswered{Update: 7, Failure: &f},
		&history.Broadcast{Verb: "rewind", Instances: []string{"order-1", "order-2"}, Text: "a bad deploy", To: 7},
		&history.Broadcast{Verb: "event", Instances: []string{"order-1"}, Name: "paid", Payload: p},
		&history.ActivityCompleted{Scheduled: 4, Result: p, Worker: "w1", Claims: 1, RanMS: 70_000},
		&history.Broadcast{Verb: "terminate", Instances: []string{"nightly@2026-01-01T01:00:00Z"}, Of: "kq3vVYb2hA7rTn0cXw9dLw"},
	}
	for i, e := range all {
		e.Meta().ID, e.Meta().At = uint64(i+1), 1_790_000_000_000+int64(i)
	}
	return all
}

func TestGoldenFileDecodesAndIsWrittenUnchanged(t *testing.T) {
	path := filepath.Join("testdata", "events-v1.hex")
	want := golden()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(raw))
	for _, e := range want[min(len(lines), len(want)):] {
		t.Errorf("%s lacks a line for %T; append %x", path, e, encode(t, e))
	}
	for i, line := range lines {
		b, err := hex.DecodeString(line)
		if err != nil {
			t.Fatal(err)
		}
		got, err := eventcodec.Decode(uint64(i+1), b)
		if err != nil || !reflect.DeepEqual(got, want[i]) {
			t.Errorf("line %d: %#v, %v; want %#v", i+1, got, err, want[i])
		}
		if again := fmt.Sprintf("%x", encode(t, want[i])); again != line {
			t.Errorf("line %d: the encoding of %T has changed to %s", i+1, want[i], again)
		}
	}
}

func TestEventOfNewerBuildIsErrNewerVersion(t *testing.T) {
	for what, b := range map[string][]byte{
		"version": {0x93, 0x03, 0x01, 0x00},
		"kind":    {0x93, 0x01, 0x1e, 0x00},
		"kind that truncates to another one in a byte": {0x93, 0x01, 0xcd, 0x01, 0x02, 0x00},
	} {
		if _, err := eventcodec.Decode(5, b); !errors.Is(err, eventcodec.ErrNewerVersion) || !strings.Contains(err.Error(), "event 5") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestUnknownFieldsAreSkippedAndMissingFieldsAreZero(t *testing.T) {
	// version, kind, time, timer; then an array in an array, a map, a string.
	more := []byte{0x97, 0x01, 0x09, 0x00, 0x08, 0x92, 0x01, 0x91, 0x02, 0x81, 0xa1, 'k', 0x03, 0xa2, 'h', 'i'}
	e, err := eventcodec.Decode(1, more)
	if f, ok := e.(*history.TimerFired); err != nil || !ok || f.Timer != 8 {
		t.Fatalf("%#v, %v", e, err)
	}
	e, err = eventcodec.Decode(1, []byte{0x93, 0x01, 0x09, 0x00})
	if f, ok := e.(*history.TimerFired); err != nil || !ok || f.Timer != 0 {
		t.Fatalf("%#v, %v", e, err)
	}
}

// deep nests n arrays of one element.
func deep(head []byte, n int) []byte {
	b := append([]byte{}, head...)
	for range n {
		b = append(b, 0x91)
	}
	return b
}

func TestCorruptBytesAreErrCorrupt(t *testing.T) {
	whole := encode(t, golden()[0])
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	defer func() {
		if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 1<<30 {
			t.Errorf("%d MB were allocated", (after.TotalAlloc-before.TotalAlloc)>>20)
		}
	}()
	for what, b := range map[string][]byte{
		"no bytes":                       {},
		"not an array":                   {0x01},
		"nil":                            {0xc0},
		"empty array":                    {0x90},
		"version zero":                   {0x93, 0x00, 0x01, 0x00},
		"kind zero":                      {0x93, 0x01, 0x00, 0x00},
		"cut":                            whole[:len(whole)-1],
		"trailing bytes":                 append(append([]byte{}, whole...), 0),
		"a string for a number":          {0x93, 0x01, 0xa1, 'x', 0x00},
		"a reason over 255":              {0x97, 0x01, 0x07, 0x00, 0x01, 0xcd, 0x01, 0x02, 0xa0, 0xa0},
		"a count over 32 bits":           {0x98, 0x01, 0x05, 0x00, 0x01, 0xc0, 0xc0, 0xa0, 0xcf, 0, 0, 0, 1, 0, 0, 0, 0},
		"an array of 4 billion for type": {0x95, 0x01, 0x0b, 0x00, 0xdd, 0xff, 0xff, 0xff, 0xff, 0xc0},
		"a string of 4 billion bytes":    {0x95, 0x01, 0x03, 0x00, 0xdb, 0xff, 0xff, 0xff, 0xff, 0xc0},
		"an array of 4 billion to skip":  {0x95, 0x01, 0x09, 0x00, 0x08, 0xdd, 0xff, 0xff, 0xff, 0xff},
		"4 billion bytes of payload":     {0x95, 0x01, 0x0b, 0x00, 0x01, 0xc6, 0xff, 0xff, 0xff, 0xff},
		"a million levels to skip":       deep([]byte{0x95, 0x01, 0x09, 0x00, 0x08}, 1<<20),
		"a million levels for type":      deep([]byte{0x95, 0x01, 0x0b, 0x00}, 1<<20),
	} {
		if _, err := eventcodec.Decode(1, b); !errors.Is(err, eventcodec.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func FuzzDecodeReturnsEventOrTypedError(f *testing.F) {
	for _, e := range golden() {
		f.Add(encode(f, e))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := eventcodec.Decode(1, b)
		if err != nil {
			if !errors.Is(err, eventcodec.ErrCorrupt) && !errors.Is(err, eventcodec.ErrNewerVersion) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		again, err := eventcodec.Decode(1, encode(t, e))
		if err != nil || !reflect.DeepEqual(again, e) {
			t.Fatalf("%#v became %#v, %v", e, again, err)
		}
	})
}
