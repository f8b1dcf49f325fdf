package show_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

func jsonOf(t *testing.T, v any) history.Payload {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return history.Payload{Type: history.TypeJSON, Data: b}
}

func TestAnyPayloadIsShownAsJSON(t *testing.T) {
	for want, p := range map[string]history.Payload{
		"":                     {},
		`{"a":1}`:              {Type: history.TypeJSON, Data: []byte(`{"a":1}`)},
		`{"b":1}`:              {Type: "application/vnd.pawl.cancelled+json", Data: []byte(`{"b":1}`)},
		`{"a":[1,"x",null]}`:   jsonOf(t, map[string]any{"a": []any{1, "x", nil}}),
		`18446744073709551615`: jsonOf(t, uint64(1<<64-1)),
		`"AQI="`:               {Type: "image/png", Data: []byte{1, 2}},
		`"gA=="`:               {Type: "application/msgpack", Data: []byte{0x80}},
		`"{"`:                  {Type: history.TypeJSON, Data: []byte("{")},
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

func shownEvents(t *testing.T) []shown {
	t.Helper()
	failure := history.Failure{Message: "no luck", Data: jsonOf(t, "why")}
	return []shown{
		{&history.Started{Name: "hello", Payload: jsonOf(t, "Ada"), By: "ops"}, `hello "Ada" by ops`},
		{&history.Started{Name: "hello", Version: "2", By: "party-1", Parent: &history.Parent{Instance: "party-1"}}, "hello (version 2, child of party-1)"},
		{&history.Started{Name: "hello", By: "ops", Parent: &history.Parent{Instance: "party-1"}}, "hello (child of party-1) by ops"},
		{&history.EventReceived{Name: "poke", By: "ops"}, "poke by ops"},
		{&history.CancelRequested{By: "ops", Text: "enough"}, "by ops: enough"},
		{&history.CancelRequested{By: "party-1", Reason: cancel.LostSelect}, "lost-select by party-1"},
		{&history.ActivityScheduled{Name: "greet", Attempt: 2}, "greet (attempt 2)"},
		{&history.ActivityScheduled{Name: "greet", Attempt: 2, Limit: &history.Limit{Name: "greet/ada", Ticket: "t", Waiting: true}}, "greet (attempt 2, waits at limit greet/ada)"},
		{&history.ActivityScheduled{Name: "greet", Limit: &history.Limit{Name: "greet", Ticket: "t"}}, "greet"},
		{&history.Started{Name: "hello", Limit: &history.Limit{Name: "hello", Ticket: "t", Waiting: true}}, "hello (waits at limit hello)"},
		{&history.Granted{Scheduled: 2}, "of 2"},
		{&history.Observed{}, "every input that had arrived"},
		{&history.UpdateReceived{Name: "approve", UpdateID: "k-1", Payload: jsonOf(t, true), By: "ops"}, "approve k-1 true by ops"},
		{&history.UpdateAnswered{Update: 2, Result: jsonOf(t, 7)}, "of 2 7"},
		{&history.UpdateAnswered{Update: 2, Failure: &failure}, "of 2: rejected: no luck"},
		{&history.ActivityFailed{Scheduled: 2, Failure: history.Failure{Code: history.CodeQueueFull, Message: "queue full"}}, "of 2 queue full"},
		{&history.TimerScheduled{FireAt: 1000, RetainsSlotOf: 2}, "for 1970-01-01 00:00:01.000 UTC, keeping the slot of 2"},
		{&history.ActivityCompleted{Scheduled: 2, Worker: "w", Claims: 2, Result: jsonOf(t, 1)}, "of 2 on w (claim 2) 1"},
		{&history.ActivityCompleted{Scheduled: 2, Worker: "w", Claims: 1}, "of 2 on w"},
		{&history.ActivityFailed{Scheduled: 2, Worker: "w", Claims: 1, Failure: failure}, "of 2 on w no luck"},
		{&history.ActivityCancelRequested{Scheduled: 2, Reason: cancel.LostSelect}, "of 2: lost-select"},
		{&history.TimerScheduled{FireAt: 1000, AttemptTimeoutOf: 2}, "for 1970-01-01 00:00:01.000 UTC, limits 2"},
		{&history.TimerScheduled{FireAt: 1000}, "for 1970-01-01 00:00:01.000 UTC"},
		{&history.TimerFired{Timer: 3}, "of 3"},
		{&history.TimerCancelled{Timer: 3}, "of 3"},
		{&history.SideEffectRecorded{Result: jsonOf(t, 7)}, "7"},
		{&history.SideEffectRecorded{Failure: &failure}, "failed: no luck"},
		{&history.ChildScheduled{Name: "hello", Instance: "h-1", Payload: jsonOf(t, "Ada")}, `hello as h-1 "Ada"`},
		{&history.ChildScheduled{Name: "hello", Instance: "h-1", Version: "2", Abandon: true}, "hello as h-1 (version 2, outlives its parent)"},
		{&history.ChildScheduled{Name: "hello", Instance: "h-1", Detached: true}, "hello as h-1 (detached)"},
		{&history.ChildCompleted{Scheduled: 4, Result: jsonOf(t, "done")}, `of 4 "done"`},
		{&history.ChildFailed{Scheduled: 4, Failure: failure}, "of 4: no luck"},
		{&history.ChildCancelRequested{Scheduled: 4, Reason: cancel.Requested, By: "ops", Text: "enough"}, "of 4: requested by ops: enough"},
		{&history.EventSent{Instance: "order-42", Name: "approved", Payload: jsonOf(t, true)}, "approved to order-42 true"},
		{&history.EventSent{Instance: "cart-7", Name: "added", Payload: jsonOf(t, 3), Start: &history.SentStart{Name: "cart", Payload: jsonOf(t, "new")}}, `added to cart-7 (or a new cart "new") 3`},
		{&history.Broadcast{Verb: "pause", Instances: []string{"a", "b"}, Text: "stocktaking"}, "pause to 2 instances: stocktaking"},
		{&history.Broadcast{Verb: "pause", Instances: []string{"order-42"}, Text: "stocktaking"}, "pause to order-42: stocktaking"},
		{&history.Broadcast{Verb: "event", Name: "paid", Instances: []string{"a", "b"}, Payload: jsonOf(t, true)}, "event paid to 2 instances true"},
		{&history.PurgeRequested{By: "ops", Text: "tidy"}, "by ops: tidy"},
		{&history.OperatorRequested{Verb: history.VerbPause, By: "ops", Text: "wait"}, "pause by ops: wait"},
		{&history.Paused{By: "ops", Stop: true}, "activities stopped by ops"},
		{&history.Resumed{By: "ops"}, "by ops"},
		{&history.Rewound{Execution: 2, From: 1, By: "ops"}, "execution 2 begins with these events of 1 by ops"},
		{&history.PurgeRequested{By: "ops", Force: true}, "forced by ops"},
		{&history.PatchMarked{Name: "check-twice"}, "check-twice"},
		{&history.Refused{Of: history.KindActivityScheduled, Name: "charge-card", Failure: failure}, "charge-card: no luck"},
		{&history.ContinuedAsNew{Payload: jsonOf(t, 12)}, "12"},
		{&history.ContinuedAsNew{Payload: jsonOf(t, 12), Version: "2"}, "(version 2) 12"},
		{&history.Completed{Result: jsonOf(t, "done")}, `"done"`},
		{&history.Failed{Failure: failure}, "no luck"},
		{&history.Cancelled{Failure: failure, By: "ops"}, "no luck by ops"},
		{&history.Cancelled{Failure: history.Failure{Code: history.CodeCancelled, Message: "cancelled: requested by ops"}, By: "ops"}, "cancelled: requested by ops"},
	}
}

func TestEveryKindOfEventHasASummary(t *testing.T) {
	there := make(map[history.Kind]bool)
	for _, c := range shownEvents(t) {
		there[c.event.Kind()] = true
		if got := show.Summary(c.event); got != c.want {
			t.Errorf("%s: got %q, want %q", show.Kind(c.event), got, c.want)
		}
	}
	for _, e := range everyKind(t) {
		if !there[e.Kind()] || show.Summary(e) == "" {
			t.Errorf("%s is shown as %q, and has lines in this test: %v", show.Kind(e), show.Summary(e), there[e.Kind()])
		}
	}
}

// everyKind returns an event of each kind that this build reads, with every field set. It
// takes the kinds from the codec, so that none is missing here.
func everyKind(t *testing.T) []history.Event {
	t.Helper()
	var all []history.Event
	for kind := history.Kind(1); kind > 0; kind++ {
		id := uint64(len(all)) + 1
		b, err := msgpack.Marshal([]any{eventcodec.Version, uint8(kind), int64(1_790_000_000_000)})
		if err != nil {
			t.Fatal(err)
		}
		e, err := eventcodec.Decode(id, b)
		if errors.Is(err, eventcodec.ErrNewerVersion) {
			continue
		}
		if err != nil {
			t.Fatalf("kind %d: %v", kind, err)
		}
		for name, field := range reflect.ValueOf(e).Elem().Fields() {
			if name.Name != "Head" {
				fill(t, field)
			}
		}
		all = append(all, e)
	}
	if len(all) < 21 {
		t.Fatalf("only %d kinds, fewer than 21", len(all))
	}
	return all
}

// fill sets a value and all values in it to non-zero values.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	if v.Type() == reflect.TypeFor[history.Payload]() {
		v.Set(reflect.ValueOf(history.Payload{Type: history.TypeJSON, Data: []byte(`{"n":1}`)}))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(t, field)
		}
		if p, ok := reflect.TypeAssert[*history.Policy](v.Addr()); ok {
			p.Paused, p.PausedBy, p.PausedFor, p.PausedAt = false, "", "", 0 // the policies in histories are those that code declares, and it declares no pause
		}
	default:
		t.Fatalf("cannot fill a %s", v.Type())
	}
}

func exported(t *testing.T, events []history.Event) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, e := range events {
		o, err := show.JSON("order-42", e)
		if err == nil {
			err = enc.Encode(o)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return &b
}

func TestExportedHistoryRoundTrips(t *testing.T) {
	every := everyKind(t)
	for _, c := range shownEvents(t) {
		c.event.Meta().ID, c.event.Meta().At = uint64(len(every))+1, 1_790_000_000_000
		every = append(every, c.event)
	}
	instance, events, err := show.Read(exported(t, every))
	if err != nil || instance != "order-42" || len(events) != len(every) {
		t.Fatalf("%d events of %q, %v", len(events), instance, err)
	}
	for i, e := range every {
		if !reflect.DeepEqual(events[i], e) {
			t.Errorf("%#v became %#v", e, events[i])
		}
	}
}

func TestUnknownFieldsOfAnExportedEventAreSkipped(t *testing.T) {
	cancelled := &history.ActivityCancelRequested{Scheduled: 2, Reason: cancel.LostSelect}
	cancelled.ID, cancelled.At = 1, 1_790_000_000_000
	l, err := show.JSON("order-42", cancelled)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(struct {
		show.Line
		Report map[string]any `json:"report"`
	}{l, map[string]any{"how": "stopped", "after_ms": 12}})
	if err != nil {
		t.Fatal(err)
	}
	instance, events, err := show.Read(bytes.NewReader(text))
	if err != nil || instance != "order-42" || len(events) != 1 || !reflect.DeepEqual(events[0], cancelled) {
		t.Errorf("%s became %#v of %s, %v", text, events, instance, err)
	}
}

func TestExportedEventHasEveryFieldByItsName(t *testing.T) {
	for _, e := range everyKind(t) {
		var line struct {
			Kind   string         `json:"kind"`
			Fields map[string]any `json:"fields"`
		}
		if err := json.Unmarshal(exported(t, []history.Event{e}).Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		if line.Kind != show.Kind(e) || len(line.Fields) != reflect.TypeOf(e).Elem().NumField()-1 { // without the head
			t.Errorf("%s has the fields %v", line.Kind, line.Fields)
		}
		empty(t, line.Kind, line.Fields)
	}
}

// empty reports zero values, and names that do not follow the convention of exported histories.
func empty(t *testing.T, where string, v any) {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			if name == "" || name != strings.ToLower(name[:1])+name[1:] {
				t.Errorf("%s has a field named %q", where, name)
			}
			empty(t, where+"."+name, x)
		}
	case nil:
		t.Errorf("%s is empty", where)
	}
}

func TestExportedEventOmitsEmptyFields(t *testing.T) {
	text := exported(t, []history.Event{
		&history.Started{Name: "hello"}, &history.CancelRequested{By: "ops"}, &history.SideEffectRecorded{Result: jsonOf(t, 1)},
		&history.ActivityScheduled{Name: "greet"}, &history.TimerScheduled{FireAt: 1},
	}).String()
	for _, not := range []string{`"parent"`, `"reason"`, `"failure"`, `"limit"`, `"retainsSlotOf"`} {
		if strings.Contains(text, not) {
			t.Errorf("%s stands in\n%s", not, text)
		}
	}
}

func TestInvalidExportIsAnErrorWithItsReason(t *testing.T) {
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

func TestRewindPlanListsActivitiesThatRunAgainAndResultsThatAreKept(t *testing.T) {
	events := []history.Event{
		&history.Started{Name: "o"},
		&history.ActivityScheduled{Name: "charge", Effect: "e2"}, &history.ActivityScheduled{Name: "ship", Effect: "e3"},
		&history.ChildScheduled{Name: "c", Instance: "c-1", Effect: "e4"}, &history.ChildScheduled{Name: "c", Instance: "c-2", Effect: "e5"},
		&history.ActivityCompleted{Scheduled: 2}, &history.ActivityFailed{Scheduled: 3, Failure: history.Failure{Message: "no truck"}},
		&history.ChildCompleted{Scheduled: 4, Effect: "e4"},
		&history.EventReceived{Name: "go"}, &history.ChildScheduled{Name: "c", Instance: "c-3", Effect: "e10"},
		&history.UpdateReceived{Name: "u", UpdateID: "1"}, &history.UpdateReceived{Name: "u", UpdateID: "2"},
	}
	for i, e := range events {
		e.Meta().ID = uint64(i) + 1
	}
	p, err := fold.PlanRewind(events, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := `o-1 would keep events 1 to 5
runs again: activity ship (event 3)
waits again: child c-2 (event 5); retry it first if it has failed
undone: child c-3 (event 10)
keeps its result: activity charge (event 2)
keeps its result: child c-1 (event 4)
received again: 1 event
received again: 2 updates`
	if got := strings.Join(show.RewindPlan("o-1", &p.RewindPlan), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
