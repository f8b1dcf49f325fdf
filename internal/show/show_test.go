package show_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

func packed(t *testing.T, v any) history.Payload {
	t.Helper()
	b, err := msgpack.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return history.Payload{Type: history.TypeMsgpack, Data: b}
}

func TestAnyPayloadIsShownAsJSON(t *testing.T) {
	for want, p := range map[string]history.Payload{
		"":                      {},
		`{"a":1}`:               {Type: history.TypeJSON, Data: []byte(`{"a":1}`)},
		`{"b":1}`:               {Type: "application/vnd.pawl.cancelled+json", Data: []byte(`{"b":1}`)},
		`{"a":[1,"x",null]}`:    packed(t, map[string]any{"a": []any{1, "x", nil}}),
		`{"1":{"true":"deep"}}`: packed(t, map[int]any{1: map[bool]string{true: "deep"}}),
		`18446744073709551615`:  packed(t, uint64(1<<64-1)),
		`"AQI="`:                {Type: "image/png", Data: []byte{1, 2}},
		`"wQ=="`:                {Type: history.TypeMsgpack, Data: []byte{0xc1}}, // never used by msgpack
		`"ew=="`:                {Type: history.TypeJSON, Data: []byte("{")},
	} {
		if got := string(show.Payload(p)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

type shown struct {
	event history.Event
	want  string
}

// all has every kind of event.
func all(t *testing.T) []shown {
	t.Helper()
	failure := history.Failure{Message: "no luck", Data: packed(t, "why")}
	lines := []shown{
		{&history.Started{Name: "hello", Payload: packed(t, "Ada"), By: "ops"}, `hello "Ada" by ops`},
		{&history.EventReceived{Name: "poke", By: "ops"}, "poke by ops"},
		{&history.CancelRequested{By: "ops", Text: "enough"}, "by ops: enough"},
		{&history.ActivityScheduled{Name: "greet", Attempt: 2}, "greet (attempt 2)"},
		{&history.ActivityCompleted{Scheduled: 2, Worker: "w", Claims: 2, Result: packed(t, 1)}, "of 2 on w (claim 2) 1"},
		{&history.ActivityCompleted{Scheduled: 2, Worker: "w", Claims: 1}, "of 2 on w"},
		{&history.ActivityFailed{Scheduled: 2, Worker: "w", Claims: 1, Failure: failure}, "of 2 on w no luck"},
		{&history.ActivityCancelRequested{Scheduled: 2, Reason: cancel.LostSelect}, "of 2: lost-select"},
		{&history.TimerScheduled{FireAt: 1000}, "for 1970-01-01 00:00:01.000 UTC"},
		{&history.TimerFired{Timer: 3}, "of 3"},
		{&history.TimerCancelled{Timer: 3}, "of 3"},
		{&history.SideEffectRecorded{Result: packed(t, 7)}, "7"},
		{&history.SideEffectRecorded{Failure: &failure}, "failed: no luck"},
		{&history.Completed{Result: packed(t, "done")}, `"done"`},
		{&history.Failed{Failure: failure}, "no luck"},
		{&history.Cancelled{Failure: failure, By: "ops"}, "no luck by ops"},
		{&history.Cancelled{Failure: history.Failure{Code: history.CodeCancelled, Message: "cancelled: requested by ops"}, By: "ops"}, "cancelled: requested by ops"},
	}
	for i := range lines {
		lines[i].event.Meta().ID, lines[i].event.Meta().At = uint64(i)+1, 1_790_000_000_000
	}
	return lines
}

func TestEveryEventHasALine(t *testing.T) {
	for _, c := range all(t) {
		if got := show.Summary(c.event); got != c.want {
			t.Errorf("%s: got %q, want %q", show.Kind(c.event), got, c.want)
		}
	}
}

func TestAnExportedHistoryIsReadAsItWas(t *testing.T) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, c := range all(t) {
		o, err := show.JSON("order-42", c.event)
		if err != nil {
			t.Fatal(err)
		}
		if err := enc.Encode(o); err != nil {
			t.Fatal(err)
		}
	}
	instance, events, err := show.Read(&b)
	if err != nil || instance != "order-42" || len(events) != len(all(t)) {
		t.Fatalf("%d events of %q, %v", len(events), instance, err)
	}
	for i, c := range all(t) {
		if !reflect.DeepEqual(events[i], c.event) {
			t.Errorf("%#v became %#v", c.event, events[i])
		}
	}
}

func TestAnExportThatIsNoneSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		`{"id":1,"instance":"a"}`:                  `no field "raw"`,
		`{"id":2,"instance":"a","raw":"lAEJAAg="}`: "exported whole",
		`{"id":1,"instance":"a","raw":"lAEJAA=="}`: "corrupt",
		`{"id":1,"instance":"a","raw":"kwEeAA=="}`: "newer version",
		"{\"id\":1,\"instance\":\"a\",\"raw\":\"lAEJAAg=\"}\n{\"id\":2,\"instance\":\"b\",\"raw\":\"lAEJAAg=\"}": "of instance b",
		"ID AT EVENT": "line 1",
	} {
		if _, _, err := show.Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
