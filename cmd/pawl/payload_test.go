package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

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
		if got := string(readable(p)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestAnArgumentMayNameAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "in.json")
	if err := os.WriteFile(file, []byte(`{"id":"o-1"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := input("@" + file)
	if err != nil || string(p.Data) != `{"id":"o-1"}` || p.Type != history.TypeJSON {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := input("@" + file + ".missing"); err == nil {
		t.Error("no error")
	}
}

func TestEveryEventHasALineAndAnObject(t *testing.T) {
	failure := history.Failure{Message: "no luck", Data: packed(t, "why")}
	for _, c := range []struct {
		event history.Event
		want  string
	}{
		{&history.Started{Name: "hello", Payload: packed(t, "Ada"), By: "ops"}, `hello "Ada" by ops`},
		{&history.EventReceived{Name: "poke", By: "ops"}, "poke by ops"},
		{&history.CancelRequested{By: "ops", Text: "enough"}, "by ops: enough"},
		{&history.ActivityScheduled{Name: "greet", Attempt: 2}, "greet (attempt 2)"},
		{&history.ActivityCompleted{Scheduled: 2, Worker: "w", Claims: 2, Result: packed(t, 1)}, "of 2 on w (claim 2) 1"},
		{&history.ActivityFailed{Scheduled: 2, Worker: "w", Claims: 1, Failure: failure}, "of 2 on w no luck"},
		{&history.ActivityCancelRequested{Scheduled: 2, Reason: cancel.LostSelect}, "of 2: lost-select"},
		{&history.TimerScheduled{FireAt: 1000}, "for 1970-01-01 00:00:01.000 UTC"},
		{&history.TimerFired{Timer: 3}, "of 3"},
		{&history.TimerCancelled{Timer: 3}, "of 3"},
		{&history.Completed{Result: packed(t, "done")}, `"done"`},
		{&history.Failed{Failure: failure}, "no luck"},
		{&history.Cancelled{Failure: failure, By: "ops"}, "no luck by ops"},
		{&history.Cancelled{Failure: history.Failure{Code: history.CodeCancelled, Message: "cancelled: requested by ops"}, By: "ops"}, "cancelled: requested by ops"},
	} {
		if got := summary(c.event); got != c.want {
			t.Errorf("%s: got %q, want %q", kind(c.event), got, c.want)
		}
		var b strings.Builder
		if err := writeJSON(&b, eventJSON(c.event)); err != nil || !strings.Contains(b.String(), kind(c.event)) {
			t.Errorf("%s: %s, %v", kind(c.event), b.String(), err)
		}
	}
}
